package node

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/internal/private"
	"github.com/rousehq/rouse/internal/throttle"
)

// Places and rules of the audit log.
const (
	auditStore  = "store"
	auditStdout = "stdout"
	auditRefuse = "refuse"
	auditDrop   = "drop"
)

// trimEvery is how often events are deleted whose retention has ended.
const trimEvery = 10 * time.Minute

// checkAudit checks the settings of the audit log.
func (c *Config) checkAudit() error {
	var bad rouse.Invalid
	if c.AuditFull != auditRefuse && c.AuditFull != auditDrop {
		bad.Wrong("audit-full", "%q is no rule: give refuse or drop", c.AuditFull)
	}
	const years = 10 * 365 * 24 * time.Hour
	if c.AuditRetention != 0 && (c.AuditRetention < time.Hour || c.AuditRetention > years) {
		bad.Wrong("audit-retention", "is %v: give %v to %v, or 0 for not at all", c.AuditRetention, time.Hour, years)
	}
	if c.AuditFileSize < 64<<10 {
		bad.Wrong("audit-file-size", "is %d: give at least 64KiB", int64(c.AuditFileSize))
	}
	if c.AuditFiles < 1 || c.AuditFiles > 1000 {
		bad.Wrong("audit-files", "is %d: give 1 to 1000", c.AuditFiles)
	}
	var paths []string
	for _, to := range c.AuditLog {
		switch {
		case to == auditStore && (c.AuditRetention == 0 || c.PoolsOnly()):
			bad.Wrong("audit-log", "has store, where nothing is kept: set audit-retention, or leave store out")
		case to == auditStore, to == auditStdout:
		case filepath.Base(to) == to:
			bad.Wrong("audit-log", "%q is no place: give store, stdout, or the path of a file, such as ./%s", to, to)
		}
		if slices.Contains(paths, filepath.Clean(to)) {
			bad.Wrong("audit-log", "has %q twice: leave one out", to)
		}
		paths = append(paths, filepath.Clean(to))
	}
	return bad.Err()
}

// openAudit opens the audit log, if there is to be one.
func openAudit(n *Node) error {
	cfg := &n.cfg
	if len(cfg.AuditLog) == 0 {
		return nil
	}
	o := audit.Options{Drop: cfg.AuditFull == auditDrop, Reads: cfg.AuditReads, Log: cfg.Log,
		Node: func() string { return cfg.Node },
		Now: func() rouse.Instant {
			if n.timers == nil {
				return rouse.Reached(time.Now())
			}
			return n.timers.Now()
		}}
	for _, to := range cfg.AuditLog {
		switch to {
		case auditStore:
		case auditStdout:
			o.To = append(o.To, audit.Stream{To: os.Stdout})
		default:
			f, err := audit.OpenFile(audit.FileOptions{Path: to, Size: int64(cfg.AuditFileSize), Files: cfg.AuditFiles,
				Private: private.Path})
			if err != nil {
				return err
			}
			o.To = append(o.To, f)
		}
	}
	p := parts.Part{Name: "audit log"}
	if n.store != nil && cfg.AuditRetention > 0 {
		n.events = &audit.Rows{Store: n.store}
		o.To = append(o.To, n.events)
		p.Work = func(ctx context.Context) error { trimAudit(ctx, n, o.Now); return nil }
	}
	o.MayTake = func(held, free int) bool {
		return held < throttle.Share(held+free, audit.MaxQueue, throttle.Reserve, 1)
	}
	n.audit = audit.Open(o)
	p.Close = n.audit.Close
	n.addPart(p)
	return n.registry.Register(auditMetrics{n.audit})
}

// trimAudit deletes events whose retention has ended, until ctx ends. Every node does: a row that is gone is
// no error.
func trimAudit(ctx context.Context, n *Node, now func() rouse.Instant) {
	tick := time.NewTicker(trimEvery)
	defer tick.Stop()
	for {
		if _, err := n.events.Trim(ctx, now().Add(-n.cfg.AuditRetention)); err != nil && ctx.Err() == nil {
			n.cfg.Log.Warn("old audit events cannot be deleted, and stay until the next attempt", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Audit returns the audit log, and its events in the store; nil if it is off, or not kept there.
func (c core) Audit() (*audit.Log, *audit.Rows) { return c.audit, c.events }

// auditMetrics collects the counts of the audit log.
type auditMetrics struct{ log *audit.Log }

var (
	auditEvents = prometheus.NewDesc("rouse_audit_events_total",
		"Events of the audit log, by outcome: ok, or refused, which includes failed calls.", []string{"outcome"}, nil)
	auditDropped = prometheus.NewDesc("rouse_audit_dropped_total",
		"Audited calls without an event, by reason: full (with audit-full refuse these calls were refused), write_failed, or unauthenticated (calls beyond 100 a second).", []string{"reason"}, nil)
	auditFailures = prometheus.NewDesc("rouse_audit_write_failures_total",
		"Failed writes of audit events, by destination; they are repeated.", []string{"to"}, nil)
	auditQueue = prometheus.NewDesc("rouse_audit_queue",
		"Audited calls in progress, and audit events that are not written yet; at most 10,000.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m auditMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{auditEvents, auditDropped, auditFailures, auditQueue} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m auditMetrics) Collect(to chan<- prometheus.Metric) {
	c := m.log.Counts()
	counter := func(d *prometheus.Desc, n uint64, label string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), label)
	}
	counter(auditEvents, c.OK, "ok")
	counter(auditEvents, c.Refused, "refused")
	for reason, n := range c.Dropped {
		counter(auditDropped, n, reason)
	}
	for destination, n := range c.Failures {
		counter(auditFailures, n, destination)
	}
	to <- prometheus.MustNewConstMetric(auditQueue, prometheus.GaugeValue, float64(c.Queued))
}
