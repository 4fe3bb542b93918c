package dapr

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse/internal/dapr/scheduler"
	"github.com/rousehq/rouse/internal/dapr/watch"
)

// metrics are the metrics of Dapr's sidecars, under the names and labels of Dapr's own scheduler, so that
// its dashboards and alerts go on. They are read at their counters, on each scrape.
type metrics struct {
	watch func() watch.Counts
	calls func() scheduler.Counts
}

func schedulerMetric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("dapr_scheduler_"+name, help, labels, nil)
}

var (
	descSidecars      = schedulerMetric("sidecars_connected", "Open watches; a sidecar has several.")
	descCreated       = schedulerMetric("jobs_created_total", "Jobs that were scheduled.", "type")
	descCreatedFailed = schedulerMetric("jobs_created_failed_total",
		"Jobs that were refused, or could not be scheduled.", "type")
	descDeleted     = schedulerMetric("jobs_deleted_total", "Jobs that were deleted by their names.", "type")
	descBulkDeleted = schedulerMetric("jobs_bulk_deleted_total", "Calls that deleted many jobs.")
	descTriggered   = schedulerMetric("jobs_triggered_total", "Triggers that succeeded.", "type")
	descFailed      = schedulerMetric("jobs_failed_total", "Triggers that failed, each attempt for itself.", "type")
	descUndelivered = schedulerMetric("jobs_undelivered_total", "Triggers that no sidecar watched for.", "type")
	descLatency     = schedulerMetric("trigger_latency",
		"How long triggers took until they were answered, in milliseconds.", "type")
	descErrors   = schedulerMetric("sidecar_errors_total", "What went wrong with sidecars, by reason.", "reason")
	descInflight = schedulerMetric("concurrency_inflight",
		"Triggers under a concurrency limit that are with sidecars of this member.", "concurrency_key")
	descPending = schedulerMetric("concurrency_pending",
		"Triggers that wait for a concurrency limit on this member.", "concurrency_key")
	descThrottled = schedulerMetric("concurrency_throttled_total",
		"Triggers that had to wait for a concurrency limit when they came.", "concurrency_key")
)

// Metrics of rouse's own.
var (
	descConns   = prometheus.NewDesc("rouse_dapr_connections", "Connections of Dapr's sidecars that are open.", nil, nil)
	descRefused = prometheus.NewDesc("rouse_dapr_refused_total",
		"Connections and watches that were refused because as many were open as dapr-connections allows.",
		[]string{"what"}, nil)
)

// Describe sends all that there are.
func (metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descSidecars, descCreated, descCreatedFailed, descDeleted, descBulkDeleted,
		descTriggered, descFailed,
		descUndelivered, descLatency, descErrors, descInflight, descPending, descThrottled, descConns, descRefused} {
		to <- d
	}
}

// Collect sends their values.
func (m metrics) Collect(to chan<- prometheus.Metric) {
	w, c := m.watch(), m.calls()
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge(descSidecars, w.Streams)
	gauge(descConns, c.Conns)
	count(descRefused, c.RefusedConns, "connection")
	count(descRefused, w.Refused, "watch")
	for _, k := range []struct {
		name     string
		calls    scheduler.Calls
		triggers watch.Triggers
	}{{"job", c.Jobs, w.Jobs}, {"actor", c.Actors, w.Actors}} {
		count(descCreated, k.calls.Created, k.name)
		count(descCreatedFailed, k.calls.CreateFailed, k.name)
		count(descDeleted, k.calls.Deleted, k.name)
		count(descTriggered, k.triggers.Done, k.name)
		count(descFailed, k.triggers.Failed, k.name)
		count(descUndelivered, k.triggers.Undelivered, k.name)
		took := k.triggers.Took
		buckets := map[float64]uint64{}
		for i, most := range watch.Latencies {
			buckets[inMilliseconds(most)] = took.Buckets[i]
		}
		to <- prometheus.MustNewConstHistogram(descLatency, took.Count, inMilliseconds(took.Sum), buckets, k.name)
	}
	count(descBulkDeleted, c.BulkDeleted)
	count(descErrors, c.Unauthorized, "auth_failed")
	count(descErrors, w.SendFailed, "send_failed")
	count(descErrors, w.RecvFailed, "recv_failed")
	for _, g := range w.Gates {
		gauge(descInflight, g.Used, g.Key)
		gauge(descPending, g.Waiting, g.Key)
		count(descThrottled, g.Throttled, g.Key)
	}
}

func inMilliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
