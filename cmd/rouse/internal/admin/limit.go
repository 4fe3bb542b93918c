package admin

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/flags"
)

// LimitCmd groups the commands for limits.
type LimitCmd struct {
	List   limitListCmd   `cmd:"" default:"withargs" help:"List limits."`
	Set    limitSetCmd    `cmd:"" help:"Create or replace a limit."`
	Show   limitShowCmd   `cmd:"" help:"Show a limit, and how much of it is in use."`
	Pause  limitPauseCmd  `cmd:"" help:"Pause a limit: no occurrence of its timers begins."`
	Resume limitResumeCmd `cmd:"" help:"Resume a limit."`
	Reset  limitResetCmd  `cmd:"" help:"Give the rate of a limit its whole burst again."`
	Delete limitDeleteCmd `cmd:"" aliases:"rm" help:"Delete a limit: its timers have none then."`
}

func (LimitCmd) Help() string {
	return `A limit bounds how many occurrences of the timers that name it are in progress at a time, and how many begin in a time, on all nodes
together. It is changed while timers use it.

Examples:

    rouse limit set payments --concurrency 10
    rouse limit set mails --rate 100/1m --per-key
    rouse create invoice -s '0 9 * * *' -t https://example.com/invoice --limit payments
    rouse limit pause payments
    rouse limit`
}

// limitName is the name of a limit on the command line.
type limitName struct {
	Name string `arg:"" help:"Name of the limit."`
}

// limitListCmd lists limits.
type limitListCmd struct {
	cli.WatchFlag `embed:""`
}

func (limitListCmd) Help() string {
	return `Examples:

    rouse limit list
    rouse limit list --namespace billing --json`
}

// Run lists them.
func (c *limitListCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		list, err := s.Limits().List(ctx, a.Flags.Namespace)
		if err != nil {
			return err
		}
		t := cli.NewTable(a, "NAME", "CONCURRENCY", "RATE", "COUNTS", "ORDER", "STATE", "WAITING", "RUNNING", "UPDATED")
		for i := range list.Limits {
			l, use := &list.Limits[i], &list.Uses[i]
			if a.Flags.JSON {
				out := api.LimitOf(l)
				if len(list.Nodes) > 0 {
					out.Use = api.LimitUseOf(use)
				}
				if err := a.PrintJSON(out); err != nil {
					return err
				}
				continue
			}
			waiting, running := strconv.Itoa(use.Waiting), strconv.Itoa(use.InProgress)
			if len(list.Nodes) == 0 { // the caller may not see it
				waiting, running = "-", "-"
			}
			if err := t.AddTableRow(l.Name, concurrencyText(l), rateText(l.Rate), countsText(l), cli.OrDash(l.Order),
				limitState(l), waiting, running, cli.FormatRFC3339(l.Updated)); err != nil {
				return err
			}
		}
		if len(list.Limits) == 0 && !a.Flags.JSON {
			a.PrintNote("no limits")
		}
		a.NotAnswered(list.Nodes)
		return t.FlushTable()
	})
}

func concurrencyText(l *rouse.Limit) string {
	if l.Concurrency == 0 {
		return "unlimited"
	}
	return strconv.Itoa(l.Concurrency)
}

func rateText(r rouse.LimitRate) string {
	if r.Count == 0 {
		return "unlimited"
	}
	text := fmt.Sprintf("%d/%s", r.Count, api.Duration(r.Per))
	if r.Burst > 0 {
		text += fmt.Sprintf(", burst %d", r.Burst)
	}
	return text
}

func countsText(l *rouse.Limit) string {
	if l.PerKey {
		return "per key"
	}
	return "together"
}

func limitState(l *rouse.Limit) string {
	if l.Paused {
		return "paused"
	}
	return "active"
}

// limitSetCmd creates or replaces a limit.
type limitSetCmd struct {
	limitName
	Concurrency int    `help:"Occurrences that are in progress at a time; default unlimited." placeholder:"N"`
	Rate        string `help:"Occurrences that begin in a time, such as 100/1m; default unlimited." placeholder:"N/TIME"`
	Burst       int    `help:"How many may begin at once after a time without any; default those of a tenth of a second." placeholder:"N"`
	PerKey      bool   `help:"Each --limit-key of timers has the limit for itself. Of a limit that exists, it stays as it is."`
	Order       string `help:"due: in the order of due times, one that is retried before those after it; default by priority." placeholder:"due"`
	Paused      bool   `help:"No occurrence begins."`
}

func (limitSetCmd) Help() string {
	return `What is not given is unlimited; a limit that is paused stays paused until it is resumed. All nodes obey a change within a second.

Examples:

    rouse limit set payments --concurrency 10
    rouse limit set mails --rate 100/1m --burst 20
    rouse limit set customers --per-key --concurrency 1 --order due`
}

// Run sets it.
func (c *limitSetCmd) Run(a *cli.App) error {
	l := rouse.Limit{Namespace: a.Flags.Namespace, Name: c.Name, Concurrency: c.Concurrency, PerKey: c.PerKey, Order: c.Order,
		Paused: c.Paused}
	if c.Rate != "" {
		count, per, timed := strings.Cut(c.Rate, "/")
		n, err := strconv.Atoi(count)
		if err != nil || n <= 0 || !timed {
			return rouse.Refuse("rate", c.Rate, "is no rate", "write a number and a time, such as 100/1m")
		}
		d, err := rouse.ParseDuration(per)
		if err != nil {
			return rouse.Under("rate", err)
		}
		l.Rate.Count, l.Rate.Per = n, d
	}
	l.Rate.Burst = c.Burst
	return c.answerLimit(a, "set", func(ctx context.Context, s *client.Limits) (rouse.Limit, error) { return s.Put(ctx, l) })
}

