package node

import (
	"context"

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
		}, Alone: func() bool { return !n.cluster.shared }})
	n.addPart(parts.Part{Name: "limits", Work: func(ctx context.Context) error {
		n.limits.Run(ctx)
		return nil
	}})
}

// Limits returns the named limits.
func (c core) Limits() *limit.Book { return c.limits }
