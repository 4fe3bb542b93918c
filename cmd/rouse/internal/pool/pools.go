package pool

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// PoolsCmd lists the pools of the nodes.
type PoolsCmd struct {
	cli.WatchFlag `embed:""`
	Pool          string `arg:"" optional:"" help:"Name of one pool, whose groups are shown; default all pools."`
	Limit         uint32 `help:"Maximum number of groups." default:"100"`
}

func (PoolsCmd) Help() string {
	return `Pools of the nodes that serve the store. Groups with trouble come first: workers that do not start, or end, or wait for a limit. For a
manager of pools without timers, see rouse pool status.

Examples:

    rouse pools
    rouse pools core --limit 1000
    rouse pools --json`
}

// Run lists them.
func (c *PoolsCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		got, err := s.Status().Pools(ctx, c.Pool, c.Limit)
		if err != nil {
			return err
		}
		a.NotAnswered(got.Nodes)
		head := []string{"POOL", "NODE", "STATE", "GROUPS", "WORKERS", "READY", "HELD", "WAITING", "LEADER"}
		if c.Pool != "" {
			head = append([]string{"NODE"}, poolGroupHead...)
		}
		t := cli.NewTable(a, head...)
		for i := range got.Pools {
			if a.Flags.JSON {
				err = a.PrintJSON(api.PoolOf(&got.Pools[i]))
			} else {
				err = c.addPoolRows(t, &got.Pools[i])
			}
			if err != nil {
				return err
			}
		}
		if got.More && (c.Pool != "" || a.Flags.JSON) {
			a.PrintNote("there are more groups: give a higher --limit")
		}
		if len(got.Pools) == 0 && !a.Flags.JSON {
			a.PrintNote("no pools")
		}
		return t.FlushTable()
	})
}

func (c *PoolsCmd) addPoolRows(t *cli.Table, p *rouse.PoolStatus) error {
	if c.Pool == "" {
		return t.AddTableRow(p.Pool, p.Node, p.State, strconv.Itoa(p.GroupCount), strconv.Itoa(p.Workers),
			strconv.Itoa(p.Ready), strconv.Itoa(p.Held), strconv.Itoa(p.Waiting), cli.OrDash(p.Leader))
	}
	for i := range p.Groups {
		if err := t.AddTableRow(append([]string{p.Node}, poolGroupRow(&p.Groups[i])...)...); err != nil {
			return err
		}
	}
	return nil
}

// poolGroupHead are the columns of a group.
var poolGroupHead = []string{"KEY", "STATUS", "QUEUE", "WORKERS", "READY", "HELD", "LAST REPORT", "TROUBLE"}

// poolGroupRow shows a group.
func poolGroupRow(g *rouse.PoolGroup) []string {
	status, report := g.Status, ""
	if g.Pinned {
		status += ", pinned"
	}
	if g.LastReport != 0 {
		report = momentText(g.LastReport.Time())
	}
	states := make([]string, len(g.Workers))
	for i := range g.Workers {
		states[i] = g.Workers[i].State
	}
	return []string{fmt.Sprintf("%q", g.Name()), status, g.Queue, strings.Join(states, " "), strconv.Itoa(g.Ready),
		strconv.Itoa(g.Held), report, rouse.Shorten(g.Trouble(), 80)}
}
