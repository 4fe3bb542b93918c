package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
)

// clock estimates the store's clock between looks at it, by this machine's monotonic clock. It keeps to the earlier end of
// what the store's clock may be: the reading is taken to be as old as the moment its answer came.
type clock struct{ at atomic.Pointer[reading] }

type reading struct {
	store rouse.Instant
	local time.Time
}

// syncEvery bounds how long a jump of the store's clock goes unseen.
const syncEvery = 250 * time.Millisecond

func (c *clock) sync(ctx context.Context, store rouse.Timers) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	now, err := store.Now(ctx)
	if err == nil {
		c.at.Store(&reading{now, time.Now()})
	}
	return err
}

func (c *clock) now() rouse.Instant {
	r := c.at.Load()
	if r == nil {
		return 0
	}
	return r.store + rouse.Instant(time.Since(r.local)/time.Millisecond)
}

// Now returns the store's clock as the engine estimates it, the earlier end of its uncertainty; 0 before Run has begun.
func (e *Engine) Now() rouse.Instant { return e.clock.now() }

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
