package claim

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/notify"
)

// TickOptions say how nodes go by a clock in the store.
type TickOptions struct {
	Node    string        // the node's name; empty is a random one
	Buckets uint32        // of the store; 0 is 1
	Every   time.Duration // between two ticks; 0 is 1 s
	Hold    time.Duration // how long a claim holds its rows; 0 is 30 s
	Timeout time.Duration // of one call to the store; 0 is 5 s

	Delay        time.Duration // how far the delayed clock is behind; 0 is 10 min
	DelayedEvery time.Duration // between two advances of it; 0 is 1 min

	// Missed is told how many rows became visible before the delayed clock and are still there, unclaimed, 1,000 at most: at each
	// advance of it that this node makes, and 0 is what it should be told. This node claims them at once, whatever the first clock
	// does. nil tells nobody.
	Missed func(n int)
}

// Tick is the strategy of a clock in the store that all nodes try to advance, each time that a tick is over. The one that does may
// claim what is visible by then, and holds it; the others wait for the next tick. A tick covers all the time since the last
// one, so the first one after an outage covers all of it. A node whose claim did not get everything goes on, whatever the others
// do meanwhile. One that dies after its advance costs one tick: rows are due by being visible, not by a tick.
//
// A second clock, some minutes behind, claims what was missed, and counts it: see TickOptions.Missed. It goes on while Run does.
//
// A node asks the store about once a tick.
type Tick struct {
	o       TickOptions
	timers  rouse.Timers
	grant   rouse.Grant
	turn    chan struct{} // a token for whoever is in Grant, and owns what is below
	clock   clock
	more    chan struct{} // has something if there is more to claim than by the next tick
	delayed clock         // belongs to Run
}

// missedLimit bounds how many rows the delayed clock looks at, missedBytes how much.
const (
	missedLimit = 1000
	missedBytes = 1 << 20
)

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
	owner := o.Node + "#" + rand.Text()[:10] // an advance is one process's
	return &Tick{
		o: o, timers: timers, grant: rouse.Grant{Buckets: allOf(o.Buckets), Hold: o.Hold},
		turn: make(chan struct{}, 1), more: make(chan struct{}, 1),
		clock:   clock{locks: locks, name: "clock/now", owner: owner, every: o.Every, timeout: o.Timeout},
		delayed: clock{locks: locks, name: "clock/delayed", owner: owner, every: o.DelayedEvery, lag: o.Delay, timeout: o.Timeout},
	}
}

// Grant waits until this node has advanced the clock, or ctx ends, whose error it then returns. It grants all buckets, to be held.
func (t *Tick) Grant(ctx context.Context) (rouse.Grant, func(bool), error) {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return rouse.Grant{}, done, ctx.Err()
	}
	for {
		next := time.NewTimer(time.Until(t.clock.next(time.Now())))
		select {
		case <-ctx.Done():
			next.Stop()
			return rouse.Grant{}, done, ctx.Err()
		case <-t.more:
			next.Stop()
			return t.grant, t.done, nil
		case <-next.C:
		}
		won, _, err := t.clock.advance(ctx)
		if err != nil {
			return rouse.Grant{}, done, fmt.Errorf("advance the clock of ticks: %w", err)
		}
		if won {
			return t.grant, t.done, nil
		}
	}
}

func done(bool) {}

// done ends a claim of a tick. What it left is the next one's, which does not wait.
func (t *Tick) done(more bool) {
	if more {
		notify.Send(t.more)
	}
}

// Run advances the delayed clock in its turn until ctx ends, and looks for what should not be there.
func (t *Tick) Run(ctx context.Context) {
	for ctx.Err() == nil {
		backoff.Sleep(ctx, time.Until(t.delayed.next(time.Now())))
		if ctx.Err() != nil {
			return
		}
		if won, to, err := t.delayed.advance(ctx); err == nil && won {
			t.missed(ctx, to)
		}
	}
}

// missed counts what became visible before a time that is long past. A claim begins with what has been visible longest.
func (t *Tick) missed(ctx context.Context, before rouse.Instant) {
	ctx, cancel := context.WithTimeout(ctx, t.o.Timeout)
	defer cancel()
	b, err := t.timers.Claim(ctx, rouse.Window{Buckets: t.grant.Buckets, Limit: missedLimit, Bytes: missedBytes})
	if err != nil {
		return // the next advance looks again, from the beginning
	}
	n := 0
	for n < len(b.Rows) && b.Rows[n].Visible <= before {
		n++
	}
	t.o.Missed(n)
	if n > 0 {
		t.look()
	}
}

// look has what is visible claimed without an advance of the clock.
func (t *Tick) look() { notify.Send(t.more) }

// Changed is never signalled: a grant is of one tick.
func (t *Tick) Changed() <-chan struct{} { return nil }

// Left does nothing: rows that are held are this node's until their holds end.
func (t *Tick) Left([]uint32) {}

// Healthy returns nil: what a tick grants is held by the rows themselves.
func (t *Tick) Healthy() error { return nil }
