package node

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/recent"
	"github.com/rousehq/rouse/internal/timers"
)

// metrics are the metrics of a node. No label has a timer's name, a namespace or an address as its
// value, so their number does not grow with use. Only those of quotas and of named limits have a namespace:
// quotas.go, namedlimits.go.
type metrics struct {
	registry    *prometheus.Registry
	lag         *prometheus.HistogramVec
	early       prometheus.Counter
	attempts    *prometheus.CounterVec
	attemptTime *prometheus.HistogramVec
	occurrences *prometheus.CounterVec
	commitSize  prometheus.Histogram
	commitTime  prometheus.Histogram
	failures    *prometheus.CounterVec
	shed        prometheus.Counter
	conflicts   prometheus.Counter
	paused      *prometheus.CounterVec // timers that paused themselves
	missed      prometheus.Counter
	loads       *loads                   // nil: not collected
	exemplar    func(*rouse.Fire) string // the trace of a fire, "" for none; nil: there is no tracing
	done        atomic.Uint64            // attempts that their targets took
	recent      recent.Ring
	now         func() rouse.Instant

	mu    sync.RWMutex
	sinks map[string]*sinkMetrics
}

// sinkMetrics are the metrics of one kind of sink, looked up once: the hot path does not look at labels.
type sinkMetrics struct {
	lag, took prometheus.Observer
	attempts  [rouse.Deferred + 1]prometheus.Counter
}

// newRegistry returns a registry with the metrics of the process.
func newRegistry(version string) *prometheus.Registry {
	r := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "rouse_build_info", Help: "1, with the version as a label.",
		ConstLabels: prometheus.Labels{"version": version, "go": runtime.Version()}})
	build.Set(1)
	r.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

func newMetrics(r *prometheus.Registry) *metrics {
	m := &metrics{registry: r, sinks: map[string]*sinkMetrics{}}
	seconds := []float64{.001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600}
	m.lag = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rouse_fire_lag_seconds", Buckets: seconds,
		Help: "How much later than due the first attempt of a fire began."}, []string{"sink"})
	m.early = prometheus.NewCounter(prometheus.CounterOpts{Name: "rouse_fires_early_total",
		Help: "Fires that began before they were due. Must be 0."})
	m.attempts = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rouse_attempts_total",
		Help: "Attempts by sink and verdict."}, []string{"sink", "verdict"})
	m.attemptTime = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rouse_attempt_seconds", Buckets: seconds,
		Help: "How long attempts took."}, []string{"sink"})
	m.occurrences = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rouse_occurrences_total",
		Help: "Occurrences by how they ended and why."}, []string{"ending", "cause"})
	m.commitSize = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "rouse_commit_changes",
		Help: "Changes in a commit.", Buckets: prometheus.ExponentialBuckets(1, 4, 8)})
	m.commitTime = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "rouse_commit_seconds",
		Help: "How long commits took.", Buckets: seconds})
	m.failures = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rouse_failures_total",
		Help: "Things that failed and are tried again."}, []string{"what"})
	m.shed = prometheus.NewCounter(prometheus.CounterOpts{Name: "rouse_window_shed_total",
		Help: "Due rows put off because memory was full and their target slow."})
	m.conflicts = prometheus.NewCounter(prometheus.CounterOpts{Name: "rouse_settle_conflicts_total",
		Help: "Settles that named an old revision and were repeated."})
	m.missed = prometheus.NewCounter(prometheus.CounterOpts{Name: "rouse_tick_missed_total",
		Help: "Rows that the delayed clock of the tick strategy found unclaimed. Must be 0."})
	m.paused = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rouse_timers_paused_total",
		Help: "Timers that paused themselves, by why."}, []string{"cause"})
	for _, c := range []rouse.PauseCause{rouse.PauseDeadLetters, rouse.PauseScheduleCost, rouse.PauseScheduleInvalid} {
		m.paused.WithLabelValues(c.String())
	}
	m.registry.MustRegister(m.lag, m.early, m.attempts, m.attemptTime, m.occurrences, m.commitSize, m.commitTime,
		m.failures, m.shed,
		m.conflicts, m.missed, m.paused)
	for e := rouse.EndFired; e <= rouse.EndMissed; e++ {
		for _, c := range rouse.Causes(e) {
			m.occurrences.WithLabelValues(e.String(), c.String())
		}
	}
	for _, what := range []string{"claim", "clock", "decode", "get", "inspect", "invariants", "limit", "look", "renew", "settle",
		"trim", "watch"} {
		m.failures.WithLabelValues(what)
	}
	return m
}

