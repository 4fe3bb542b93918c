package node

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
)

// clockMarkEvery is how often nodes compare the store's clock with the highest time that it has shown, and
// keep that.
const clockMarkEvery = time.Minute

// watchClock keeps the highest time that the store's clock has shown, so that a clock that was ahead and was
// set right is noticed, also after a restart.
func (n *Node) watchClock(ctx context.Context) error {
	back := false
	for keep := false; ; keep = n.cluster.leader == nil || n.cluster.leader() {
		from, err := n.timers.Clock.Keep(ctx, keep)
		if err == nil && from != 0 && !back {
			n.cfg.Log.Warn("the store's clock was ahead, and was set back: timers that fired before wait for times after that. "+
				"Set them right: rouse clock repair", "showed", from)
		}
		if err == nil {
			back = from != 0
		}
		if !backoff.Sleep(ctx, clockMarkEvery) {
			break
		}
	}
	if c := n.cfg.Clock; c != nil && c.Ahead() > clockMarkEvery { // the next process has the machine's clock
		_, _ = n.timers.Clock.Keep(context.WithoutCancel(ctx), true)
	}
	return nil
}

// Clock is a store's clock that can be moved: that of tests and development servers. It is safe for
// concurrent use.
type Clock struct {
	mu    sync.Mutex
	still bool
	at    time.Time     // the time that it shows, while it stands still
	ahead time.Duration // of the machine's clock, while it goes
}

// NewClock returns a clock that goes with the machine's until it is moved, and goes on from there.
func NewClock() *Clock { return &Clock{} }

// NewStillClock returns a clock that shows a time and stands still but for being moved.
func NewStillClock(at time.Time) *Clock { return &Clock{still: true, at: at} }

// Now returns the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.still {
		return c.at
	}
	return time.Now().Add(c.ahead)
}

// Ahead returns how much later the clock shows than the machine's.
func (c *Clock) Ahead() time.Duration { return time.Until(c.Now()).Round(time.Millisecond) }

// setClock makes the clock show a time.
func (c *Clock) setClock(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.ahead = at, time.Until(at)
}

// stopClock holds the clock where it is, until the function that it returns is called.
func (c *Clock) stopClock() (resume func()) {
	now := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	still := c.still
	c.still, c.at = true, now
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.still, c.ahead = still, time.Until(c.at)
	}
}

// Advance moves the clock of a node with a Config.Clock on, and returns when everything that came due by then
// has ended, with how many fires were taken by their targets on the way. It goes from time to time at which a
// timer needs attention, so that each fires at its own time, and each retry too; with jump it goes there at
// once, as if the node had been away for so long. The clock stands still on the way. Calls wait for one
// another. The end of ctx leaves the clock where it is.
//
// Only due timers count: an accepted fire whose report does not come runs into its deadline on the way.
// It does not wait for timers that wait for a limit that is paused.
func (n *Node) Advance(ctx context.Context, to rouse.Instant, jump bool) (fired uint64, err error) {
	c := n.cfg.Clock
	if c == nil {
		return 0, fmt.Errorf("the clock cannot be moved: it is the machine's: %w", rouse.ErrConflict)
	}
	select {
	case n.moving <- struct{}{}:
		defer func() { <-n.moving }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if err := n.notFiringReason(); err != nil {
		return 0, err
	}
	defer c.stopClock()()
	now := rouse.Reached(c.Now())
	if to < now || to > rouse.MaxInstant {
		return 0, rouse.Refuse("to", to.String(), "is not after now, "+now.String()+", or too far away",
			"clocks go forward only; give a later time up to the year 9998")
	}
	before := n.metrics.done.Load()
	for {
		next, err := n.waitUntilIdle(ctx)
		if now := rouse.Reached(c.Now()); err != nil || now >= to {
			return n.metrics.done.Load() - before, err
		}
		if next = min(next, to); jump {
			next = to
		}
		c.setClock(next.Time())
		moved := n.timers.ClockMoved
		if jump {
			moved = n.timers.ClockJumped
		}
		if err := moved(ctx); err != nil {
			return n.metrics.done.Load() - before, err
		}
	}
}

// waitUntilIdle waits until nothing is left to do by the store's clock, and returns when there is something
// again.
func (n *Node) waitUntilIdle(ctx context.Context) (next rouse.Instant, err error) {
	const soon, longest = 100, 2 * time.Millisecond
	b := backoff.New(40*time.Microsecond, longest)
	for try := 0; ; try++ {
		next, idle := n.timers.Idle()
		if idle {
			return next, nil
		}
		if try < soon { // a function mostly takes no longer than the goroutines need that bring the fire to it and back
			runtime.Gosched()
			continue
		}
		select {
		case <-time.After(b.Next()):
		case <-ctx.Done():
			s := n.timers.Stats()
			return 0, fmt.Errorf("at %v something is still to do (%d fires with their targets, %d in queues): %w",
				rouse.Reached(n.cfg.Clock.Now()), s.Out, s.Queued, ctx.Err())
		case <-n.ended:
			return 0, rouse.ErrClosed
		}
	}
}
