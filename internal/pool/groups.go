package pool

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// groupLoop starts and drains workers through the driver, so that workers run for exactly the queues that the
// queue loop has. It knows the running workers from the driver's lists only.
type groupLoop struct {
	*loop
	driver  driver.Driver
	size    int                    // how many workers a group has
	news    func() map[string]plan // returns the keys whose plan may have changed since the last call
	group   func(key string) driver.Group
	failing failureLog
	metrics *Metrics
	moved   *signal // the queue loop's signal: a group may be gone
	reached func()  // a limit is; may be nil

	hint atomic.Bool // the driver reported a change: list again

	// Owned by the loop's goroutine.
	listing    bool                  // a list is being made
	relist     bool                  // there is reason to make another one
	listed     time.Time             // when the last one came
	took       time.Duration         // and how long that took
	retry      time.Time             // no list before, as the last one failed
	lists      uint64                // how many were begun
	plans      map[string]plan       // all but those that are to end
	pending    map[string]bool       // keys to be looked at in the next pass
	asleep     map[string]time.Time  // keys to be looked at when their time has come
	awake      time.Time             // the earliest of these; zero without any
	inProgress map[string]*groupCall // keys with a call in flight, or whose last call did not have its effect yet
	ensured    map[string]bool       // keys that the driver has ensured since their plan is to run
	starts     startLine
	windows    windowState

	mu       sync.Mutex // guards the fields below, which other goroutines read
	have     bool       // there was a list in this term
	running  map[string]*groupState
	touched  map[string]bool             // keys with a call that no list shows yet: their cached state is outdated
	stalled  map[string]bool             // keys whose workers must be replaced
	limited  map[string]string           // keys whose workers wait for a limit, with the limit
	failed   map[string]*repeatedFailure // keys whose last call failed
	unlisted *repeatedFailure            // of the last list: the workers are not known
	shut     string                      // the limit that all workers wait for outside of the windows; empty in one
}

// groupState is the workers of a key as in the last list.
type groupState struct {
	workers []driver.Worker
	serving int // workers that are not draining
}

func newGroupLoop(d driver.Driver, size int, t Timing) *groupLoop {
	return &groupLoop{loop: newLoop(t), driver: d, size: size, relist: true, plans: map[string]plan{},
		pending: map[string]bool{},
		asleep:  map[string]time.Time{}, ensured: map[string]bool{}, inProgress: map[string]*groupCall{},
		touched: map[string]bool{}, stalled: map[string]bool{}, limited: map[string]string{},
		failed: map[string]*repeatedFailure{},
		starts: startLine{limits: Limits{}.withLimitDefaults()}}
}

// followDriver forwards change notifications of the driver until ctx ends.
func (l *groupLoop) followDriver(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.driver.Changed():
			l.hint.Store(true)
			l.wake.sendSignal()
		}
	}
}

// passGroups lists the workers if necessary and starts the calls that are due. It looks only at keys that
// changed: there may be thousands of others.
func (l *groupLoop) passGroups(ctx context.Context, now time.Time) time.Time {
	next := l.listWhenDue(ctx, now)
	for key, p := range l.news() {
		if l.plans[key] = p; p == end {
			delete(l.plans, key)
			delete(l.ensured, key)
		}
		l.pending[key] = true
	}
	l.followWindows(now)
	if !l.have {
		return next // no list yet
	}
	l.wakeDueKeys(now)
	for key := range l.pending {
		if l.atCallLimit() {
			break // the end of a call causes another pass
		}
		delete(l.pending, key)
		l.stepGroup(ctx, key, now)
	}
	l.advanceStartLine(func(key string) { l.stepGroup(ctx, key, now) })
	l.publishWaits()
	return earlierNonZero(earlierNonZero(next, l.awake), l.windows.until)
}

// followWindows marks all keys as pending when a window opens or the last one closes.
func (l *groupLoop) followWindows(now time.Time) {
	computed := l.windows.until
	if changed := l.windows.advanceWindow(now); !changed && l.windows.until.Equal(computed) {
		return
	}
	l.mu.Lock()
	l.shut = l.windows.describeWait()
	l.mu.Unlock()
	for key := range l.plans {
		l.pending[key] = true
	}
}

// planWorkers returns the plan for the workers of a key: outside of the windows they end, and their queue
// stays.
func (l *groupLoop) planWorkers(key string) plan {
	if l.windows.closed {
		return end
	}
	return l.plans[key]
}

// windowWait returns the limit that all workers wait for outside of the windows; empty in one.
func (l *groupLoop) windowWait() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shut
}

// wakeDueKeys marks as pending the keys that are due and those whose workers stall.
func (l *groupLoop) wakeDueKeys(now time.Time) {
	l.mu.Lock()
	for key := range l.stalled {
		l.pending[key] = true
	}
	l.mu.Unlock()
	if l.awake.IsZero() || l.awake.After(now) {
		return
	}
	l.awake = time.Time{}
	for key, due := range l.asleep {
		if due.After(now) {
			l.awake = earlierNonZero(l.awake, due)
			continue
		}
		delete(l.asleep, key)
		l.pending[key] = true
	}
}