// tickMissed counts and logs missed ticks, which must not happen.
func (m *metrics) tickMissed(log *slog.Logger) func(int) {
	return func(n int) {
		m.missed.Add(float64(n))
		if n > 0 {
			log.Error(
				"timers were due long ago and no node claimed them: see rouse explain, and rouse_unclaimed_timers for namespaces without a node", "timers", n)
		}
	}
}

// yieldReporter returns a function that reports that this node leaves its timers to quicker ones, or takes
// timers again.
func (m *metrics) yieldReporter(log *slog.Logger) func(yields bool, mine, peers time.Duration) {
	now := prometheus.NewGauge(prometheus.GaugeOpts{Name: "rouse_node_yields",
		Help: "1 while the node leaves its timers to others, as its calls to the store take several times as long as theirs."})
	m.registry.MustRegister(now)
	return func(yields bool, mine, peers time.Duration) {
		log := log.With("call", mine, "peers", peers)
		if yields {
			now.Set(1)
			log.Warn(
				"calls to the store take this node much longer than its peers: they take its timers; look at its network and load")
			return
		}
		now.Set(0)
		log.Info("calls to the store take this node as long as its peers again: it takes its timers back")
	}
}

// watchEngine adds gauges that are read when they are asked for.
func (m *metrics) watchEngine(e *timers.Timers, store rouse.Store) {
	gauge := func(name, help string, read func(engine.Stats) float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return read(e.Stats()) }))
	}
	gauge("rouse_window_rows", "Rows in memory.", func(s engine.Stats) float64 { return float64(s.Window) })
	gauge("rouse_window_bytes", "Bytes of rows in memory.", func(s engine.Stats) float64 { return float64(s.Bytes) })
	gauge("rouse_queue_rows", "Due rows that wait for their lane.",
		func(s engine.Stats) float64 { return float64(s.Queued) })
	m.watchEvaluations(e)
	gauge("rouse_fires_outstanding", "Fires with sinks.", func(s engine.Stats) float64 { return float64(s.Out) })
	gauge("rouse_deliveries_running", "Running deliveries.", func(s engine.Stats) float64 { return float64(s.Running) })
	gauge("rouse_deliveries_full_seconds",
		"For how long fires have waited while all deliveries are in progress, and none has ended.",
		func(s engine.Stats) float64 { return s.Full.Seconds() })
	gauge("rouse_namespaces_blocked",
		"Namespaces whose fires wait until one of their deliveries ends, or one of another namespace.",
		func(s engine.Stats) float64 { return float64(s.Blocked) })
	gauge("rouse_lanes", "Lanes with something to do.", func(s engine.Stats) float64 { return float64(s.Lanes) })
	gauge("rouse_store_parts_missing",
		"Parts of a store on several servers that did not answer the last claim. Should be 0.",
		func(s engine.Stats) float64 { return float64(s.Missing) })
	violated := func(kind string, read func(engine.Violations) int) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rouse_invariant_violations",
			Help:        "What must be zero, at the last look: overdue rows that memory does not know of, that do not move, or that are held past their hold.",
			ConstLabels: prometheus.Labels{"kind": kind}}, func() float64 { return float64(read(e.Violations())) }))
	}
	violated("unclaimed", func(v engine.Violations) int { return v.Unclaimed })
	violated("stuck", func(v engine.Violations) int { return v.Stuck })
	violated("held-over", func(v engine.Violations) int { return v.HeldOver })
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rouse_unclaimed_timers",
		Help: "Overdue timers in namespaces that no live node claims, at the last look, up to a thousand. Should be 0."},
		func() float64 { return float64(e.Violations().Homeless) }))
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rouse_invariant_looks_total",
		Help: "Looks at the invariants."},
		func() float64 { return float64(e.Violations().Looks) }))
	if c, ok := store.(rouse.Checked); ok {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rouse_store_damaged",
			Help: "1 if damage of the store's files was met since the start, or the data is gone from the store's server."},
			func() float64 {
				if c.Corrupted() != nil {
					return 1
				}
				return 0
			}))
	}
	count := func(st rouse.State) func() float64 {
		return func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			n, err := store.Count(ctx, rouse.Query{States: []rouse.State{st}})
			if err != nil {
				return -1
			}
			return float64(n)
		}
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rouse_expectations_overdue",
		Help: "Timers that have not succeeded in the time in which they are expected to."}, count(rouse.StateOverdue)))
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rouse_notes",
		Help: "Rows of the store that are no timers: of Idempotency-Keys, jobs, calendars, settings and audit events."},
		count(rouse.StateNote)))
	for _, st := range []rouse.State{rouse.StateScheduled, rouse.StateRetrying, rouse.StateAccepted, rouse.StatePaused,
		rouse.StateEnded, rouse.StateFiring, rouse.StateDead} {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rouse_timers", Help: "Timers by state.",
			ConstLabels: prometheus.Labels{"state": st.String()}}, count(st)))
	}
}

