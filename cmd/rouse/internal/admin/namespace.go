package admin

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/node"
)

// NamespaceCmd groups the commands for namespaces.
type NamespaceCmd struct {
	List   namespaceListCmd   `cmd:"" default:"withargs" help:"List namespaces and their quotas."`
	Put    namespacePutCmd    `cmd:"" help:"Create a namespace, or replace its quotas."`
	Get    namespaceGetCmd    `cmd:"" help:"Show a namespace, and how much of its quotas it uses."`
	Notify namespaceNotifyCmd `cmd:"" help:"Tell a target of the failures of timers of a namespace, or list who is told."`
	Delete namespaceDeleteCmd `cmd:"" aliases:"rm" help:"Delete a namespace that has no timers, calendars and secrets, with its records."`
}

func (NamespaceCmd) Help() string {
	return `A namespace is a tenant. Its quotas bound what it may have and do, on all nodes together. With access control, timers can be
created only in namespaces that were created; without it, in all.

Examples:

    rouse namespace put acme --timers 100000 --fires-per-second 50
    rouse namespace get acme
    rouse namespace list`
}

// namespaceListCmd lists namespaces.
type namespaceListCmd struct {
	All    bool `help:"Also list namespaces that were not created, and have timers."`
	Counts bool `help:"Show how many timers, firing occurrences and dead letters each has."`
}

func (namespaceListCmd) Help() string {
	return `Examples:

    rouse namespace list
    rouse namespace list --all --counts
    rouse namespace list --json`
}

// Run lists them.
func (c *namespaceListCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		head := []string{"NAME", "QUOTAS", "UPDATED"}
		if c.Counts {
			for _, state := range rouse.AllStates {
				head = append(head, strings.ToUpper(state.String()))
			}
		}
		t := cli.NewTable(a, head...)
		for token, any := "", false; ; {
			list, next, err := s.Namespaces().List(ctx, client.Listing{Token: token, All: c.All, Counts: c.Counts})
			if err != nil {
				return err
			}
			for i := range list {
				any = true
				n := &list[i]
				if a.Flags.JSON {
					err = a.PrintJSON(api.NamespaceOf(n))
				} else {
					err = t.AddTableRow(c.namespaceCells(n)...)
				}
				if err != nil {
					return err
				}
			}
			if token = next; token == "" {
				if !any && !a.Flags.JSON {
					a.PrintNote("no namespaces were created")
				}
				return t.FlushTable()
			}
		}
	})
}

// namespaceCells are those of a namespace.
func (c *namespaceListCmd) namespaceCells(n *rouse.Namespace) []string {
	cells := []string{n.Name, quotasText(n.Quotas), "-"}
	if n.Revision != 0 {
		cells[2] = cli.FormatRFC3339(n.Updated)
	}
	if c.Counts {
		for _, state := range rouse.AllStates {
			cells = append(cells, strconv.FormatInt(n.Counts[state], 10))
		}
	}
	return cells
}

// quotasText shows quotas in one line.
func quotasText(q rouse.Quotas) string {
	var parts []string
	for _, one := range q.List(&rouse.Usage{}) {
		if one.Limit != 0 {
			parts = append(parts, one.Name+"="+one.Text(one.Limit))
		}
	}
	if len(parts) == 0 {
		return "unlimited"
	}
	return strings.Join(parts, " ")
}

