package node

import (
	"cmp"
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/limit"
)

// openLimits makes the named limits. They are not read yet.
func (n *Node) openLimits() {
	unable := ""
	if n.cluster.shared && n.cfg.Strategy != "bucket" {
		unable = "the strategy of its nodes is " + n.cfg.Strategy
	}
	n.limits = limit.New(n.shared, limit.Options{Access: n.access.Decider(), Now: n.store.Now, Unable: unable,
		Log: n.cfg.Log})
}

// checkInNamespace refuses specs that need something that a namespace lacks.
func (n *Node) checkInNamespace(ctx context.Context, namespace string, s *rouse.Spec) error {
	return cmp.Or(n.limits.CheckUse(ctx, namespace, s), n.vault.Check(ctx, namespace, s))
}