// engineEvents connects the metrics and the log to an engine.
func (m *metrics) engineEvents(log *slog.Logger) engine.Events {
	var quiet repeats
	return engine.Events{
		Sent:      m.countSent,
		Attempted: m.recent.Count,
		Created:   func(n int) { m.recent.Created(m.now(), n) },
		Reported:  m.observeAttempt,
		Concluded: m.countOutcome,
		Recorded:  m.countRecords,
		Committed: func(changes int, took time.Duration, err error) {
			m.commitSize.Observe(float64(changes))
			m.commitTime.Observe(took.Seconds())
		},
		Failed: func(what string, err error) {
			m.failures.WithLabelValues(what).Inc()
			if n := quiet.countUnlogged(what); n > 0 {
				log.Warn("failed, will try again", "what", what, "error", err, "times", n)
			}
		},
		Shed: func(rows int) {
			m.shed.Add(float64(rows))
			if n := quiet.countUnlogged("shed"); n > 0 {
				log.Warn("memory is full of fires for slow targets; some are put off", "rows", rows, "times", n)
			}
		},
		Paused: func(t *rouse.Timer) {
			m.paused.WithLabelValues(t.PauseCause.String()).Inc()
			if n := quiet.countUnlogged("paused"); n > 0 {
				log.Warn("a timer paused itself", "namespace", t.Key.Namespace, "name", t.Key.Name, "cause", t.PauseCause, "reason",
					t.Reason, "times", n)
			}
		},
		Limited: func(limit string, key rouse.Key) {
			if n := quiet.countUnlogged(limit); n > 0 {
				log.Warn("a timer has reached a limit", "limit", limit, "namespace", key.Namespace, "name", key.Name, "times", n)
			}
		},
		Unclaimed: func(namespace string, overdue int) {
			if n := quiet.countUnlogged("unclaimed " + namespace); n > 0 {
				log.Warn("no live node claims the namespace: its timers wait until one does", "namespace", namespace, "overdue",
					overdue, "times", n)
			}
		},
		Conflict: func(writes int) { m.conflicts.Add(float64(writes)) },
	}
}

func (m *metrics) countSent(fires []rouse.Fire, now rouse.Instant) {
	if m.loads != nil {
		m.loads.countFires(fires)
	}
	s := m.sinkMetricsOf(fires[0].Spec.Target)
	for i := range fires {
		if f := &fires[i]; f.Attempt == 1 {
			lag := now.Sub(f.At) // a jitter is no lag
			if lag < 0 {
				m.early.Inc()
			}
			if m.exemplar != nil {
				if id := m.exemplar(f); id != "" {
					s.lag.(prometheus.ExemplarObserver).ObserveWithExemplar(lag.Seconds(), prometheus.Labels{"trace_id": id})
					continue
				}
			}
			s.lag.Observe(lag.Seconds())
		}
	}
}

