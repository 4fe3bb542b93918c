package node

import (
	"context"
	"slices"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/parts"
)

// grainOf returns the grain that distinguishes a node's holds from others'; 0 if it publishes none.
func grainOf(n *claim.Node) int {
	return parts.PublishedBy(n.Data).Grain
}

// liveGrains returns those of the nodes that live.
func liveGrains(ctx context.Context, locks rouse.Locks) (list []int) {
	nodes, _ := claim.Nodes(ctx, locks) // of a store that does not answer yet the node will hear later
	for i := range nodes {
		list = append(list, grainOf(&nodes[i]))
	}
	return list
}

// takeOverHolds takes this node's part of the timers that a dead one held.
func (n *Node) takeOverHolds(ctx context.Context, dead claim.Node) {
	log := n.cfg.Log.With("node", dead.ID, "address", dead.Address)
	log.Warn("a node has died: its connection to the store is closed, and nothing listens at its address")
	grain := grainOf(&dead)
	nodes, err := n.cluster.nodes(ctx)
	if err != nil {
		log.Warn("what the dead node held is fired when its holds end", "error", err)
		return
	}
	me, count := 0, 0
	// nodes that live, whose holds look like those of the dead one: only such a node can distinguish them
	// from its own
	var alike []string
	for i := range nodes {
		if nodes[i].Owner == dead.Owner {
			continue
		}
		if nodes[i].ID == n.cfg.Node {
			me = count
		}
		count++
		if grainOf(&nodes[i]) == grain {
			alike = append(alike, nodes[i].ID)
		}
	}
	if !slices.ContainsFunc(nodes, func(o claim.Node) bool { return o.ID == n.cfg.Node }) {
		return
	}
	if len(alike) > 0 && !slices.Equal(alike, []string{n.cfg.Node}) {
		return
	}
	if err := n.timers.Inherit(ctx, grain, func(b uint32) bool { return int(b)%count == me }); err != nil &&
		ctx.Err() == nil {
		log.Warn("what the dead node held is fired when its holds end", "error", err)
	}
}
