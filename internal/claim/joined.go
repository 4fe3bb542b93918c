package claim

import (
	"context"
	"sync"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// Joined combines a strategy that needs no knowledge of other nodes with a Member, so that the node quickly
// claims the timers of a node that stops or dies.
type Joined struct {
	rouse.Strategy
	member  *Member
	changed chan struct{}
}

// Join returns a strategy whose node is a member while it runs.
func Join(s rouse.Strategy, m *Member) *Joined {
	return &Joined{Strategy: s, member: m, changed: make(chan struct{}, 1)}
}

// Run keeps the node's lease and runs the strategy.
func (j *Joined) Run(ctx context.Context) {
	var parts sync.WaitGroup
	if r, ok := j.Strategy.(interface{ Run(context.Context) }); ok {
		parts.Go(func() { r.Run(ctx) })
	}
	parts.Go(func() { j.forwardChanges(ctx) })
	j.member.Run(ctx)
	parts.Wait()
}

// forwardChanges forwards signals that there may be something to claim.
func (j *Joined) forwardChanges(ctx context.Context) {
	t, _ := j.Strategy.(*Tick)
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.member.changed:
			if t != nil {
				t.triggerClaim()
			}
			notify.Send(j.changed)
		}
	}
}

// Changed is signalled when other nodes may have left something to claim.
func (j *Joined) Changed() <-chan struct{} { return j.changed }

// Grant calls the strategy. A node that yields to faster ones is granted nothing.
func (j *Joined) Grant(ctx context.Context) (rouse.Grant, func(bool), error) {
	if j.member.isYielding() {
		return rouse.Grant{}, doNothing, ctx.Err()
	}
	return j.Strategy.Grant(ctx)
}

// Left does nothing: the strategy owns no buckets.
func (j *Joined) Left([]uint32) {}

// Healthy reports whether the node has its lease.
func (j *Joined) Healthy() error { return j.member.Healthy() }
