package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/notify"
)

// clock estimates the store's clock between looks at it, by this machine's monotonic clock. An answer tells two bounds: the store's
// clock was read after the question was sent, and before the answer came. Bounds of several answers are taken together, so that they
// are close however slow each answer was.
type clock struct {
	at     atomic.Pointer[bounds]
	direct bool
	store  rouse.Timers
	jumped func(from, to rouse.Instant) // told when the clock was set forward; nil tells nothing
	last   rouse.Instant                // what the last look came to; guarded by the engine's mutex

	mu sync.Mutex // held by who changes at
}

// bounds are where the store's clock was at a moment of the monotonic one: at or after the first, and before the second.
type bounds struct {
	at           time.Time
	least, limit time.Duration // since 1970
}

const (
	// syncEvery bounds how long a jump of the store's clock goes unseen.
	syncEvery = 250 * time.Millisecond
	// sharedLook is how old an answer may be on a store that is shared, before it is asked for its clock alone.
	sharedLook = 3 * time.Second
	// clockDrift is by how much two clocks may run apart, in millionths: crystals by 100, and 500 where one is being set right.
	clockDrift = 600
	// The first look is made up to firstLooks times, until an answer takes no longer than slowLook.
	firstLooks = 3
	slowLook   = 20 * time.Millisecond
)

// look asks for the store's clock. A forced one counts alone: the clock may have been moved.
func (c *clock) look(ctx context.Context, store rouse.Timers, force bool) error {
	sent := time.Now()
	now, err := store.Now(ctx)
	if err != nil {
		return err
	}
	c.note(now, sent, time.Now(), force)
	return nil
}

// start looks for the first time.
func (c *clock) start(ctx context.Context) error {
	for try := 1; ; try++ {
		sent := time.Now()
		if err := c.look(ctx, c.store, false); err != nil || try == firstLooks || time.Since(sent) <= slowLook {
			return err
		}
	}
}

// note takes over what an answer says of the store's clock.
func (c *clock) note(store rouse.Instant, sent, heard time.Time, force bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := time.Duration(store) * time.Millisecond
	new := bounds{at: heard, least: at, limit: at + time.Millisecond + heard.Sub(sent)} // the store's clock is cut to milliseconds
	if old := c.at.Load(); old != nil && !force {
		since := heard.Sub(old.at)
		drift := since.Abs() * clockDrift / 1_000_000
		least, limit := max(new.least, old.least+since-drift), min(new.limit, old.limit+since+drift)
		if least < limit { // otherwise the clock was moved, and the answer counts alone
			new.least, new.limit = least, limit
		} else if was := old.least + since; new.least-was > time.Second && c.jumped != nil && !c.direct {
			c.jumped(rouse.Instant(was/time.Millisecond), rouse.Instant(new.least/time.Millisecond))
		}
	}
	c.at.Store(&new)
}

// age returns how long ago the store's clock was heard of.
func (c *clock) age() time.Duration { return time.Since(c.at.Load().at) }

// earliest is the earliest that the store's clock may show now: what is due by it is due.
func (c *clock) earliest() rouse.Instant {
	b := c.at.Load()
	if b == nil {
		return 0
	}
	if c.direct {
		if now, err := c.store.Now(context.Background()); err == nil {
			return now
		}
		return rouse.Instant(b.least / time.Millisecond)
	}
	return rouse.Instant((b.least + time.Since(b.at)) / time.Millisecond)
}

// latest is the latest that it may show: what begins now begins no later.
func (c *clock) latest() rouse.Instant {
	b := c.at.Load()
	if b == nil || c.direct {
		return c.earliest()
	}
	return rouse.Instant((b.limit + time.Since(b.at) + time.Millisecond - 1) / time.Millisecond)
}

// Now returns the store's clock as the engine estimates it, the earlier end of its uncertainty; 0 before Run has begun.
func (e *Engine) Now() rouse.Instant { return e.clock.earliest() }

