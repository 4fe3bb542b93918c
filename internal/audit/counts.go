package audit

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Why events are dropped.
const (
	dropFull   = "full"            // the queue was; the call was refused, unless events may be dropped
	dropFailed = "write_failed"    // events may be dropped, or the node ended
	dropFlood  = "unauthenticated" // beyond MaxStrangers
)

// Counts are totals since the log was opened.
type Counts struct {
	OK, Refused uint64            // events
	Dropped     map[string]uint64 // events, by reason
	Failures    map[string]uint64 // failed writes, by destination
	Failing     map[string]string // why the last write to a destination failed; those that take events are not in it
	Queued      int64             // audited calls in progress, and events that are not written yet
}

type counts struct {
	mu sync.Mutex
	Counts
}

func (c *counts) countEvent(ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ok {
		c.OK++
	} else {
		c.Refused++
	}
}

func (c *counts) addFailure(destination string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Failures == nil {
		c.Failures = map[string]uint64{}
	}
	c.Failures[destination]++
	if c.Failing == nil {
		c.Failing = map[string]string{}
	}
	c.Failing[destination] = err.Error()
}

func (c *counts) clearFailure(destination string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.Failing, destination)
}

func (l *Log) countDropped(n int, reason string) {
	l.counts.mu.Lock()
	defer l.counts.mu.Unlock()
	if l.counts.Dropped == nil {
		l.counts.Dropped = map[string]uint64{}
	}
	l.counts.Dropped[reason] += uint64(n)
}

// Counts returns the totals. All reasons and destinations are in it.
func (l *Log) Counts() Counts {
	l.counts.mu.Lock()
	defer l.counts.mu.Unlock()
	c := l.counts.Counts
	l.mu.Lock()
	c.Queued = int64(l.used)
	l.mu.Unlock()
	c.Dropped = map[string]uint64{dropFull: 0, dropFailed: 0, dropFlood: 0}
	c.Failures = map[string]uint64{}
	for _, to := range l.opts.To {
		c.Failures[to.Name()] = 0
	}
	c.Failing = maps.Clone(l.counts.Failing)
	maps.Copy(c.Dropped, l.counts.Counts.Dropped)
	maps.Copy(c.Failures, l.counts.Counts.Failures)
	return c
}

var (
	eventsMetric = prometheus.NewDesc("rouse_audit_events_total",
		"Events of the audit log, by outcome: ok, or refused, which includes failed calls.", []string{"outcome"}, nil)
	droppedMetric = prometheus.NewDesc("rouse_audit_dropped_total",
		"Audited calls without an event, by reason: full (with audit-full refuse these calls were refused), write_failed, or unauthenticated (calls beyond 100 a second).", []string{"reason"}, nil)
	failuresMetric = prometheus.NewDesc("rouse_audit_write_failures_total",
		"Failed writes of audit events, by destination; they are repeated.", []string{"to"}, nil)
	queueMetric = prometheus.NewDesc("rouse_audit_queue",
		"Audited calls in progress, and audit events that are not written yet; at most 10,000.", nil, nil)
)

// Describe implements prometheus.Collector.
func (l *Log) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(l, to) }

// Collect implements prometheus.Collector.
func (l *Log) Collect(to chan<- prometheus.Metric) {
	c := l.Counts()
	counter := func(d *prometheus.Desc, n uint64, label string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), label)
	}
	counter(eventsMetric, c.OK, "ok")
	counter(eventsMetric, c.Refused, "refused")
	for reason, n := range c.Dropped {
		counter(droppedMetric, n, reason)
	}
	for destination, n := range c.Failures {
		counter(failuresMetric, n, destination)
	}
	to <- prometheus.MustNewConstMetric(queueMetric, prometheus.GaugeValue, float64(c.Queued))
}
