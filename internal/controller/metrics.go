package controller

import "github.com/prometheus/client_golang/prometheus"

// metrics are those of a controller.
type metrics struct {
	outcomes *prometheus.CounterVec
	failures *prometheus.CounterVec
}

// registerMetrics makes the metrics of a controller.
func (c *Controller) registerMetrics(r prometheus.Registerer) {
	c.metrics.outcomes = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rouse_controller_outcomes_total",
		Help: "Objects that were looked at, by kind and by what became of what they declare."}, []string{"kind", "outcome"})
	c.metrics.failures = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rouse_controller_failures_total",
		Help: "Requests that failed and are retried, by whose answer it was: kubernetes or rouse."}, []string{"what"})
	for _, what := range []string{"kubernetes", "rouse"} {
		c.metrics.failures.WithLabelValues(what)
	}
	for _, k := range kinds {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rouse_controller_objects",
			Help:        "Objects in memory, by kind.",
			ConstLabels: prometheus.Labels{"kind": k.name}}, func() float64 { return float64(c.countObjects(k.name)) }))
	}
	r.MustRegister(c.metrics.outcomes, c.metrics.failures,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rouse_controller_waiting",
			Help: "Objects that wait to be looked at."}, func() float64 {
			c.mu.Lock()
			defer c.mu.Unlock()
			return float64(c.queue.len())
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rouse_controller_leader",
			Help: "1 if this is the controller that works."}, func() float64 {
			if c.o.Leads() {
				return 1
			}
			return 0
		}))
}

// countObjects returns the number of objects of a kind in memory.
func (c *Controller) countObjects(kind string) (n int) {
	for _, one := range c.caches {
		if one.kind == kind {
			one.mu.Lock()
			n += len(one.objects)
			one.mu.Unlock()
		}
	}
	return n
}
