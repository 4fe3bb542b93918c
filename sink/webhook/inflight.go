package webhook

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/throttle"
)

// inflight counts the requests in progress of each namespace to each address, so that one machine with many
// names takes no more than its part of the deliveries. Behind a proxy addresses are not known.
type inflight struct {
	most int

	mu sync.Mutex
	n  map[peer]int
}

// peer is an address to which a namespace sends requests, as throttle.Source has it.
type peer struct {
	namespace string
	addr      netip.Addr
}

// claim has the places of one request: of each address that is tried. Those that lose a race of addresses
// may ask after the request has ended.
type claim struct {
	of        *inflight
	namespace string
	held      []peer   // the mutex of inflight guards it
	ended     bool     // as this
	full      *crowded // the last address that had no place
}

// claimPlace takes a place for a request to an address, if the request has none there yet.
func (c *claim) claimPlace(addr netip.Addr) error {
	p := peer{c.namespace, throttle.Source(addr)}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if slices.Contains(c.held, p) {
		return nil
	}
	if c.ended || c.of.n[p] >= c.of.most {
		c.full = &crowded{p, c.of.most}
		return c.full
	}
	if c.of.n == nil {
		c.of.n = map[peer]int{}
	}
	c.of.n[p]++
	c.held = append(c.held, p)
	return nil
}

// crowdedOr returns that an address had no place, if one had none, in place of the error of another address:
// the fire may go there in a moment.
func (c *claim) crowdedOr(err error) error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if err != nil && c.full != nil {
		return c.full
	}
	return err
}

// freePlaces gives back the places of the request, which has ended.
func (c *claim) freePlaces() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	for _, p := range c.held {
		if c.of.n[p]--; c.of.n[p] == 0 {
			delete(c.of.n, p)
		}
	}
	c.held, c.ended = nil, true
}

// crowded is the error of a request to an address that has as many requests of the namespace as it may have.
type crowded struct {
	peer
	most int
}

func (e *crowded) Error() string {
	return fmt.Sprintf("not sent: %d requests of the namespace to the address %v are in progress (address-concurrency)",
		e.most, e.addr)
}

// deferredOutcome lets the fire wait, some longer than others, as many may wait for the same address.
func (e *crowded) deferredOutcome() rouse.Outcome {
	return rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBacklog, After: time.Second + rand.N(4*time.Second),
		Detail: e.Error()}
}