// clockLoop looks at the store's clock, and puts the wheel back when the clock went back.
func (e *Engine) clockLoop(ctx context.Context) {
	for backoff.Sleep(ctx, syncEvery) {
		if err := e.lookAtClock(ctx, false); err != nil && !errors.Is(err, context.Canceled) {
			e.opts.Events.failed("clock", err)
		}
	}
}

func (e *Engine) lookAtClock(ctx context.Context, force bool) error {
	e.mu.Lock()
	before := max(e.Now(), e.clock.last)
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	// Where each question costs others something, the claims' answers do, which tell the clock too.
	if force || e.others == nil || e.clock.age() > sharedLook {
		if err := e.clock.look(ctx, e.store, force); err != nil {
			return err
		}
	}
	e.mu.Lock()
	now := e.Now()
	if before.Sub(now) > 10*time.Millisecond {
		e.window.rewind(now)
		e.unqueue(now)
		if e.others != nil { // what others write from now on is not found beyond the new horizon
			e.window.spill(rouse.Position{Visible: now.Add(e.opts.Ahead)})
		}
	}
	e.clock.last = now
	e.mu.Unlock()
	notify.Send(e.wake)
	return nil
}

// unqueue puts what is in lanes, and is not due any more, back on the wheel. The mutex is held.
func (e *Engine) unqueue(now rouse.Instant) {
	var early []*entry
	for _, en := range e.window.entries {
		if en.state == queued && en.row.Visible > now {
			early = append(early, en)
		}
	}
	for _, en := range early { // its place in the lane stays, so it becomes another entry
		e.window.drop(en)
		if again := e.window.add(&en.row, now); again != nil {
			again.held = en.held
		}
	}
}

// ClockMoved reads the store's clock again and brings the window up to date with it at once: for a clock that is moved on purpose,
// which would be noticed a little later anyway.
func (e *Engine) ClockMoved(ctx context.Context) error {
	if err := e.Ready(ctx); err != nil {
		return err
	}
	if err := e.lookAtClock(ctx, true); err != nil {
		return err
	}
	notify.Send(e.room)
	return nil
}

// ClockJumped is ClockMoved for a clock that has passed times at which timers were due: they are late because of that.
func (e *Engine) ClockJumped(ctx context.Context) error {
	if err := e.Ready(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	last := e.clock.last
	e.mu.Unlock()
	e.hindered(rouse.CauseClockMoved, last, e.Now())
	return e.ClockMoved(ctx)
}

// Idle says whether nothing is left to do by the store's clock: nothing is due, queued, out with a sink, or not settled. next is
// then the earliest time at which a row needs attention; rouse.Never if there is none. It looks at every row in memory, so
// it is for tests and development servers.
func (e *Engine) Idle() (next rouse.Instant, idle bool) {
	select {
	case <-e.began:
	default:
		return rouse.Never, false
	}
	e.outcomes.mu.Lock()
	unsettled := len(e.outcomes.list)
	e.outcomes.mu.Unlock()
	e.mu.Lock()
	now := e.Now()
	w := &e.window
	idle = unsettled == 0 && w.orphans == 0 && e.lanes.out == 0 && e.lanes.running == 0 && w.reading == 0 && w.spilled == never && w.cursor.Visible > now
	next = rouse.Never
	for _, en := range w.entries {
		if idle = idle && en.state == waiting && en.row.Visible > now; !idle {
			break
		}
		next = min(next, en.row.Visible)
	}
	cursor := w.cursor
	e.mu.Unlock()
	if !idle || next <= cursor.Visible {
		return next, idle
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	batch, err := e.store.Claim(ctx, rouse.Window{Buckets: e.grant.Load().buckets, After: cursor, Ahead: 1<<63 - 1, Limit: 1})
	if err != nil {
		return next, false
	}
	if len(batch.Rows) > 0 {
		next = min(next, batch.Rows[0].Visible)
	}
	return next, true
}
