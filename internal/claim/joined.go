package claim

import (
	"context"
	"sync"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// Joined is a strategy that does not need to know the other nodes, with the member that lets them know of this one: so that they claim at
// once what a node leaves that stops or dies.
type Joined struct {
	rouse.Strategy
	member  *Member
	changed chan struct{}
}

// Join returns a strategy whose node is a member while it runs.
func Join(s rouse.Strategy, m *Member) *Joined {
	return &Joined{Strategy: s, member: m, changed: make(chan struct{}, 1)}
}

// Run keeps the node's lease, and runs the strategy.
func (j *Joined) Run(ctx context.Context) {
	var parts sync.WaitGroup
	if r, ok := j.Strategy.(interface{ Run(context.Context) }); ok {
		parts.Go(func() { r.Run(ctx) })
	}
	parts.Go(func() { j.pass(ctx) })
	j.member.Run(ctx)
	parts.Wait()
}

// pass passes on that there may be something to claim.
func (j *Joined) pass(ctx context.Context) {
	t, _ := j.Strategy.(*Tick)
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.member.changed:
			if t != nil {
				t.look()
			}
			notify.Send(j.changed)
		}
	}
}

// Changed is signalled when other nodes may have left something to claim.
func (j *Joined) Changed() <-chan struct{} { return j.changed }

// Grant is the strategy's. A node that leaves its timers to quicker ones is granted nothing.
func (j *Joined) Grant(ctx context.Context) (rouse.Grant, func(bool), error) {
	if j.member.yields() {
		return rouse.Grant{}, done, ctx.Err()
	}
	return j.Strategy.Grant(ctx)
}

// Left is nothing to a strategy that owns no buckets.
func (j *Joined) Left([]uint32) {}

// Healthy says whether the node has its lease.
func (j *Joined) Healthy() error { return j.member.Healthy() }
