package pool

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse/internal/notify"
)

// signal wakes a loop when its input has changed. Signals that the loop has not received yet are merged.
type signal struct {
	c     chan struct{}
	since atomic.Int64 // when the first signal that is not received yet was sent, in nanoseconds of Unix time; 0 if none
}

func newSignal() *signal { return &signal{c: make(chan struct{}, 1)} }

func (s *signal) sendSignal() {
	s.since.CompareAndSwap(0, time.Now().UnixNano())
	notify.Send(s.c)
}

// loop is a goroutine that makes state converge: after a change, at the end of a call and at deadlines it
// makes a pass over the keys that have not converged and starts calls. A pass never waits for a call, so a
// slow call delays only its own key.
type loop struct {
	timing Timing
	wake   *signal
	lag    prometheus.Observer
	landed chan func() // run by the loop's goroutine after a call has ended
	flying int         // calls in flight; owned by the loop's goroutine
	calls  sync.WaitGroup
}

func newLoop(t Timing) *loop {
	return &loop{timing: t, wake: newSignal(), landed: make(chan func(), t.Parallel+1)} // plus one for a list
}

// runPasses makes passes until ctx ends, and then waits for the calls in flight. A pass returns when the next
// one is due without further changes, or a zero time.
func (l *loop) runPasses(ctx context.Context, pass func(now time.Time) time.Time) {
	defer l.calls.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake.c:
			if since := l.wake.since.Swap(0); since != 0 {
				l.lag.Observe(time.Since(time.Unix(0, since)).Seconds())
			}
		case land := <-l.landed:
			l.landCall(land)
		case <-timer.C:
		}
		for len(l.landed) > 0 { // one pass for all calls that have ended
			l.landCall(<-l.landed)
		}
		timer.Stop()
		now := time.Now()
		if next := pass(now); !next.IsZero() {
			timer.Reset(max(0, next.Sub(now)))
		}
	}
}

func (l *loop) landCall(f func()) {
	l.flying--
	f()
}

// atCallLimit reports whether no further calls may start now. The end of a call causes another pass.
func (l *loop) atCallLimit() bool { return l.flying >= l.timing.Parallel }

// startLoopCall starts a call. The loop's goroutine runs the function that the call returns.
func (l *loop) startLoopCall(ctx context.Context, f func(ctx context.Context) (land func())) {
	l.flying++
	l.calls.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, l.timing.Call)
		defer cancel()
		l.landed <- f(ctx) // never blocks: there is room for each call in flight
	})
}

// earlierNonZero returns the earlier of two times; zero means none.
func earlierNonZero(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
