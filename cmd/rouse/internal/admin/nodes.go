package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// NodesCmd lists nodes.
type NodesCmd struct {
	cli.WatchFlag `embed:""`
}

func (NodesCmd) Help() string {
	return `Asks one node, which knows of the others from the store. A star marks the one that answered; the leader does what is done once
for all nodes, which is bookkeeping only: without one, timers fire all the same.

Examples:

    rouse nodes
    rouse nodes --json
    rouse nodes --server 10.0.0.1:7411,10.0.0.2:7411`
}

// Run lists them.
func (NodesCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		list, err := s.Nodes(ctx)
		if err != nil {
			return err
		}
		t := cli.NewTable(a, "NODE", "ADDRESS", "VERSION", "UP", "LEADER", "BUCKETS", "STRATEGY", "ROLES", "CLAIMS")
		for _, n := range list {
			if a.Flags.JSON {
				err = a.PrintJSON(api.Node{ID: n.ID, Address: n.Address, Version: n.Version, Started: api.TimeOf(n.Started),
					Self: n.Self, Leader: n.Leader,
					Buckets: n.Buckets, Strategy: n.Strategy, Roles: n.Roles, Claims: n.Claims})
			} else {
				err = t.AddTableRow(nodeCells(&n, a.ServerTime())...)
			}
			if err != nil {
				return err
			}
		}
		return t.FlushTable()
	})
}

func nodeCells(n *client.Node, now time.Time) []string {
	id, up, leader, roles := n.ID, "", "", "all"
	if n.Self {
		id += "*"
	}
	if n.Started != 0 {
		up = cli.RoughDuration(now.Sub(n.Started.Time()))
	}
	if n.Leader {
		leader = "yes"
	}
	claims := "all"
	if len(n.Claims) > 0 {
		claims = strings.Join(n.Claims, ",")
	}
	if len(n.Roles) > 0 {
		roles = strings.Join(n.Roles, ",")
	}
	return []string{id, cli.OrDash(n.Address), cli.OrDash(n.Version), cli.OrDash(up), cli.OrDash(leader),
		fmt.Sprint(n.Buckets),
		cli.OrDash(n.Strategy), roles, claims}
}
