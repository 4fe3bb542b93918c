package node

import (
	"context"
	"fmt"
	"strconv"

	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/server"
)

// tables are what the status page shows of the node's parts that the server does not know.
func (n *Node) tables() (list []func(context.Context) (server.Table, error)) {
	if n.reminders != nil && n.reminders.service != nil {
		list = append(list, n.remindersTable)
	}
	if len(n.pools.drivers) > 0 {
		list = append(list, n.poolsTable)
	}
	return list
}

// remindersTable shows the instances of the reminder service: one that does what it can, or more, needs others beside it.
func (n *Node) remindersTable(ctx context.Context) (server.Table, error) {
	t := server.Table{Title: "Reminder service", Note: "Its instances. A load factor of 1 is what an instance is set to be able to do: from there on, add a node.",
		Head: []string{"instance", "node", "load factor", "sidecars", "token buckets", ""}}
	d, err := n.reminders.service.Describe(ctx, "")
	if err != nil {
		return t, fmt.Errorf("the reminder service cannot be told of: %w", err)
	}
	sidecars, buckets := map[string]int{}, map[string]int{}
	for _, s := range d.Sidecars {
		for _, at := range s.Instances {
			sidecars[at]++
		}
	}
	for _, row := range d.Table.InstanceSync {
		buckets[row.RemSerInstance]++
	}
	for _, i := range d.Table.Instances {
		leader := ""
		if i.Leader {
			leader = "leader"
		}
		t.Rows = append(t.Rows, server.Row{Warn: i.LoadFactor >= 1, Cells: []string{i.Address, i.Node, strconv.FormatFloat(i.LoadFactor, 'f', 2, 64),
			strconv.Itoa(sidecars[i.Address]), strconv.Itoa(buckets[i.Address]), leader}})
	}
	return t, nil
}

// poolsTable shows the pools of this node.
func (n *Node) poolsTable(context.Context) (server.Table, error) {
	t := server.Table{Title: "Pools", Note: "Workers that this node starts on demand.", Head: []string{"pool", "state", "groups", "workers"}}
	for _, s := range pool.Summaries(n.pools.served()) {
		t.Rows = append(t.Rows, server.Row{Cells: []string{s.Pool, s.State, strconv.Itoa(s.Groups), strconv.Itoa(s.Workers)}})
	}
	return t, nil
}
