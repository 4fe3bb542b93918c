package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse/internal/dapr/scheduler"
	"github.com/rousehq/rouse/internal/dapr/watch"
)

// daprMetrics tells Prometheus of Dapr's sidecars, under the names and labels of Dapr's own scheduler, so that its dashboards and alerts
// go on. They are read where they are counted, when they are asked for.
type daprMetrics struct {
	watch func() watch.Counts
	calls func() scheduler.Counts
}

func daprMetric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("dapr_scheduler_"+name, help, labels, nil)
}

var (
	daprSidecars      = daprMetric("sidecars_connected", "Open watches; a sidecar has several.")
	daprCreated       = daprMetric("jobs_created_total", "Jobs that were scheduled.", "type")
	daprCreatedFailed = daprMetric("jobs_created_failed_total", "Jobs that were refused, or could not be scheduled.", "type")
	daprDeleted       = daprMetric("jobs_deleted_total", "Jobs that were deleted by their names.", "type")
	daprBulkDeleted   = daprMetric("jobs_bulk_deleted_total", "Calls that deleted many jobs.")
	daprTriggered     = daprMetric("jobs_triggered_total", "Triggers that succeeded.", "type")
	daprFailed        = daprMetric("jobs_failed_total", "Triggers that failed, each attempt for itself.", "type")
	daprUndelivered   = daprMetric("jobs_undelivered_total", "Triggers that nobody watched for.", "type")
	daprLatency       = daprMetric("trigger_latency", "How long triggers took until they were answered, in milliseconds.", "type")
	daprErrors        = daprMetric("sidecar_errors_total", "What went wrong with sidecars, by reason.", "reason")
	daprInflight      = daprMetric("concurrency_inflight", "Triggers under a concurrency limit that are with sidecars of this member.", "concurrency_key")
	daprPending       = daprMetric("concurrency_pending", "Triggers that wait for a concurrency limit on this member.", "concurrency_key")
	daprThrottled     = daprMetric("concurrency_throttled_total", "Triggers that had to wait for a concurrency limit when they came.", "concurrency_key")
)

// What is rouse's own.
var (
	daprConns   = prometheus.NewDesc("rouse_dapr_connections", "Connections of Dapr's sidecars that are open.", nil, nil)
	daprRefused = prometheus.NewDesc("rouse_dapr_refused_total", "Connections and watches that were refused because as many were open as dapr-connections allows.", []string{"what"}, nil)
)

// Describe sends all that there are.
func (daprMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{daprSidecars, daprCreated, daprCreatedFailed, daprDeleted, daprBulkDeleted, daprTriggered, daprFailed,
		daprUndelivered, daprLatency, daprErrors, daprInflight, daprPending, daprThrottled, daprConns, daprRefused} {
		to <- d
	}
}

// Collect sends their values.
func (m daprMetrics) Collect(to chan<- prometheus.Metric) {
	w, c := m.watch(), m.calls()
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge(daprSidecars, w.Streams)
	gauge(daprConns, c.Conns)
	count(daprRefused, c.RefusedConns, "connection")
	count(daprRefused, w.Refused, "watch")
	for _, k := range []struct {
		name     string
		calls    scheduler.Calls
		triggers watch.Triggers
	}{{"job", c.Jobs, w.Jobs}, {"actor", c.Actors, w.Actors}} {
		count(daprCreated, k.calls.Created, k.name)
		count(daprCreatedFailed, k.calls.CreateFailed, k.name)
		count(daprDeleted, k.calls.Deleted, k.name)
		count(daprTriggered, k.triggers.Done, k.name)
		count(daprFailed, k.triggers.Failed, k.name)
		count(daprUndelivered, k.triggers.Undelivered, k.name)
		took := k.triggers.Took
		buckets := map[float64]uint64{}
		for i, most := range watch.Latencies {
			buckets[milliseconds(most)] = took.Buckets[i]
		}
		to <- prometheus.MustNewConstHistogram(daprLatency, took.Count, milliseconds(took.Sum), buckets, k.name)
	}
	count(daprBulkDeleted, c.BulkDeleted)
	count(daprErrors, c.Unauthorized, "auth_failed")
	count(daprErrors, w.SendFailed, "send_failed")
	count(daprErrors, w.RecvFailed, "recv_failed")
	for _, g := range w.Gates {
		gauge(daprInflight, g.Used, g.Key)
		gauge(daprPending, g.Waiting, g.Key)
		count(daprThrottled, g.Throttled, g.Key)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
