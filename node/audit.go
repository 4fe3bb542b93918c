package node

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/parts"
)

// Places and rules of the audit log.
const (
	auditStore  = "store"
	auditStdout = "stdout"
	auditRefuse = "refuse"
	auditDrop   = "drop"
)

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
			f, err := audit.OpenFile(audit.FileOptions{Path: to, Size: int64(cfg.AuditFileSize), Files: cfg.AuditFiles})
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
		p.Work = func(ctx context.Context) error {
			n.events.TrimAfter(ctx, cfg.AuditRetention, o.Now, cfg.Log)
			return nil
		}
	}
	n.audit = audit.Open(o)
	p.Close = n.audit.Close
	n.addPart(p)
	return n.registry.Register(n.audit)
}

// Audit returns the audit log, and its events in the store; nil if it is off, or not kept there.
func (c core) Audit() (*audit.Log, *audit.Rows) { return c.audit, c.events }
