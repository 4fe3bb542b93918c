package node

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/internal/quota"
)

// openQuotas makes the namespaces with their quotas. They are not read yet.
func (n *Node) openQuotas() {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rouse_quota_refused_total",
		Help: "Requests beyond a quota of their namespace."}, []string{"namespace", "quota"})
	n.registry.MustRegister(refused, quotaMetrics{n})
	n.quotas = quota.New(n.store, n.shared, quota.Options{Node: func() string { return n.cfg.Node },
		Access: n.access.Decider(), Now: n.store.Now,
		Refused: func(namespace, quota string) { refused.WithLabelValues(namespace, quota).Inc() },
		Fires:   func(namespace string) int { return n.timers.FireDemand(namespace) }, Groups: core{n}.groupsOfNamespace,
		Secrets: func(namespace string) int { return n.secrets.Count(namespace) }, Limits: n.limits.Count,
		CheckNotify: func(ctx context.Context, namespace string, rules []rouse.NotifyRule) error {
			return n.timers.Guarded().CheckNotifyRules(ctx, namespace, rules)
		},
		Alone: n.isAlone, Log: n.cfg.Log, Targets: n.limits.Targets, Divided: n.limits.Divided,
		Uses: func() map[rouse.Key]rouse.LimitUse { return n.timers.LimitUses("", "") }})
	n.addPart(parts.Part{Name: "quotas", Work: func(ctx context.Context) error {
		n.quotas.Run(ctx, !n.cluster.shared)
		return nil
	}})
}

// groupsOfNamespace returns how many groups of workers the requests of a namespace have started on this node.
func (c core) groupsOfNamespace(namespace string) (sum int) {
	c.Each(func(value any) {
		if p, ok := value.(interface{ Groups(namespace string) int }); ok {
			sum += p.Groups(namespace)
		}
	})
	return sum
}

// quotaMetrics are the metrics of the quotas that are set, and of their use.
type quotaMetrics struct{ n *Node }

var (
	quotaLimit = prometheus.NewDesc("rouse_quota_limit", "Quotas of namespaces; those that are times in seconds.",
		[]string{"namespace", "quota"}, nil)
	quotaUsed = prometheus.NewDesc("rouse_quota_used", "How much of its quotas a namespace uses, on all nodes together.",
		[]string{"namespace", "quota"}, nil)
)

// Describe implements prometheus.Collector.
func (quotaMetrics) Describe(to chan<- *prometheus.Desc) { to <- quotaLimit; to <- quotaUsed }

// Collect implements prometheus.Collector.
func (m quotaMetrics) Collect(to chan<- prometheus.Metric) {
	if m.n.quotas == nil {
		return
	}
	m.n.quotas.Each(func(namespace string, quotas []rouse.Quota) {
		for _, q := range quotas {
			if q.Limit == 0 {
				continue
			}
			to <- prometheus.MustNewConstMetric(quotaLimit, prometheus.GaugeValue, q.Limit, namespace, q.Name)
			if q.Measured {
				to <- prometheus.MustNewConstMetric(quotaUsed, prometheus.GaugeValue, q.Used, namespace, q.Name)
			}
		}
	})
}

// Quotas returns the namespaces with their quotas.
func (c core) Quotas() *quota.Book { return c.quotas }