// namespacePutCmd writes a namespace.
type namespacePutCmd struct {
	Name             string        `arg:"" help:"Name of the namespace."`
	Timers           int64         `help:"Maximum number of timers; 0 is unlimited." placeholder:"N"`
	Bytes            node.Bytes    `help:"Maximum size of timers, occurrences and dead letters, such as 500MiB; 0 is unlimited." placeholder:"SIZE"`
	DeadLetters      int64         `help:"Maximum number of dead letters, the newest; 0 is unlimited." placeholder:"N"`
	Overlaps         int64         `help:"Maximum number of occurrences in progress next to their timers; 0 is unlimited." placeholder:"N"`
	PoolGroups       int64         `help:"Maximum number of groups of workers that its requests have started; further keys wait; 0 is unlimited." placeholder:"N"`
	CreatesPerSecond float64       `help:"Maximum rate of timers that clients write; 0 is unlimited." placeholder:"N"`
	FiresPerSecond   float64       `help:"Maximum rate of attempts; further ones wait; 0 is unlimited." placeholder:"N"`
	ReadsPerSecond   float64       `help:"Maximum rate of requests that read; 0 is unlimited." placeholder:"N"`
	MinInterval      time.Duration `help:"Timers that come due more often are refused; 0 is unlimited." placeholder:"DURATION"`
	Deliveries       int64         `help:"Maximum number of concurrent deliveries; further ones wait; 0 is unlimited." placeholder:"N"`
	MaxTimeout       time.Duration `help:"Timers whose attempts may take longer are refused, up to 1h; 0 is max-timeout of the server." placeholder:"DURATION"`
	ScheduleCost     int64         `help:"Maximum steps of the search for the next occurrence of a timer, 1000 are half a millisecond; 0 is unlimited." placeholder:"N"`
}

func (namespacePutCmd) Help() string {
	return `Quotas that are not given are unlimited. Timers that exist stay.

Examples:

    rouse namespace put acme
    rouse namespace put acme --timers 100000 --creates-per-second 500 --fires-per-second 50 --min-interval 10s`
}

// Run writes it.
func (c *namespacePutCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		n, err := s.Namespaces().Put(ctx, c.Name, rouse.Quotas{Timers: c.Timers, DeadLetters: c.DeadLetters,
			Overlaps: c.Overlaps, Creates: c.CreatesPerSecond,
			Fires: c.FiresPerSecond, Reads: c.ReadsPerSecond, MinInterval: c.MinInterval, Bytes: int64(c.Bytes),
			PoolGroups: c.PoolGroups, ScheduleCost: c.ScheduleCost,
			Deliveries: c.Deliveries, MaxTimeout: c.MaxTimeout})
		if err != nil {
			return err
		}
		return a.ShowValue(api.NamespaceOf(&n), func() error {
			a.PrintLine("saved namespace %s: %s", n.Name, quotasText(n.Quotas))
			return nil
		})
	})
}

// namespaceGetCmd shows a namespace.
type namespaceGetCmd struct {
	Name string `arg:"" help:"Name of the namespace."`
}

func (namespaceGetCmd) Help() string {
	return `Examples:

    rouse namespace get acme
    rouse namespace get acme --json`
}

// Run shows it.
func (c *namespaceGetCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		n, u, err := s.Namespaces().Get(ctx, c.Name)
		if err != nil {
			return err
		}
		shown := api.NamespaceOf(&n)
		if !u.Hidden {
			shown.Usage = api.UsageOf(&u)
		}
		return a.ShowValue(shown, func() error {
			t := cli.NewTable(a, "QUOTA", "USED", "LIMIT")
			for _, row := range usageRows(n.Quotas, u) {
				if err := t.AddTableRow(row[:]...); err != nil {
					return err
				}
			}
			return t.FlushTable()
		})
	})
}

// usageRows returns the quotas of a namespace, with their use and their limit.
func usageRows(q rouse.Quotas, u rouse.Usage) (rows [][3]string) {
	for _, one := range q.List(&u) {
		used, limit := "", "unlimited"
		switch {
		case u.Hidden:
		case one.Measured && one.Unit == rouse.UnitPerSecond:
			used = fmt.Sprintf("%.1f", one.Used)
		case one.Measured:
			used = one.Text(one.Used)
		}
		if one.Limit != 0 {
			limit = one.Text(one.Limit)
		}
		rows = append(rows, [3]string{one.Name, used, limit})
	}
	return rows
}

// namespaceDeleteCmd deletes a namespace.
type namespaceDeleteCmd struct {
	Name string `arg:"" help:"Name of the namespace."`
}

func (namespaceDeleteCmd) Help() string {
	return `Examples:

    rouse namespace delete acme`
}

// Run deletes it.
func (c *namespaceDeleteCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		if err := s.Namespaces().Delete(ctx, c.Name); err != nil {
			return cli.AddObjectName("namespace", c.Name, err)
		}
		return a.ShowValue(api.NamespaceOf(&rouse.Namespace{Name: c.Name}), func() error {
			a.PrintLine("deleted namespace %s", c.Name)
			return nil
		})
	})
}