// countRecords counts occurrences; a record without a count is one.
func (m *metrics) countRecords(records []rouse.Record) {
	delivered := 0 // most of them
	for i := range records {
		r := &records[i]
		if r.Cause == rouse.CauseDelivered {
			delivered++
			continue
		}
		m.occurrences.WithLabelValues(r.Ending.String(), r.Cause.String()).Add(float64(max(1, r.Count)))
	}
	if delivered > 0 {
		m.occurrences.WithLabelValues(rouse.EndFired.String(), rouse.CauseDelivered.String()).Add(float64(delivered))
	}
}

func (m *metrics) observeAttempt(t *rouse.Timer, o rouse.Outcome, took time.Duration) {
	m.countOutcome(t, o)
	if t != nil {
		m.sinkMetricsOf(t.Spec.Target).took.Observe(took.Seconds())
	}
}

// countOutcome counts an attempt's outcome; t is nil if its row has changed. One that was accepted is counted
// as accepted, and by its outcome as soon as that is known.
func (m *metrics) countOutcome(t *rouse.Timer, o rouse.Outcome) {
	if o.Verdict == rouse.Done {
		m.done.Add(1)
	}
	if t == nil {
		return
	}
	s := m.sinkMetricsOf(t.Spec.Target)
	if int(o.Verdict) < len(s.attempts) && s.attempts[o.Verdict] != nil {
		s.attempts[o.Verdict].Inc()
	}
}

// sinkMetricsOf returns the metrics of a target's kind of sink. Targets were checked, so there are few kinds.
func (m *metrics) sinkMetricsOf(target string) *sinkMetrics {
	scheme, _, _ := strings.Cut(target, ":")
	m.mu.RLock()
	s := m.sinks[scheme]
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	scheme = strings.Clone(scheme) // the target shares the bytes of a row
	s = &sinkMetrics{lag: m.lag.WithLabelValues(scheme), took: m.attemptTime.WithLabelValues(scheme)}
	for v := rouse.Done; v <= rouse.Deferred; v++ {
		s.attempts[v] = m.attempts.WithLabelValues(scheme, v.String())
	}
	m.mu.Lock()
	m.sinks[scheme] = s
	m.mu.Unlock()
	return s
}

// repeats keeps a line that would be logged over and over to one in ten seconds.
type repeats struct {
	mu   sync.Mutex
	last map[string]*repeat
}

type repeat struct {
	at time.Time
	n  int
}

// countUnlogged returns how often the line came since it was last logged, or 0 if it is not to be logged now.
func (r *repeats) countUnlogged(what string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[string]*repeat{}
	}
	l := r.last[what]
	if l == nil {
		l = &repeat{}
		r.last[what] = l
	}
	l.n++
	if time.Since(l.at) < 10*time.Second {
		return 0
	}
	n := l.n
	l.at, l.n = time.Now(), 0
	return n
}

// watchEvaluations adds metrics of evaluations outside of the loops that all timers share.
func (m *metrics) watchEvaluations(e *timers.Timers) {
	counter := func(name, help string, read func(engine.Evaluations) uint64) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(read(e.Evaluations())) }))
	}
	counter("rouse_evaluations_total",
		"Schedules evaluated in turn, because they cost more than the settling loop spends on one.",
		func(v engine.Evaluations) uint64 { return v.Count })
	counter("rouse_evaluation_steps_total", "Steps that these took.", func(v engine.Evaluations) uint64 { return v.Steps })
	m.registry.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rouse_overlap_limited_total",
			Help: "Times that a timer had as many occurrences in progress as it may, and what was due was skipped."},
			func() float64 { return float64(e.Crowds().Overlaps) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rouse_dead_letters_dropped_total",
			Help: "Dead letters dropped because their timer had too many."},
			func() float64 { return float64(e.Crowds().Dropped) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rouse_notices_skipped_total",
			Help: "Notices and callbacks skipped because too many of their timer or namespace waited for their targets."},
			func() float64 { return float64(e.Crowds().Notices) }))
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rouse_evaluations_waiting",
		Help: "Schedules that wait for their turn."},
		func() float64 { return float64(e.Evaluations().Waiting) }))
}
