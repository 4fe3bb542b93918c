package reminder

import (
	"context"
	"fmt"
	"strconv"

	"github.com/rousehq/rouse/internal/server"
)

// table shows the instances of the reminder service: one that does what it can, or more, needs others next to
// it.
func (p *part) table(ctx context.Context) (server.Table, error) {
	t := server.Table{Title: "Reminder service", Note: "Its instances. A load factor of 1 is what an instance is set to be able to do: from there on, add a node.",
		Head: []string{"instance", "node", "load factor", "sidecars", "token buckets", ""}}
	d, err := p.service.Describe(ctx, "")
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
