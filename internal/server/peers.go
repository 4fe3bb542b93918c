package server

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/notify"
)

// roster keeps the subscriber informed about the nodes, once for all subscriptions. It polls only while
// there are subscriptions.
type roster struct {
	nodes    func(ctx context.Context) ([]Node, error) // nil: there are no others
	tell     func(p *rousev1.Peers)
	log      *slog.Logger
	owner    *background
	draining context.Context

	mu      sync.Mutex
	users   int
	running bool
	asked   time.Time     // when the last poll ended, successful or not
	next    chan struct{} // closed by the next poll
	wake    chan struct{} // a subscription waits for the next poll
}

// Bounds on polling the nodes, and on the peers that are sent to a subscriber.
const (
	rosterEvery  = 2 * time.Second
	rosterWithin = 2 * time.Second
	maxPeers     = 255
)

func newRoster(o *Options, owner *background, draining context.Context) *roster {
	r := &roster{log: o.Log, owner: owner, draining: draining, next: make(chan struct{}), wake: make(chan struct{}, 1)}
	if o.Nodes != nil && o.Subscriber != nil {
		r.nodes, r.tell = o.Nodes, o.Subscriber.Peers
	}
	return r
}

// joinRoster begins a subscription. It waits, with a bound, until the subscriber has a fresh list of nodes,
// so that the subscription can begin with its own node. If the nodes cannot be listed, the subscription
// continues without them.
func (r *roster) joinRoster(ctx context.Context) {
	if r.nodes == nil {
		return
	}
	r.mu.Lock()
	r.users++
	fresh, next := time.Since(r.asked) < 2*rosterEvery, r.next
	switch {
	case !r.running:
		r.running = true
		r.owner.Go(r.pollNodes) // polls immediately
	case !fresh:
		notify.Send(r.wake)
	}
	r.mu.Unlock()
	if fresh {
		return
	}
	select {
	case <-next:
	case <-ctx.Done():
	case <-r.draining.Done():
	}
}

// leaveRoster ends the subscription that joinRoster began.
func (r *roster) leaveRoster() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users--
}

func (r *roster) hasSubscribers() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.users > 0
}

// pollNodes polls until the server drains.
func (r *roster) pollNodes() {
	tick := time.NewTicker(rosterEvery)
	defer tick.Stop()
	var told *rousev1.Peers
	var silent bool // the last poll failed
	for {
		if r.hasSubscribers() {
			p, err := r.queryPeers()
			switch {
			case r.draining.Err() != nil:
				return
			case err != nil && !silent:
				r.log.Warn("cannot list the nodes; subscribers keep the last list", "err", err)
			case err == nil && !proto.Equal(p, told):
				r.tell(p)
				told = p
			}
			silent = err != nil
			r.mu.Lock()
			r.asked = time.Now()
			close(r.next)
			r.next = make(chan struct{})
			r.mu.Unlock()
		}
		select {
		case <-tick.C:
		case <-r.wake:
		case <-r.draining.Done():
			return
		}
	}
}

// queryPeers returns the nodes to report to subscribers.
func (r *roster) queryPeers() (*rousev1.Peers, error) {
	ctx, cancel := context.WithTimeout(r.draining, rosterWithin)
	defer cancel()
	list, err := r.nodes(ctx)
	if err != nil {
		return nil, err
	}
	p := &rousev1.Peers{}
	for _, n := range list {
		switch {
		case n.Self:
			p.Self = &rousev1.Peer{Id: n.ID, Address: n.Address}
		case n.Address != "":
			p.Others = append(p.Others, &rousev1.Peer{Id: n.ID, Address: n.Address})
		}
	}
	slices.SortFunc(p.Others, func(a, b *rousev1.Peer) int { return strings.Compare(a.Id, b.Id) })
	p.Others = p.Others[:min(len(p.Others), maxPeers)]
	return p, nil
}
