package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
)

// clock estimates the store's clock between looks at it, by this machine's monotonic clock. A look tells two bounds: the
// store's clock was read after the question was sent, and before the answer came.
type clock struct{ at atomic.Pointer[reading] }

type reading struct {
	store       rouse.Instant
	sent, heard time.Time
}

const (
	// syncEvery bounds how long a jump of the store's clock goes unseen.
	syncEvery = 250 * time.Millisecond
	// A look that took longer than slowLook says little; an older one that was quicker is kept for up to keepLook.
	slowLook = 20 * time.Millisecond
	keepLook = 10 * time.Second
)

func (c *clock) sync(ctx context.Context, store rouse.Timers) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r := reading{sent: time.Now()}
	var err error
	if r.store, err = store.Now(ctx); err != nil {
		return err
	}
	r.heard = time.Now()
	old := c.at.Load()
	if old != nil && r.heard.Sub(r.sent) > slowLook && r.heard.Sub(r.sent) > old.heard.Sub(old.sent) && r.heard.Sub(old.heard) < keepLook {
		return nil
	}
	c.at.Store(&r)
	return nil
}

// earliest is the earliest that the store's clock may show now: what is due by it is due.
func (c *clock) earliest() rouse.Instant {
	r := c.at.Load()
	if r == nil {
		return 0
	}
	return r.store + rouse.Instant(time.Since(r.heard)/time.Millisecond)
}

// latest is the latest that it may show: what begins now begins no later.
func (c *clock) latest() rouse.Instant {
	r := c.at.Load()
	if r == nil {
		return 0
	}
	return (r.store + 1).Add(time.Since(r.sent)) // the store's clock is cut to milliseconds
}

// Now returns the store's clock as the engine estimates it, the earlier end of its uncertainty; 0 before Run has begun.
func (e *Engine) Now() rouse.Instant { return e.clock.earliest() }

// clockLoop looks at the store's clock, and puts the wheel back when the clock went back.
func (e *Engine) clockLoop(ctx context.Context) {
	for sleep(ctx, syncEvery) {
		before := e.Now()
		if err := e.clock.sync(ctx, e.store); err != nil {
			if !errors.Is(err, context.Canceled) {
				e.opts.Events.failed("clock", err)
			}
			continue
		}
		if now := e.Now(); before.Sub(now) > 10*time.Millisecond {
			e.mu.Lock()
			e.window.rewind(now)
			e.mu.Unlock()
		}
		signal(e.wake)
	}
}
