package pool

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse/pool/driver"
)

// groupLoop has the driver start and drain workers, so that those run that the queue loop has queues for. What runs it knows
// from the driver's lists alone.
type groupLoop struct {
	*loop
	driver  driver.Driver
	size    int // how many workers a group has
	plans   func() map[string]plan
	group   func(key string) driver.Group
	log     *slog.Logger
	metrics *Metrics
	moved   *signal // of the queue loop: a group may be gone

	hint atomic.Bool // the driver says that a list may be another one

	// Owned by the loop's goroutine.
	listing   bool                  // a list is being made
	relist    bool                  // there is reason to make another one
	listed    time.Time             // when the last one came
	retry     time.Time             // no list before, as the last one failed
	lists     uint64                // how many were begun
	unsettled map[string]*groupCall // keys with a call in flight, or whose last call is not in a list yet, or failed

	mu      sync.Mutex // guards what follows for readers
	have    bool       // there was a list in this term
	running map[string]*groupState
	touched map[string]bool // keys of unsettled: what is known of them is not true any more
	stalled map[string]bool // keys whose workers are to be replaced
}

// groupState is what the last list says of the workers of a key.
type groupState struct {
	workers []driver.Worker
	settled int // that are not draining
}

// groupCall is the last call for a key.
type groupCall struct {
	busy  bool
	retry time.Time // it failed: no other before
	since uint64    // it has ended: lists after this many tell what came of it
}

func newGroupLoop(d driver.Driver, size int, t Timing) *groupLoop {
	return &groupLoop{loop: newLoop(t), driver: d, size: size, unsettled: map[string]*groupCall{}, touched: map[string]bool{},
		stalled: map[string]bool{}, relist: true}
}

// listen passes on what the driver says of changes, until ctx ends.
func (l *groupLoop) listen(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.driver.Changed():
			l.hint.Store(true)
			l.wake.send()
		}
	}
}

// pass makes a list if there is reason to, and starts what calls it may.
func (l *groupLoop) pass(ctx context.Context, now time.Time) time.Time {
	next := l.list(ctx, now)
	if !l.have {
		return next // nothing is known yet
	}
	plans := l.plans()
	for key, p := range plans {
		if p == run && l.isStalled(key) {
			next = earlier(next, l.replace(ctx, key, now))
		} else if p == run {
			next = earlier(next, l.ensure(ctx, key, now))
		}
	}
	for key, st := range l.running {
		if plans[key] == end && st.settled > 0 {
			next = earlier(next, l.drain(ctx, key, now))
		}
	}
	return next
}

// list begins a list if there is reason to.
func (l *groupLoop) list(ctx context.Context, now time.Time) time.Time {
	due := l.listed.Add(l.timing.Listing)
	if l.relist = l.hint.Swap(false) || l.relist; l.relist {
		due = now
	}
	due = latest(due, l.retry)
	switch {
	case l.listing:
		return time.Time{} // there is a pass when it comes
	case due.After(now):
		return due
	}
	l.listing, l.relist = true, false
	l.lists++
	number := l.lists
	l.call(ctx, func(ctx context.Context) func() {
		workers, err := l.driver.List(ctx)
		return func() {
			l.listing = false
			if err != nil {
				l.relist, l.retry = true, time.Now().Add(l.timing.Interval)
				if ctx.Err() == nil {
					l.log.Warn("the workers that run cannot be listed", "error", err)
				}
				l.metrics.failures.WithLabelValues("list").Inc()
				return
			}
			l.listed = time.Now()
			l.take(number, workers)
		}
	})
	return time.Time{}
}

// take makes a list what is known.
func (l *groupLoop) take(number uint64, workers []driver.Worker) {
	running := map[string]*groupState{}
	for _, w := range workers {
		st := running[w.Key]
		if st == nil {
			st = &groupState{}
			running[w.Key] = st
		}
		st.workers = append(st.workers, w)
		if w.State != driver.Draining {
			st.settled++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.have, l.running = true, running
	for key := range l.stalled {
		if running[key] == nil {
			delete(l.stalled, key)
		}
	}
	for key, c := range l.unsettled {
		if c.busy || number <= c.since {
			continue
		}
		if delete(l.touched, key); !c.retry.After(l.listed) {
			delete(l.unsettled, key)
		}
	}
	l.moved.send()
}

// ensure has the driver start the workers of a key that are missing.
func (l *groupLoop) ensure(ctx context.Context, key string, now time.Time) time.Time {
	if st := l.running[key]; st != nil && st.settled == l.size {
		return time.Time{}
	}
	return l.start(ctx, key, now, "start", func(ctx context.Context) error { return l.driver.Ensure(ctx, l.group(key)) })
}

// drain has the driver end the workers of a key.
func (l *groupLoop) drain(ctx context.Context, key string, now time.Time) time.Time {
	return l.start(ctx, key, now, "drain", func(ctx context.Context) error { return l.driver.Drain(ctx, key) })
}

// stall says that the workers of a key do nothing any more, though they have requests.
func (l *groupLoop) stall(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stalled[key] = true
	l.wake.send()
}

func (l *groupLoop) isStalled(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stalled[key]
}

// replace has the driver drain the workers of a key, which kills those that do not end; others are started then.
func (l *groupLoop) replace(ctx context.Context, key string, now time.Time) time.Time {
	return l.start(ctx, key, now, "drain", func(ctx context.Context) error {
		err := l.driver.Drain(ctx, key)
		if err == nil {
			l.mu.Lock()
			delete(l.stalled, key)
			l.mu.Unlock()
		}
		return err
	})
}

// start makes a call unless another one is in flight for the key, or what came of the last one is not known yet.
func (l *groupLoop) start(ctx context.Context, key string, now time.Time, what string, f func(context.Context) error) time.Time {
	c := l.unsettled[key]
	switch {
	case c == nil:
		c = &groupCall{}
	case c.busy || c.retry.IsZero(): // a list comes
		return time.Time{}
	case c.retry.After(now):
		return c.retry
	}
	if l.full() {
		return time.Time{} // there is a pass when a call has ended
	}
	c.busy, c.retry = true, time.Time{}
	l.unsettled[key] = c
	l.mu.Lock()
	l.touched[key] = true
	l.mu.Unlock()
	l.call(ctx, func(ctx context.Context) func() {
		err := f(ctx)
		return func() {
			c.busy, c.since, l.relist = false, l.lists, true
			if err == nil {
				return
			}
			c.retry = time.Now().Add(l.timing.Interval)
			if ctx.Err() == nil {
				l.log.Warn("cannot "+what+" the workers of a key", "key", key, "error", err)
			}
			l.metrics.failures.WithLabelValues(what).Inc()
		}
	})
	return time.Time{}
}

// gone says whether it is certain that a key has no workers, none that are about to start, and none that drain.
func (l *groupLoop) gone(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.have && !l.touched[key] && l.running[key] == nil
}

// workers returns what the last list says, by key.
func (l *groupLoop) workers() map[string][]driver.Worker {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make(map[string][]driver.Worker, len(l.running))
	for key, st := range l.running {
		list[key] = st.workers
	}
	return list
}
