package pool

import "github.com/prometheus/client_golang/prometheus"

// Registry creates the metrics of pools. No label contains a key, so clients cannot increase the number of
// series.
type Registry struct {
	counters   map[string]*prometheus.CounterVec
	gauges     map[string]*prometheus.GaugeVec
	histograms map[string]*prometheus.HistogramVec
}

// NewRegistry registers the metrics of all pools of a process.
func NewRegistry(r prometheus.Registerer) *Registry {
	m := &Registry{map[string]*prometheus.CounterVec{}, map[string]*prometheus.GaugeVec{},
		map[string]*prometheus.HistogramVec{}}
	counter := func(name, help string, labels ...string) {
		m.counters[name] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rouse_pool_" + name, Help: help},
			append([]string{"pool"}, labels...))
		r.MustRegister(m.counters[name])
	}
	gauge := func(name, help string, labels ...string) {
		m.gauges[name] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "rouse_pool_" + name, Help: help},
			append([]string{"pool"}, labels...))
		r.MustRegister(m.gauges[name])
	}
	seconds := func(name, help string, labels ...string) {
		m.histograms[name] = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rouse_pool_" + name, Help: help,
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}},
			append([]string{"pool"}, labels...))
		r.MustRegister(m.histograms[name])
	}
	counter("cold_starts_total", "Groups that a request or a worker's report made from nothing.")
	counter("state_changes_total", "Groups that changed their status, by the status they have then.", "to")
	counter("failures_total", "Calls that failed and are tried again.", "what")
	counter("orphans_total", "Requests that came before their queue, by what became of them.", "outcome")
	counter("dead_letters_total", "Requests that their queue gave up, by its reason.", "reason")
	counter("error_answers_total", "Error answers to clients, by what became of them.", "outcome")
	counter("reports_total", "Reports of workers, by event.", "event")
	counter("stalls_total", "Groups whose workers held requests, did nothing for too long, and were replaced.")
	counter("over_max_work_total", "Groups whose workers held requests for longer than max_work, and were stopped.")
	counter("lost_on_delete_total", "Requests that were deleted with their queue. Must be 0.")
	gauge("requests", "Requests in request queues, ready for a worker or held by one, and waiting for such a queue.",
		"state")
	gauge("groups", "Groups by the status that they should have.", "status")
	gauge("workers", "Workers by state.", "state")
	gauge("waiting", "Groups and starts that wait for a limit, by the limit.", "limit")
	gauge("poison_requests", "Requests in the poison inventory.")
	gauge("failing", "Groups whose last call of the driver or the transport failed.")
	gauge("leads", "1 while this process leads the pool.")
	seconds("first_worker_seconds", "From the request that made a group to the first report of one of its workers.")
	seconds("orphan_seconds", "From the arrival of an orphan until its queue has it.")
	seconds("loop_lag_seconds", "From when a loop is told of a change until it looks at it.", "loop")
	return m
}

// Metrics are the metrics of one pool.
type Metrics struct {
	failures, changes, orphans, dead, answers, reports *prometheus.CounterVec
	requests, groups, workers, waiting                 *prometheus.GaugeVec
	lag                                                prometheus.ObserverVec
	cold, lost, stalls, overMaxWork                    prometheus.Counter
	poison, leads, failing                             prometheus.Gauge
	firstWorker, orphanWait                            prometheus.Observer
}

// Pool returns the metrics of a pool, which start at 0.
func (r *Registry) Pool(name string) *Metrics {
	is := prometheus.Labels{"pool": name}
	counter := func(name, label string, values ...string) *prometheus.CounterVec {
		c := r.counters[name].MustCurryWith(is)
		for _, v := range values {
			c.With(prometheus.Labels{label: v})
		}
		return c
	}
	m := &Metrics{
		failures:    counter("failures_total", "what", "queue", "start", "drain", "list", "session", "count"),
		changes:     counter("state_changes_total", "to", Active.String(), Unbound.String(), Inactive.String()),
		orphans:     counter("orphans_total", "outcome", "forwarded", "aside", "expired", "refused", "returned"),
		dead:        counter("dead_letters_total", "reason", "expired", "max_work", "delivery_limit", "rejected", "maxlen"),
		answers:     counter("error_answers_total", "outcome", "sent", "unwanted", "client gone", "refused"),
		reports:     counter("reports_total", "event", "started", "ready", "request-received", "request-done"),
		requests:    r.gauges["requests"].MustCurryWith(is),
		groups:      r.gauges["groups"].MustCurryWith(is),
		workers:     r.gauges["workers"].MustCurryWith(is),
		waiting:     r.gauges["waiting"].MustCurryWith(is),
		lag:         r.histograms["loop_lag_seconds"].MustCurryWith(is),
		cold:        r.counters["cold_starts_total"].With(is),
		stalls:      r.counters["stalls_total"].With(is),
		overMaxWork: r.counters["over_max_work_total"].With(is),
		lost:        r.counters["lost_on_delete_total"].With(is),
		poison:      r.gauges["poison_requests"].With(is),
		leads:       r.gauges["leads"].With(is),
		failing:     r.gauges["failing"].With(is),
		firstWorker: r.histograms["first_worker_seconds"].With(is),
		orphanWait:  r.histograms["orphan_seconds"].With(is),
	}
	for _, state := range []string{"ready", "held", "waiting"} {
		m.requests.WithLabelValues(state)
	}
	return m
}

// Orphan counts an orphan by outcome: forwarded (after so many seconds), refused or returned.
func (m *Metrics) Orphan(outcome string, seconds float64) {
	m.orphans.WithLabelValues(outcome).Inc()
	if outcome == "forwarded" {
		m.orphanWait.Observe(seconds)
	}
}

// DeadLetter counts a dead letter by the reason that the broker gave and the answer to the client: sent,
// unwanted or client gone.
func (m *Metrics) DeadLetter(reason, answer string) {
	m.dead.WithLabelValues(reason).Inc()
	m.answers.WithLabelValues(answer).Inc()
}

// Poison sets the number of requests in the inventory.
func (m *Metrics) Poison(n int) { m.poison.Set(float64(n)) }

// Leads sets whether this process leads the pool.
func (m *Metrics) Leads(does bool) {
	m.leads.Set(0)
	if does {
		m.leads.Set(1)
	}
}

// Failed counts a failure of the transport: its session ended, or could not start.
func (m *Metrics) Failed(what string) { m.failures.WithLabelValues(what).Inc() }

// Requests sets how many requests are in the queues of the pool, and how many wait for a queue.
func (m *Metrics) Requests(ready, held, waiting int) {
	m.requests.WithLabelValues("waiting").Set(float64(waiting))
	m.requests.WithLabelValues("ready").Set(float64(ready))
	m.requests.WithLabelValues("held").Set(float64(held))
}
