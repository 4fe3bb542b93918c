package pool

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// signal tells a loop that something it looks at has changed. Signals that it has not seen yet are one.
type signal struct {
	c     chan struct{}
	since atomic.Int64 // when the first that it has not seen was sent, in nanoseconds of Unix time; 0 if there is none
}

func newSignal() *signal { return &signal{c: make(chan struct{}, 1)} }

func (s *signal) send() {
	s.since.CompareAndSwap(0, time.Now().UnixNano())
	select {
	case s.c <- struct{}{}:
	default:
	}
}

// loop is a goroutine that makes things converge: whenever something has changed, a call has ended or a time has come, it makes a
// pass over what has not converged, and starts calls. A pass never waits for a call, so a slow one holds up only what it is about.
type loop struct {
	timing Timing
	wake   *signal
	lag    prometheus.Observer
	landed chan func() // what calls that have ended do on the loop's goroutine
	flying int         // calls in flight; owned by the loop's goroutine
	calls  sync.WaitGroup
}

func newLoop(t Timing) *loop {
	return &loop{timing: t, wake: newSignal(), landed: make(chan func(), t.Parallel+1)} // one more for a list
}

// run makes passes until ctx ends, and waits for the calls that are in flight then. A pass returns when the next one is due if
// nothing happens, or a zero time.
func (l *loop) run(ctx context.Context, pass func(now time.Time) time.Time) {
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
			l.land(land)
		case <-timer.C:
		}
		for len(l.landed) > 0 { // one pass for all that have landed
			l.land(<-l.landed)
		}
		timer.Stop()
		now := time.Now()
		if next := pass(now); !next.IsZero() {
			timer.Reset(max(0, next.Sub(now)))
		}
	}
}

func (l *loop) land(f func()) {
	l.flying--
	f()
}

// full says whether no more calls may be started for now. When one ends there is another pass.
func (l *loop) full() bool { return l.flying >= l.timing.Parallel }

// call starts a call, which returns what the loop's goroutine does when it has ended.
func (l *loop) call(ctx context.Context, f func(ctx context.Context) (land func())) {
	l.flying++
	l.calls.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, l.timing.Call)
		defer cancel()
		l.landed <- f(ctx) // there is room for each call in flight
	})
}

// earlier returns the earlier of two times of which zero ones do not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
