package pool

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
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

	mu   sync.Mutex
	cold map[string]time.Time // since when a new group waits for the first report of a worker, by key
	seen map[string]time.Time // time of the last report, by key
	load map[string]Load      // of queues, when they were last counted, by key

	limits limitLog
}

func newTerm(m *Manager, queues Queues, there []Queue) *Term {
	c := &m.config
	keys := make([]string, len(there))
	for i, q := range there {
		keys[i] = q.Key
	}
	t := &Term{manager: m, metrics: c.Metrics, debounce: newDebouncer(c.ExtraLifetime), began: time.Now(),
		cold: map[string]time.Time{}, seen: map[string]time.Time{}}
	t.queues = newQueueLoop(queues, c.Timing, there)
	t.groups = newGroupLoop(c.Driver, c.Workers, c.Timing)
	t.groups.starts.limits = c.Limits
	tracker := NewTracker(c.Delays, t.began, keys)
	tracker.limits = c.Limits
	for _, key := range m.pins() {
		tracker.Pin(t.began, key, true)
	}
	t.tracker = newLiveTracker(tracker, t.queues.wake.send)

	t.queues.tracker, t.queues.log, t.queues.metrics = t.tracker, m.log, c.Metrics
	t.groups.log, t.groups.metrics = m.log, c.Metrics
	t.groups.reached = func() { t.limits.reached(m.log) }
	t.queues.lag, t.groups.lag = c.Metrics.lag.WithLabelValues("queues"), c.Metrics.lag.WithLabelValues("groups")
	t.queues.gone, t.queues.moved = t.groups.gone, t.groups.wake
	t.groups.news, t.groups.moved = t.queues.news, t.queues.wake
	t.groups.group = func(key string) driver.Group {
		vars := maps.Clone(queues.Vars(key))
		vars["WORKER_POOL"], vars["WORKER_KEY"], vars["WORKER_KEY_ENCODED"] = c.Name, key, Encode(key, 3*MaxKey)
		return driver.Group{Key: key, Workers: c.Workers, Vars: vars}
	}
	return t
}

// run runs the loops until ctx ends.
func (t *Term) run(ctx context.Context) {
	t.loops.Go(func() { t.tracker.run(ctx) })
	t.loops.Go(func() { t.groups.listen(ctx) })
	t.loops.Go(func() {
		t.queues.run(ctx, func(now time.Time) time.Time { return t.queues.pass(ctx, now) })
	})
	t.loops.Go(func() {
		t.groups.run(ctx, func(now time.Time) time.Time { return t.groups.pass(ctx, now) })
	})
	t.loops.Go(func() { t.count(ctx) })
}

// Wait returns when the term and all its goroutines have ended.
func (t *Term) Wait() {
	t.loops.Wait()
	t.tracker.do(func(tracker *Tracker, _ time.Time) { tracker.release() })
	t.manager.ended(t)
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
	g, cold, ok := t.tracker.ask(key, namespace)
	if !ok {
		t.limits.reached(t.manager.log)
		return fmt.Errorf("the group of the key waits: %w", ErrLimit)
	}
	t.isCold(key, cold)
	if again {
		t.queues.doubt(key)
	}
	return t.queues.await(ctx, key, g)
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
	if CheckKey(key) != nil {
		return
	}
	t.metrics.reports.WithLabelValues(event).Inc()
	if event == Wanted {
		t.require(key, 0)
		return
	}
	now := time.Now()
	t.mu.Lock()
	since, waits := t.cold[key]
	delete(t.cold, key)
	t.seen[key] = now
	t.mu.Unlock()
	if waits {
		t.metrics.firstWorker.Observe(now.Sub(since).Seconds())
	}
	if p, ok := t.manager.config.Driver.(driver.Pauser); ok && event != Started {
		p.Proved(key)
	}
	starts := event == Started || event == Ready
	if starts && t.tracker.known(key) || !starts && !t.debounce.admit(now, key) {
		return
	}
	t.require(key, t.manager.config.ExtraLifetime)
}

// Stalled takes the number of requests that the workers of each key hold. It replaces workers that hold
// requests but have reported nothing for longer than the patience and were not just started: draining kills
// hanging workers after a while, and others get their requests.
func (t *Term) Stalled(held map[string]int, patience time.Duration) {
	now := time.Now()
	workers := t.groups.workers()
	for key, n := range held {
		since := latest(t.lastReport(key), t.began)
		for _, w := range workers[key] {
			if w.State == driver.Draining {
				since = now // already being replaced
			}
			since = latest(since, w.Since)
		}
		if n > 0 && len(workers[key]) > 0 && now.Sub(since) > patience {
			t.manager.log.Warn("workers hold requests without activity and are replaced", "key", key, "requests", n, "for", now.Sub(since))
			t.metrics.stalls.Inc()
			t.groups.stall(key)
		}
	}
}

func (t *Term) require(key string, extra time.Duration) Generation {
	g, cold := t.tracker.require(key, extra)
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

func (l *limitLog) reached(log *slog.Logger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.logged) >= limitPause {
		l.logged = now
		log.Warn("a limit of the pool is reached; further groups and starts wait", "see", "rouse pool status, and the metric rouse_pool_waiting")
	}
}

// Loads takes the contents of the request queues, by key, after each count of the transport.
func (t *Term) Loads(load map[string]Load) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.load = load
}

// Overdue reports that a worker has missed the deadline of a request. The workers of the key are replaced.
func (t *Term) Overdue(key string) {
	t.manager.log.Warn("a worker missed the deadline of a request; the workers of its key are replaced", "key", key)
	t.metrics.stalls.Inc()
	t.groups.stall(key)
}

// count updates the gauges and removes the entries of deleted groups until ctx ends.
func (t *Term) count(ctx context.Context) {
	tick := time.NewTicker(t.manager.config.Timing.Listing)
	defer tick.Stop()
	var counted [Unbound + 1]uint64
	for {
		changes := t.tracker.changes()
		for s, n := range changes {
			t.metrics.changes.WithLabelValues(Status(s).String()).Add(float64(n - counted[s]))
		}
		counted = changes
		target := t.tracker.target()
		groups := map[Status]int{}
		for _, s := range target.Groups {
			groups[s]++
		}
		for _, s := range []Status{Active, Unbound} {
			t.metrics.groups.WithLabelValues(s.String()).Set(float64(groups[s]))
		}
		t.groups.mu.Lock()
		waiting := map[string]int{LimitGroups: 0, LimitNamespace: 0, rouse.QuotaPoolGroups: 0, LimitWorkers: 0, LimitStarts: 0}
		for _, limit := range t.groups.limited {
			waiting[limit]++
		}
		t.groups.mu.Unlock()
		for _, w := range t.tracker.waiting() {
			waiting[w.limit]++
		}
		for limit, n := range waiting {
			t.metrics.waiting.WithLabelValues(limit).Set(float64(n))
		}
		workers := map[driver.State]int{}
		for _, list := range t.groups.workers() {
			for _, w := range list {
				workers[w.State]++
			}
		}
		for _, s := range []driver.State{driver.Running, driver.Waiting, driver.Draining} {
			t.metrics.workers.WithLabelValues(string(s)).Set(float64(workers[s]))
		}
		t.mu.Lock()
		for _, m := range []map[string]time.Time{t.cold, t.seen} {
			maps.DeleteFunc(m, func(key string, _ time.Time) bool { return target.Groups[key] == Inactive })
		}
		t.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
