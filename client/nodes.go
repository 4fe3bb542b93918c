package client

import (
	"context"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Node is a process that serves the store.
type Node struct {
	ID       string
	Address  string // at which clients reach its API; empty if unknown
	Version  string
	Started  rouse.Instant
	Self     bool // it gave the answer
	Leader   bool // it does the work that only one node needs to do, which is bookkeeping only
	Buckets  int  // buckets of the timers that it has now
	Strategy string
	Roles    []string // its roles, if not all
	Claims   []string // namespaces whose timers it claims, if not all
}

// Nodes returns the nodes that serve the store, in the order of their ids. A single node returns itself. It
// is retried.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	response, err := callIdempotent(ctx, c.opts.Patience, func(bool) (*rousev1.ListNodesResponse, error) {
		return c.admin.ListNodes(ctx, &rousev1.ListNodesRequest{})
	})
	if err != nil {
		return nil, err
	}
	list := make([]Node, len(response.Nodes))
	for i, p := range response.Nodes {
		list[i] = Node{ID: p.GetId(), Address: p.GetAddress(), Version: p.GetVersion(),
			Started: rouse.Instant(p.GetStartedMs()), Self: p.GetSelf(),
			Leader: p.GetLeader(), Buckets: int(p.GetBuckets()), Strategy: p.GetStrategy(), Roles: p.GetRoles(),
			Claims: p.GetClaims()}
	}
	return list, nil
}
