package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/parts"
)

// claimsEvery is how often a node looks which namespaces the live nodes claim. A namespace that lost its last
// node shows up so late.
const claimsEvery = 5 * time.Second

// claims are the namespaces that live nodes claim, as this node knows it. It is safe for concurrent use.
type claims struct {
	mu    sync.RWMutex
	known bool // otherwise all count as claimed
	all   bool
	of    map[string]bool
}

// All reports whether every namespace is claimed.
func (c *claims) All() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.all || !c.known
}

// Has reports whether a live node claims a namespace.
func (c *claims) Has(namespace string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.all || !c.known || c.of[namespace]
}

// setPublished sets the namespaces that the nodes claim, as published.
func (c *claims) setPublished(list []parts.Published) {
	all, of := false, map[string]bool{}
	for i := range list {
		s := &list[i]
		if !includesRole(s.Roles, "scheduler") {
			continue
		}
		all = all || len(s.Claims) == 0
		for _, ns := range s.Claims {
			of[ns] = true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.all, c.of = true, all, of
}

// followClaims keeps the claims up to date until ctx ends. A failed read leaves them as they are. While the
// node is alone they stay as they are, too.
func (c *claims) followClaims(ctx context.Context, nodes func(context.Context) ([]claim.Node, error),
	alone func() bool, log *slog.Logger) {
	tick := time.NewTicker(claimsEvery)
	defer tick.Stop()
	for read := false; ; {
		if still := alone(); !still || !read {
			read = c.readClaims(ctx, nodes, log) && still
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// readClaims reads which namespaces the live nodes claim, and reports whether it could.
func (c *claims) readClaims(ctx context.Context, nodes func(context.Context) ([]claim.Node, error),
	log *slog.Logger) bool {
	ctx, cancel := context.WithTimeout(ctx, claimsEvery)
	defer cancel()
	list, err := nodes(ctx)
	if err != nil || len(list) == 0 {
		return false
	}
	all := make([]parts.Published, len(list))
	for i, n := range list {
		all[i] = parts.PublishedBy(n.Data) // one of another version counts as claiming everything
	}
	was := c.All()
	if c.setPublished(all); was && !c.All() {
		log.Info("not every namespace is claimed by a live node: timers in the others wait")
	}
	return true
}
