package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Node is a process that serves the store.
type Node struct {
	ID string // in printable ASCII
	// as clients reach its API: "host:port", or with http:// or https:// where clients reach its API:
	// "host:port", or a URL with http:// or https://; empty: it has none
	Address  string
	Version  string        // of the program
	Started  rouse.Instant // by the store's clock
	Self     bool          // the node that answers
	Leader   bool          // it does the bookkeeping that is done once for all nodes
	Buckets  int           // buckets of the timers that it owns now
	Strategy string        // how nodes share the timers
	Roles    []string      // its roles; empty: all
	Claims   []string      // namespaces whose timers it claims; empty: all
}

// nodesWithin bounds a call of Options.Nodes, which may query the store.
const nodesWithin = 5 * time.Second

// loneNode is the id of a server that knows of no other nodes.
const loneNode = "local"

// sortedNodes returns the nodes in the order of their ids.
func (s *service) sortedNodes(ctx context.Context) ([]Node, error) {
	if s.opts.Nodes == nil {
		return []Node{{ID: loneNode, Version: s.opts.Version, Started: s.started, Self: true, Leader: true, Buckets: 1}}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, nodesWithin)
	defer cancel()
	list, err := s.opts.Nodes(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the store did not list the nodes in time: %w", rouse.ErrUnavailable)
		}
		return nil, err
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Node) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

func (f *adminServer) ListNodes(ctx context.Context, _ *rousev1.ListNodesRequest) (*rousev1.ListNodesResponse, error) {
	list, err := f.sortedNodes(ctx)
	if err != nil {
		return nil, err
	}
	out := &rousev1.ListNodesResponse{Nodes: make([]*rousev1.Node, len(list))}
	for i, n := range list {
		out.Nodes[i] = &rousev1.Node{Id: n.ID, Address: n.Address, Version: n.Version, StartedMs: int64(n.Started),
			Self:   n.Self,
			Leader: n.Leader, Buckets: uint32(n.Buckets), Strategy: n.Strategy, Roles: n.Roles, Claims: n.Claims}
	}
	return out, nil
}
