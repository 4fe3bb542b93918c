package pool

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// Term is a period in which a process leads a pool. It starts without knowledge of groups, except for the
// existing queues. Its methods are safe for concurrent use and do nothing after its end.
type Term struct {
	manager  *Manager
	metrics  *Metrics
	tracker  *liveTracker
	queues   *queueLoop
	groups   *groupLoop
	debounce *debouncer
	began    time.Time
	loops    sync.WaitGroup

	mu      sync.Mutex
	cold    map[string]time.Time // since when a new group waits for the first report of a worker, by key
	seen    map[string]time.Time // time of the last report, by key
	served  map[string]time.Time // when its workers last began or ended a request, or held none, by key
	load    map[string]Load      // of queues, when they were last counted, by key
	counted time.Time            // as of when that is
	stopped map[string]*stop     // keys whose workers were stopped because of max_work

	limits limitLog
}

func newTerm(m *Manager, queues Queues, there []Queue) *Term {
	c := &m.config
	var keys []string
	for _, q := range there {
		if c.ownsGroup(q.Key) {
			keys = append(keys, q.Key)
		}
	}
	t := &Term{manager: m, metrics: c.Metrics, debounce: newDebouncer(c.ExtraLifetime), began: time.Now(),
		cold: map[string]time.Time{}, seen: map[string]time.Time{}, served: map[string]time.Time{},
		stopped: map[string]*stop{}}
	t.queues = newQueueLoop(queues, c, there)
	t.groups = newGroupLoop(c.Driver, c.Workers, c.Timing)
	t.groups.starts.limits, t.groups.windows.windows = c.Limits, c.Windows
	tracker := NewTracker(c.Delays, t.began, keys)
	tracker.limits, tracker.maxWork = c.Limits, c.MaxWork
	for _, key := range m.pinnedKeys() {
		tracker.Pin(t.began, key, true)
	}
	t.tracker = newLiveTracker(tracker, t.queues.wake.sendSignal)

	t.queues.tracker, t.queues.log, t.queues.metrics = t.tracker, m.log, c.Metrics
	t.queues.failing.log, t.groups.failing.log, t.groups.metrics = m.log, m.log, c.Metrics
	t.groups.reached = func() { t.limits.warnLimitReached(m.log) }
	t.queues.lag, t.groups.lag = c.Metrics.lag.WithLabelValues("queues"), c.Metrics.lag.WithLabelValues("groups")
	t.queues.gone, t.queues.free, t.queues.moved = t.groups.hasNoWorkers, t.workersMayEnd, t.groups.wake
	t.groups.news, t.groups.moved = t.queues.changedPlans, t.queues.wake
	t.groups.group = func(key string) driver.Group {
		vars := maps.Clone(queues.Vars(key))
		namespace, plain := SplitGroup(key)
		vars["WORKER_POOL"], vars["WORKER_KEY"], vars["WORKER_KEY_ENCODED"] = c.Name, plain, Encode(plain, 3*MaxKey)
		if namespace != "" {
			vars["WORKER_NAMESPACE"] = namespace
		}
		return driver.Group{Key: key, Workers: c.Workers, Vars: vars}
	}
	return t
}

// runLoops runs the loops until ctx ends.
func (t *Term) runLoops(ctx context.Context) {
	t.loops.Go(func() { t.tracker.runDeadlines(ctx) })
	t.loops.Go(func() { t.groups.followDriver(ctx) })
	t.loops.Go(func() {
		t.queues.runPasses(ctx, func(now time.Time) time.Time { return t.queues.passQueues(ctx, now) })
	})
	t.loops.Go(func() {
		t.groups.runPasses(ctx, func(now time.Time) time.Time { return t.groups.passGroups(ctx, now) })
	})
	t.loops.Go(func() { t.updateGauges(ctx) })
}

// Wait returns when the term and all its goroutines have ended.
func (t *Term) Wait() {
	t.loops.Wait()
	t.tracker.changeTracker(func(tracker *Tracker, _ time.Time) { tracker.releaseOwned() })
	t.manager.dropTerm(t)
}

// Await makes the group of an orphan's key Active, and returns when the queue of the key is bound, or ctx
// ends. If again is set, the orphan was published to its queue before and was returned: the queue is then
// created and bound again, whatever its recorded state.
func (t *Term) Await(ctx context.Context, key string, again bool) error {
	return t.AwaitFor(ctx, key, "", again)
}

// AwaitFor is Await for a request of a namespace, whose limit applies in addition. It fails with ErrLimit
// immediately if a limit allows no further group. A caller that retries within a few seconds keeps its place
// in the queue.
func (t *Term) AwaitFor(ctx context.Context, key, namespace string, again bool) error {
	g, cold, ok := t.tracker.askForGroup(key, namespace)
	if !ok {
		t.limits.warnLimitReached(t.manager.log)
		return fmt.Errorf("the group of the key waits: %w", ErrLimit)
	}
	t.isCold(key, cold)
	if again {
		t.queues.doubtQueue(key)
	}
	return t.queues.awaitBound(ctx, key, g)
}