// deferKey schedules another look at a key.
func (l *groupLoop) deferKey(key string, until time.Time) {
	l.asleep[key] = until
	l.awake = earlierNonZero(l.awake, until)
}

// stepGroup makes the call that a key needs, if any.
func (l *groupLoop) stepGroup(ctx context.Context, key string, now time.Time) {
	serving := l.servingWorkers(key)
	switch plan := l.planWorkers(key); {
	case plan == run && l.isStalled(key):
		l.replaceWorkers(ctx, key, now)
	case plan == run && (serving != l.size || !l.ensured[key]): // existing workers may have been started with older settings
		l.ensureWorkers(ctx, key, now)
	case plan == end && serving > 0:
		l.startGroupCall(ctx, key, now, "drain", func(ctx context.Context) error { return l.driver.Drain(ctx, key) })
	default:
		delete(l.asleep, key)
		if c := l.inProgress[key]; c != nil && c.told {
			delete(l.inProgress, key)
			l.recordOutcome(ctx, key, c.what, nil)
		}
	}
}

// servingWorkers returns how many workers of a key were not draining in the last list.
func (l *groupLoop) servingWorkers(key string) int {
	if st := l.running[key]; st != nil {
		return st.serving
	}
	return 0
}

// shortestPause is the shortest interval between two lists.
const shortestPause = 10 * time.Millisecond

// listWhenDue starts a list if one is due.
func (l *groupLoop) listWhenDue(ctx context.Context, now time.Time) time.Time {
	due := l.listed.Add(l.timing.Listing)
	if l.relist = l.hint.Swap(false) || l.relist; l.relist {
		// When many groups start together, one list covers many of them.
		due = l.listed.Add(min(max(l.took, shortestPause), l.timing.Interval))
	}
	due = latestTime(due, l.retry)
	switch {
	case l.listing:
		return time.Time{} // its end causes a pass
	case due.After(now):
		return due
	}
	l.listing, l.relist = true, false
	l.lists++
	number := l.lists
	l.startLoopCall(ctx, func(calling context.Context) func() {
		workers, err := l.driver.List(calling)
		return func() {
			l.listing = false
			l.mu.Lock()
			l.unlisted = l.failing.noteCallFailure(ctx, l.unlisted, err, "cannot list the running workers")
			l.mu.Unlock()
			if err != nil {
				l.relist, l.retry = true, time.Now().Add(l.timing.Interval)
				l.metrics.failures.WithLabelValues("list").Inc()
				return
			}
			l.listed = time.Now()
			l.took = l.listed.Sub(now)
			l.adoptWorkers(number, workers)
		}
	})
	return time.Time{}
}

// adoptWorkers adopts a new list.
func (l *groupLoop) adoptWorkers(number uint64, workers []driver.Worker) {
	running := map[string]*groupState{}
	for _, w := range workers {
		st := running[w.Key]
		if st == nil {
			st = &groupState{}
			running[w.Key] = st
		}
		st.workers = append(st.workers, w)
		if w.State != driver.Draining {
			st.serving++
		}
	}
	for key, st := range running {
		if l.servingWorkers(key) != st.serving {
			l.pending[key] = true
		}
	}
	for key := range l.running {
		if running[key] == nil {
			l.pending[key] = true
		}
	}
	l.starts.countListed(workers)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.have, l.running = true, running
	for key := range l.stalled {
		if running[key] == nil {
			delete(l.stalled, key)
		}
	}
	for key, c := range l.inProgress {
		if c.busy || number <= c.since {
			continue
		}
		if !c.told {
			delete(l.touched, key)
			l.pending[key] = true
		}
		l.discountAsked(c)
		c.applyListing(l.differenceToGoal(c.what, key), l.listed, l.timing.Interval)
	}
	l.moved.sendSignal()
}

// markStalled reports that the workers of a key hold requests and make no progress.
func (l *groupLoop) markStalled(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stalled[key] = true
	l.wake.sendSignal()
}

func (l *groupLoop) isStalled(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stalled[key]
}

// hasNoWorkers reports whether a key certainly has no workers: none running, none starting, none draining.
func (l *groupLoop) hasNoWorkers(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.have && !l.touched[key] && l.running[key] == nil
}

// limitedKeys returns the keys whose workers wait for a limit, with the limit.
func (l *groupLoop) limitedKeys() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.limited)
}

// callFailures returns why the last call for a key failed, by key.
func (l *groupLoop) callFailures() map[string]error {
	l.mu.Lock()
	defer l.mu.Unlock()
	failed := make(map[string]error, len(l.failed))
	for key, f := range l.failed {
		failed[key] = f.err
	}
	return failed
}

// listFailure returns why the running workers are not known, if that is so.
func (l *groupLoop) listFailure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.unlisted.callError(); err != nil {
		return fmt.Errorf("the running workers cannot be listed: %w", err)
	}
	return nil
}

// listedWorkers returns the workers of the last list, by key.
func (l *groupLoop) listedWorkers() map[string][]driver.Worker {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make(map[string][]driver.Worker, len(l.running))
	for key, st := range l.running {
		list[key] = st.workers
	}
	return list
}
