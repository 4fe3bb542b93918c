package claim

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/boottime"
	"github.com/rousehq/rouse/internal/notify"
)

// TickOptions configure a Tick.
type TickOptions struct {
	Node    string        // the node's name; empty: a random one
	Buckets uint32        // of the store; 0 is 1
	Every   time.Duration // interval of ticks; 0 is 1 s
	Hold    time.Duration // how long a claim holds its rows; 0 is 30 s
	Timeout time.Duration // of one store call; 0 is 5 s

	Delay        time.Duration // how far the delayed clock is behind; 0 is 10 min
	DelayedEvery time.Duration // interval of its advances; 0 is 1 min

	// Missed is called after each advance of the delayed clock by this node with the number of rows, at
	// most 1,000, that became visible before that clock and are unclaimed, then and ten ticks later; it
	// should be 0. This node claims them then, regardless of the first clock. May be nil.
	Missed func(n int)
}

// Tick is the strategy of a clock in the store that all nodes try to advance after each tick. The node that
// advances it may claim the rows visible by then, and holds them; the others wait for the next tick. A tick
// covers all the time since the last one, so the first one after an outage covers the outage. A node whose
// claim did not get everything continues, regardless of other nodes. If a node dies after its advance, one
// tick is lost but no rows: they are due because they are visible, not because of a tick.
//
// A second clock, some minutes behind, claims and counts missed rows: see TickOptions.Missed. Run
// advances it.
//
// A node queries the store about once per tick.
type Tick struct {
	o       TickOptions
	timers  rouse.Timers
	grant   rouse.Grant
	turn    chan struct{} // held by the goroutine in Grant, which owns the fields below
	clock   clock
	more    chan struct{} // signalled if a claim left something to claim before the next tick
	delayed clock         // used by Run only
}

// missedLimit and missedBytes bound the rows that the delayed clock reads.
const (
	missedLimit = 1000
	missedBytes = 1 << 20
)

// confirmTicks is for how many ticks a row has to stay unclaimed before it counts as missed, if that is no
// longer than half of the time until the delayed clock advances again.
const confirmTicks = 10

// NewTick returns a strategy on the clocks of a store.
func NewTick(locks rouse.Locks, timers rouse.Timers, o TickOptions) *Tick {
	fill := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	fill(&o.Every, time.Second)
	fill(&o.Hold, defaultHold)
	fill(&o.Timeout, 5*time.Second)
	fill(&o.Delay, 10*time.Minute)
	fill(&o.DelayedEvery, time.Minute)
	if o.Missed == nil {
		o.Missed = func(int) {}
	}
	owner := o.Node + "#" + rand.Text()[:10] // an advance belongs to one process
	return &Tick{
		o: o, timers: timers, grant: rouse.Grant{Buckets: allOf(o.Buckets), Hold: o.Hold},
		turn: make(chan struct{}, 1), more: make(chan struct{}, 1),
		clock: clock{locks: locks, name: "clock/now", owner: owner, every: o.Every, timeout: o.Timeout},
		delayed: clock{locks: locks, name: "clock/delayed", owner: owner, every: o.DelayedEvery, lag: o.Delay,
			timeout: o.Timeout},
	}
}

// cutShort is the time of an advance in which the store had to answer: if ctx ends one before, that is no
// failure of the store.
const cutShort = time.Second

// Grant waits until this node advanced the clock, or ctx ends, whose error it then returns, unless the store
// did not answer. It grants all buckets, to be held.
func (t *Tick) Grant(ctx context.Context) (rouse.Grant, func(bool), error) {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return rouse.Grant{}, doNothing, ctx.Err()
	}
	for {
		next := time.NewTimer(boottime.Until(t.clock.nextTry(boottime.Now())))
		select {
		case <-ctx.Done():
			next.Stop()
			return rouse.Grant{}, doNothing, ctx.Err()
		case <-t.more:
			next.Stop()
			return t.grant, t.endClaim, nil
		case <-next.C:
		}
		won, _, err := t.clock.advanceIfDue(ctx)
		if err != nil && ctx.Err() != nil && boottime.Since(t.clock.tried) < cutShort {
			return rouse.Grant{}, doNothing, ctx.Err()
		}
		if err != nil {
			return rouse.Grant{}, doNothing, fmt.Errorf("advance the clock of ticks: %w", rouse.Unavailable(err))
		}
		if won {
			return t.grant, t.endClaim, nil
		}
	}
}

func doNothing(bool) {}

// endClaim ends the claim of a tick. If it left rows, the next claim does not wait.
func (t *Tick) endClaim(more bool) {
	if more {
		notify.Send(t.more)
	}
}

// Run advances the delayed clock until ctx ends, and counts missed rows.
func (t *Tick) Run(ctx context.Context) {
	for ctx.Err() == nil {
		backoff.Sleep(ctx, boottime.Until(t.delayed.nextTry(boottime.Now())))
		if ctx.Err() != nil {
			return
		}
		if won, to, err := t.delayed.advanceIfDue(ctx); err == nil && won {
			t.countMissed(ctx, to)
		}
	}
}

// countMissed counts the rows that became visible before a time long ago and that no node claims, also after
// a few ticks: the first tick after an outage is about to claim the rows that came due in it.
func (t *Tick) countMissed(ctx context.Context, before rouse.Instant) {
	found, err := t.findUnclaimed(ctx, before)
	if err == nil && len(found) > 0 && backoff.Sleep(ctx, min(confirmTicks*t.o.Every, t.o.DelayedEvery/2)) {
		var still map[rouse.Key]uint64
		still, err = t.findUnclaimed(ctx, before)
		maps.DeleteFunc(found, func(key rouse.Key, revision uint64) bool { return still[key] != revision })
	}
	if err != nil || ctx.Err() != nil {
		return // the next advance starts over
	}
	t.o.Missed(len(found))
	if len(found) > 0 {
		t.triggerClaim()
	}
}

// findUnclaimed returns the revisions of the oldest rows that became visible before a time. A claim begins
// with the oldest rows.
func (t *Tick) findUnclaimed(ctx context.Context, before rouse.Instant) (map[rouse.Key]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, t.o.Timeout)
	defer cancel()
	b, err := t.timers.Claim(ctx, rouse.Window{Buckets: t.grant.Buckets, Limit: missedLimit, Bytes: missedBytes})
	if err != nil {
		return nil, err
	}
	found := map[rouse.Key]uint64{}
	for i := 0; i < len(b.Rows) && b.Rows[i].Visible <= before; i++ {
		found[b.Rows[i].Key] = b.Rows[i].Revision
	}
	return found, nil
}

// triggerClaim causes a claim without an advance of the clock.
func (t *Tick) triggerClaim() { notify.Send(t.more) }

// Changed is never signalled: a grant is for one tick.
func (t *Tick) Changed() <-chan struct{} { return nil }

// Left does nothing: this node has the held rows until their holds end.
func (t *Tick) Left([]uint32) {}

// Healthy returns nil: grants depend on holds in the rows, not on leases.
func (t *Tick) Healthy() error { return nil }
