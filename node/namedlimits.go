package node

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/limit"
	"github.com/rousehq/rouse/internal/parts"
)

// openLimits makes the named limits. They are not read yet.
func (n *Node) openLimits() {
	n.limits = limit.New(n.shared, limit.Options{Access: n.access.Decider(), Now: n.store.Now, Log: n.cfg.Log,
		Unable: func() string {
			if n.cluster.shared && n.cfg.Strategy != "bucket" {
				return "the strategy of its nodes is " + n.cfg.Strategy
			}
			return ""
		}, Alone: func() bool { return !n.cluster.shared },
		Share: func(l *rouse.Limit) (int, float64) { return n.quotas.TargetShare(l) }})
	n.registry.MustRegister(&limitMetrics{n: n})
	n.addPart(parts.Part{Name: "limits", Work: func(ctx context.Context) error {
		n.limits.Run(ctx)
		return nil
	}})
}

// Limits returns the named limits.
func (c core) Limits() *limit.Book { return c.limits }

// limitMetrics are the metrics of the named limits that this node has met since its start: the first
// maxLimitsMeasured of them, by namespace and name.
type limitMetrics struct {
	n       *Node
	tooMany sync.Once
}

const maxLimitsMeasured = 1000

var (
	limitWaiting = limitGauge("rouse_limit_waiting", "Occurrences that are due and wait for a named limit, on this node.")
	limitRunning = limitGauge("rouse_limit_in_progress", "Occurrences that count for a named limit, on this node.")
	limitOldest  = limitGauge("rouse_limit_oldest_waiting_seconds",
		"For how long the occurrence has waited for a named limit that has waited longest, on this node; 0 if none does.")
)

func limitGauge(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"namespace", "limit"}, nil)
}

// Describe implements prometheus.Collector.
func (*limitMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- limitWaiting
	to <- limitRunning
	to <- limitOldest
}

// Collect implements prometheus.Collector.
func (m *limitMetrics) Collect(to chan<- prometheus.Metric) {
	if m.n.timers == nil {
		return
	}
	uses := m.n.timers.LimitUses("", "")
	names := slices.SortedFunc(maps.Keys(uses), rouse.Key.Compare)
	if len(names) > maxLimitsMeasured {
		names = names[:maxLimitsMeasured]
		m.tooMany.Do(func() { m.n.cfg.Log.Warn("not all named limits have metrics", "limits", maxLimitsMeasured) })
	}
	now := m.n.timers.Now()
	for _, key := range names {
		use := uses[key]
		for desc, value := range map[*prometheus.Desc]float64{limitWaiting: float64(use.Waiting),
			limitRunning: float64(use.InProgress), limitOldest: max(0, now.Sub(cmp.Or(use.Oldest, now)).Seconds())} {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, key.Namespace, key.Name)
		}
	}
}
