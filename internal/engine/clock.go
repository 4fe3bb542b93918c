package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/boottime"
	"github.com/rousehq/rouse/internal/notify"
)

// clock estimates the store's clock between reads by this machine's monotonic clock, which counts
// suspensions. Each answer gives two bounds: the store read its clock after the request was sent and before
// the response arrived. Bounds of several answers are intersected, so that the estimate is close even if
// every answer is slow.
type clock struct {
	at     atomic.Pointer[bounds]
	direct bool
	store  rouse.Timers
	jumped func(from, to rouse.Instant) // called when the clock was set forward; may be nil

	mu   sync.Mutex    // serializes writers of at
	last rouse.Instant // estimate at the last read by itself; guarded by mu
}

// bounds contain the store's clock at one time of the monotonic clock: at least least, and before limit.
type bounds struct {
	at           time.Time
	least, limit time.Duration // since 1970
}

const (
	// syncEvery bounds how long a jump of the store's clock stays undetected.
	syncEvery = 250 * time.Millisecond
	// sharedLook is the age of the last answer after which a shared store is asked for its clock alone.
	sharedLook = 3 * time.Second
	// clockDrift is the maximum drift between two clocks in parts per million: 100 for crystals, 500 for a
	// clock that is being slewed.
	clockDrift = 600
	// The first read is repeated up to firstLooks times until an answer takes at most slowLook.
	firstLooks = 3
	slowLook   = 20 * time.Millisecond
)

// readStoreClock reads the store's clock. A forced read replaces the previous bounds, because the clock may
// have been moved.
func (c *clock) readStoreClock(ctx context.Context, store rouse.Timers, force bool) error {
	sent := boottime.Now()
	now, err := store.Now(ctx)
	if err != nil {
		return err
	}
	c.updateBounds(now, sent, boottime.Now(), force)
	return nil
}

// startClock reads the clock for the first time.
func (c *clock) startClock(ctx context.Context) error {
	for try := 1; ; try++ {
		sent := time.Now()
		if err := c.readStoreClock(ctx, c.store, false); err != nil || try == firstLooks || time.Since(sent) <= slowLook {
			return err
		}
	}
}

// updateBounds updates the bounds with the store's time from a response.
func (c *clock) updateBounds(store rouse.Instant, sent, heard time.Time, force bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := time.Duration(store) * time.Millisecond
	// the store truncates its clock to milliseconds
	new := bounds{at: heard, least: at, limit: at + time.Millisecond + heard.Sub(sent)}
	if old := c.at.Load(); old != nil && !force {
		since := heard.Sub(old.at)
		drift := since.Abs() * clockDrift / 1_000_000
		least, limit := max(new.least, old.least+since-drift), min(new.limit, old.limit+since+drift)
		if least < limit { // otherwise the clock was moved, and only this answer counts
			new.least, new.limit = least, limit
		} else if was := old.least + since; new.least-was > time.Second && c.jumped != nil && !c.direct {
			c.jumped(rouse.Instant(was/time.Millisecond), rouse.Instant(new.least/time.Millisecond))
		}
	}
	c.at.Store(&new)
}

// recordEstimate records the estimate after the clock was read by itself.
func (c *clock) recordEstimate(now rouse.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = now
}

// lastLook returns that estimate.
func (c *clock) lastLook() rouse.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// answerAge returns the time since the last answer that contained the store's clock.
func (c *clock) answerAge() time.Duration { return boottime.Since(c.at.Load().at) }

// earliestNow returns the earliest time that the store's clock may show now. A row that is due by then is
// certainly due.
func (c *clock) earliestNow() rouse.Instant {
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
	return rouse.Instant((b.least + boottime.Since(b.at)) / time.Millisecond)
}

// untilEarliest returns how long it takes until earliestNow returns a time, if no answer changes the
// estimate; a millisecond if that has come, or is not known.
func (c *clock) untilEarliest(to rouse.Instant) time.Duration {
	b := c.at.Load()
	if b == nil || c.direct {
		return max(to.Sub(c.earliestNow()), time.Millisecond)
	}
	shown := b.least + boottime.Since(b.at)
	left := to.Sub(rouse.Instant(shown / time.Millisecond))
	if left <= 0 {
		return time.Millisecond
	}
	return left - shown%time.Millisecond
}

// latestNow returns the latest time that the store's clock may show now. An attempt that starts now starts at
// or before it.
func (c *clock) latestNow() rouse.Instant {
	b := c.at.Load()
	if b == nil || c.direct {
		return c.earliestNow()
	}
	return rouse.Instant((b.limit + boottime.Since(b.at) + time.Millisecond - 1) / time.Millisecond)
}

// clockLoop reads the store's clock, and rewinds the wheel when the clock was set back.
func (e *Engine) clockLoop(ctx context.Context) {
	for backoff.Sleep(ctx, syncEvery) {
		if err := e.lookAtClock(ctx, false); err != nil && !errors.Is(err, context.Canceled) {
			e.opts.Events.emitFailed("clock", err)
		}
	}
}

func (e *Engine) lookAtClock(ctx context.Context, force bool) error {
	before := max(e.Now(), e.clock.lastLook())
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	// On a shared store, claims already return the clock, so it is read separately only if none did recently.
	if force || e.others == nil || e.clock.answerAge() > sharedLook {
		if err := e.clock.readStoreClock(ctx, e.store, force); err != nil {
			return err
		}
	}
	e.memory.Lock()
	now := e.Now()
	if before.Sub(now) > 10*time.Millisecond {
		e.memory.window.rewindWheel(now)
		e.memory.unqueueEarly(now)
		if e.others != nil { // rows that others write from now on lie beyond the new horizon and would be missed
			e.memory.window.markSpilled(rouse.Position{Visible: now.Add(e.opts.Ahead)})
		}
	}
	e.memory.Unlock()
	e.clock.recordEstimate(now)
	notify.Send(e.memory.wake)
	return nil
}

// ClockMoved reads the store's clock again and updates the window at once. It is for a clock that is moved on
// purpose; the clock loop would detect it a little later.
func (e *Engine) ClockMoved(ctx context.Context) error {
	if err := e.Ready(ctx); err != nil {
		return err
	}
	if err := e.lookAtClock(ctx, true); err != nil {
		return err
	}
	notify.Send(e.memory.room)
	return nil
}

// ClockJumped is ClockMoved for a clock that skipped times at which timers were due: their delay is
// attributed to that.
func (e *Engine) ClockJumped(ctx context.Context) error {
	if err := e.Ready(ctx); err != nil {
		return err
	}
	e.hindrances.addHindrance(rouse.CauseClockMoved, e.clock.lastLook(), e.Now())
	return e.ClockMoved(ctx)
}