// answerLimit makes a call that answers the limit, and prints it.
func (c *limitName) answerLimit(a *cli.App, did string,
	do func(ctx context.Context, s *client.Limits) (rouse.Limit, error)) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		l, err := do(ctx, s.Limits())
		if err != nil {
			return cli.AddObjectName("limit", c.Name, flags.UseFlagNames(err))
		}
		return a.ShowValue(api.LimitOf(&l), func() error {
			printLimit(a, did, &l)
			return nil
		})
	})
}

// printLimit prints a limit in a line.
func printLimit(a *cli.App, did string, l *rouse.Limit) {
	a.PrintLine("%s limit %s: concurrency %s, rate %s, counted %s, %s", did, l.Name, concurrencyText(l), rateText(l.Rate),
		countsText(l), limitState(l))
}

// limitShowCmd shows a limit.
type limitShowCmd struct {
	limitName
	cli.WatchFlag `embed:""`
}

func (limitShowCmd) Help() string {
	return `It prints how many occurrences wait for the limit and how many are in progress, on all nodes together; of a limit per key also the
20 keys of which most wait.

Examples:

    rouse limit show payments`
}

// Run shows it.
func (c *limitShowCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		l, use, err := s.Limits().Get(ctx, a.Flags.Namespace, c.Name)
		if err != nil {
			return cli.AddObjectName("limit", c.Name, err)
		}
		a.NotAnswered(use.Nodes)
		out := api.LimitOf(&l)
		if len(use.Nodes) > 0 {
			out.Use = api.LimitUseOf(&use.LimitUse)
			for _, n := range use.Nodes {
				out.Use.Nodes = append(out.Use.Nodes, api.StatusNode(n))
			}
		}
		return a.ShowValue(out, func() error {
			printLimit(a, "found", &l)
			if out.Use == nil {
				return nil
			}
			a.PrintLine("%d wait, %d are in progress, %.1f a second began lately", use.Waiting, use.InProgress, use.Began)
			if use.Oldest != 0 {
				a.PrintLine("the first of those that wait is due since %s", cli.FormatWithRelative(use.Oldest, a.ServerTime()))
			}
			return printLimitKeys(a, &use.LimitUse)
		})
	})
}

// printLimitKeys prints the keys that use most of a limit.
func printLimitKeys(a *cli.App, use *rouse.LimitUse) error {
	if len(use.Keys) == 0 {
		return nil
	}
	t := cli.NewTable(a, "KEY", "WAITING", "RUNNING", "WAITS SINCE")
	for _, k := range use.Keys {
		if err := t.AddTableRow(k.Key, strconv.Itoa(k.Waiting), strconv.Itoa(k.InProgress),
			cli.FormatRFC3339(k.Oldest)); err != nil {
			return err
		}
	}
	if err := t.FlushTable(); err != nil {
		return err
	}
	if use.More {
		a.PrintNote("there are other keys")
	}
	return nil
}

// limitPauseCmd pauses a limit.
type limitPauseCmd struct{ limitName }

func (limitPauseCmd) Help() string {
	return `Occurrences that are due wait, and those in progress go on.

Examples:

    rouse limit pause payments`
}

// Run pauses it.
func (c *limitPauseCmd) Run(a *cli.App) error {
	return c.answerLimit(a, "paused", func(ctx context.Context, s *client.Limits) (rouse.Limit, error) {
		return s.Pause(ctx, a.Flags.Namespace, c.Name)
	})
}

// limitResumeCmd resumes a limit.
type limitResumeCmd struct{ limitName }

func (limitResumeCmd) Help() string {
	return `Examples:

    rouse limit resume payments`
}

// Run resumes it.
func (c *limitResumeCmd) Run(a *cli.App) error {
	return c.answerLimit(a, "resumed", func(ctx context.Context, s *client.Limits) (rouse.Limit, error) {
		return s.Resume(ctx, a.Flags.Namespace, c.Name)
	})
}

// limitResetCmd resets the rate of a limit.
type limitResetCmd struct{ limitName }

func (limitResetCmd) Help() string {
	return `The burst of its rate may begin at once again, for each key. Occurrences in progress still count. All nodes obey it within a second.

Examples:

    rouse limit reset mails`
}

// Run resets it.
func (c *limitResetCmd) Run(a *cli.App) error {
	return c.answerLimit(a, "reset", func(ctx context.Context, s *client.Limits) (rouse.Limit, error) {
		return s.Reset(ctx, a.Flags.Namespace, c.Name)
	})
}

// limitDeleteCmd deletes a limit.
type limitDeleteCmd struct{ limitName }

func (limitDeleteCmd) Help() string {
	return `Occurrences that wait for it begin.

Examples:

    rouse limit delete payments`
}

// Run deletes it.
func (c *limitDeleteCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		if err := s.Limits().Delete(ctx, a.Flags.Namespace, c.Name); err != nil {
			return cli.AddObjectName("limit", c.Name, err)
		}
		if !a.Flags.JSON {
			a.PrintLine("deleted limit %s", c.Name)
		}
		return nil
	})
}