// The events that workers report.
const (
	Started         = "started"          // it is about to take requests
	Ready           = "ready"            // it takes requests
	RequestReceived = "request-received" // it has taken one
	RequestDone     = "request-done"     // it has answered one

	// Wanted is not sent by workers: a caller that expects a request uses it to start the group in advance.
	Wanted = "wanted"
)

// Note handles the report of a worker. Each report makes the group of the key Active, with one exception: a
// start does not prolong an existing group, because a worker that crashes at once starts again and again.
func (t *Term) Note(key, event string) {
	switch event {
	case Started, Ready, RequestReceived, RequestDone, Wanted:
	default:
		return // of a newer protocol version
	}
	t.metrics.reports.WithLabelValues(event).Inc()
	owned := t.manager.config.ownsGroup(key)
	if event == Wanted {
		if owned {
			t.requireActive(key, 0)
		}
		return
	}
	now := time.Now()
	t.mu.Lock()
	since, waits := t.cold[key]
	delete(t.cold, key)
	t.seen[key] = now
	if event == RequestReceived || event == RequestDone {
		t.served[key] = now
	}
	t.mu.Unlock()
	if waits {
		t.metrics.firstWorker.Observe(now.Sub(since).Seconds())
	}
	if p, ok := t.manager.config.Driver.(driver.Pauser); ok && event != Started {
		p.Proved(key)
	}
	if !owned {
		return // its group is to end
	}
	starts := event == Started || event == Ready
	if starts && t.tracker.hasGroup(key) || !starts && !t.debounce.admitReport(now, key) {
		return
	}
	t.requireActive(key, t.manager.config.ExtraLifetime)
}

// NoteNamed is Note for a worker that knows the name of its group, and for a caller that expects a request:
// the group it wants is never one that is to end.
func (t *Term) NoteNamed(name, event string) error {
	find := t.groupNamed
	if event == Wanted {
		find = t.manager.config.ParseGroup
	}
	group, err := find(name)
	if err == nil {
		t.Note(group, event)
	}
	return err
}

// groupNamed returns the group with a name, which is one that is to end as long as it is there.
func (t *Term) groupNamed(name string) (group string, err error) {
	if old, ok := t.queues.oldGroup(name); ok {
		return old, nil
	}
	return t.manager.config.ParseGroup(name)
}

// Loads takes the contents of all request queues as of a time, by key, after each count of the transport.
// Requests that wait or are held keep their group Active: a busy worker is not stopped, unless it holds its
// requests for longer than max_work. It also replaces workers that hold requests but have reported nothing
// for longer than the patience, if that is not zero. Draining kills workers that hang after a while, and
// others get their requests.
func (t *Term) Loads(load map[string]Load, asOf time.Time, patience time.Duration) {
	now, workers := time.Now(), t.groups.listedWorkers()
	for key, l := range load {
		if l.Held == 0 {
			if !l.Unknown {
				t.noteServed(key, now)
			}
			continue
		}
		reported, served := t.lastSigns(key)
		held := asOf.Sub(t.sinceStart(served, workers[key], now))
		quiet := now.Sub(t.sinceStart(reported, workers[key], now))
		switch maxWork := t.manager.config.MaxWork; {
		case maxWork > 0 && held > maxWork:
			t.mu.Lock()
			t.stopped[key] = &stop{now, now}
			t.mu.Unlock()
			t.manager.log.Warn("workers hold requests for longer than max_work and are stopped", "key", GroupName(key),
				"requests", l.Held, "for", held, "max_work", maxWork)
			t.metrics.overMaxWork.Inc()
		case patience > 0 && quiet > patience && len(workers[key]) > 0:
			t.manager.log.Warn("workers hold requests without activity and are replaced", "key", GroupName(key), "requests",
				l.Held, "for", quiet)
			t.metrics.stalls.Inc()
		default:
			continue
		}
		if len(workers[key]) > 0 {
			t.groups.markStalled(key)
		}
	}
	t.mu.Lock()
	t.load, t.counted = load, asOf
	for key, s := range t.stopped {
		draining := func(w driver.Worker) bool { return w.State == driver.Draining }
		if slices.ContainsFunc(workers[key], draining) {
			s.drained = now
		} else if now.Sub(s.drained) > overworkedFor {
			delete(t.stopped, key)
		}
	}
	t.mu.Unlock()
	t.tracker.applyLoads(load, asOf)
}

// countFailing returns how many groups there are whose last call failed.
func (t *Term) countFailing(queues map[string]queueStatus) int {
	failed := t.groups.callFailures()
	n := len(failed)
	for key, q := range queues {
		if _, counted := failed[key]; q.failed != nil && !counted {
			n++
		}
	}
	return n
}

// stop is when workers were stopped, and when they were last seen to drain.
type stop struct{ at, drained time.Time }

// overworkedFor is how long after the end of workers that were stopped because of max_work the end of a
// request counts as caused by that. It must exceed the interval of counts.
const overworkedFor = 30 * time.Second

// Overworked reports whether the workers of the group with a name have just been stopped because of max_work.
func (t *Term) Overworked(name string) bool {
	group, err := t.groupNamed(name)
	if err != nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stopped[group] != nil
}

