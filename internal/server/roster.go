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

// roster keeps the subscriber informed of which nodes there are, for all subscriptions together. It asks while there are
// subscriptions, and not otherwise.
type roster struct {
	nodes    func(ctx context.Context) ([]Node, error) // nil: there are no others
	tell     func(p *rousev1.Peers)
	log      *slog.Logger
	owner    *background
	draining context.Context

	mu      sync.Mutex
	users   int
	running bool
	asked   time.Time     // when the last answer came, or did not
	next    chan struct{} // closed by the next one
	wake    chan struct{} // somebody waits for it
}

// Bounds on asking, and on what is told.
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

// join begins a subscription. It waits, within bounds, until what the subscriber knows is fresh, so that the subscription's
// first word can be which node it is on. If the nodes cannot be told now, the subscription goes on without.
func (r *roster) join(ctx context.Context) {
	if r.nodes == nil {
		return
	}
	r.mu.Lock()
	r.users++
	fresh, next := time.Since(r.asked) < 2*rosterEvery, r.next
	switch {
	case !r.running:
		r.running = true
		r.owner.Go(r.run) // which asks at once
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

// leave ends what join began.
func (r *roster) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users--
}

func (r *roster) used() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.users > 0
}

// run asks until the server drains.
func (r *roster) run() {
	tick := time.NewTicker(rosterEvery)
	defer tick.Stop()
	var told *rousev1.Peers
	var silent bool // the last answer did not come
	for {
		if r.used() {
			p, err := r.ask()
			switch {
			case r.draining.Err() != nil:
				return
			case err != nil && !silent:
				r.log.Warn("cannot tell subscribers which nodes there are; they keep to what they know", "err", err)
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

// ask returns the nodes that subscribers can be told of.
func (r *roster) ask() (*rousev1.Peers, error) {
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