func (t *Term) noteServed(key string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.served[key] = now
}

// lastSigns returns when the workers of a key last reported anything, and when they last began or ended a
// request, held none, or were stopped because of max_work.
func (t *Term) lastSigns(key string) (reported, served time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	served = t.served[key]
	if s := t.stopped[key]; s != nil {
		served = latestTime(served, s.drained)
	}
	return t.seen[key], served
}

// sinceStart returns the time of the last sign of the workers of a key, but none before they were started and
// this term began; now if they are already being replaced.
func (t *Term) sinceStart(sign time.Time, workers []driver.Worker, now time.Time) time.Time {
	since := latestTime(sign, t.began)
	for _, w := range workers {
		if w.State == driver.Draining {
			return now
		}
		since = latestTime(since, w.Since)
	}
	return since
}

// workersMayEnd reports whether the workers of a key may end, whose queue has been unbound since a time.
func (t *Term) workersMayEnd(key string, unbound time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.stopped[key]; s != nil && !s.at.Before(unbound) {
		return true
	}
	known := unbound
	if l := t.load[key]; !l.Unknown && !t.counted.Before(unbound) {
		if l.Ready+l.Held == 0 {
			return true
		}
		known = t.counted
	}
	maxWork := t.manager.config.MaxWork
	if maxWork == 0 || time.Since(known) <= maxWork {
		return false
	}
	t.manager.log.Warn(
		"the workers of an idle key are stopped although they may hold requests, which could not be counted for max_work",
		"key", GroupName(key), "max_work", maxWork)
	t.metrics.overMaxWork.Inc()
	return true
}

func (t *Term) requireActive(key string, extra time.Duration) Generation {
	g, cold := t.tracker.requireGroup(key, extra)
	t.isCold(key, cold)
	return g
}

// isCold records that a group was created.
func (t *Term) isCold(key string, cold bool) {
	if cold {
		t.metrics.cold.Inc()
		t.mu.Lock()
		t.cold[key] = time.Now()
		t.mu.Unlock()
	}
}

// limitLog logs that a limit is reached, at most once per limitPause.
type limitLog struct {
	mu     sync.Mutex
	logged time.Time
}

// limitPause is the minimum interval between two such log lines.
const limitPause = time.Minute

func (l *limitLog) warnLimitReached(log *slog.Logger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.logged) >= limitPause {
		l.logged = now
		log.Warn("a limit of the pool is reached; further groups and starts wait", "see",
			"rouse pool status, and the metric rouse_pool_waiting")
	}
}

// Overdue reports that a worker has missed the deadline of a request. The workers of the key are replaced.
func (t *Term) Overdue(key string) {
	t.manager.log.Warn("a worker missed the deadline of a request; the workers of its key are replaced", "key",
		GroupName(key))
	t.metrics.stalls.Inc()
	t.groups.markStalled(key)
}

// updateGauges updates the gauges and removes the entries of deleted groups until ctx ends.
func (t *Term) updateGauges(ctx context.Context) {
	tick := time.NewTicker(t.manager.config.Timing.Listing)
	defer tick.Stop()
	var counted [Unbound + 1]uint64
	for {
		changes := t.tracker.statusChanges()
		for s, n := range changes {
			t.metrics.changes.WithLabelValues(Status(s).String()).Add(float64(n - counted[s]))
		}
		counted = changes
		target := t.tracker.currentTarget()
		groups := map[Status]int{}
		for _, s := range target.Groups {
			groups[s]++
		}
		for _, s := range []Status{Active, Unbound} {
			t.metrics.groups.WithLabelValues(s.String()).Set(float64(groups[s]))
		}
		t.groups.mu.Lock()
		waiting := map[string]int{LimitGroups: 0, LimitNamespace: 0, rouse.QuotaPoolGroups: 0, LimitWorkers: 0,
			LimitStarts: 0, LimitWindows: 0}
		for _, limit := range t.groups.limited {
			waiting[limit]++
		}
		t.groups.mu.Unlock()
		if t.groups.windowWait() != "" {
			waiting[LimitWindows] = groups[Active]
		}
		for _, w := range t.tracker.waitingKeys() {
			waiting[w.limit]++
		}
		for limit, n := range waiting {
			t.metrics.waiting.WithLabelValues(limit).Set(float64(n))
		}
		workers := map[driver.State]int{}
		for _, list := range t.groups.listedWorkers() {
			for _, w := range list {
				workers[w.State]++
			}
		}
		for _, s := range []driver.State{driver.Running, driver.Waiting, driver.Draining} {
			t.metrics.workers.WithLabelValues(string(s)).Set(float64(workers[s]))
		}
		_, queues := t.queues.queueStatuses()
		t.metrics.failing.Set(float64(t.countFailing(queues)))
		t.mu.Lock()
		for _, m := range []map[string]time.Time{t.cold, t.seen, t.served} {
			maps.DeleteFunc(m, func(key string, _ time.Time) bool {
				_, there := queues[key] // its workers may still hold requests
				return !there && target.Groups[key] == Inactive
			})
		}
		t.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
