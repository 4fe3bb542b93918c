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
)

// LimitCmd groups the commands for limits.
type LimitCmd struct {
	List   limitListCmd   `cmd:"" default:"withargs" help:"List limits."`
	Set    limitSetCmd    `cmd:"" help:"Create or replace a limit."`
	Show   limitShowCmd   `cmd:"" help:"Show a limit."`
	Pause  limitPauseCmd  `cmd:"" help:"Pause a limit: no occurrence of its timers begins."`
	Resume limitResumeCmd `cmd:"" help:"Resume a limit."`
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
type limitListCmd struct{}

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
		t := cli.NewTable(a, "NAME", "CONCURRENCY", "RATE", "COUNTS", "ORDER", "STATE", "UPDATED")
		for i := range list {
			l := &list[i]
			if a.Flags.JSON {
				if err := a.PrintJSON(api.LimitOf(l)); err != nil {
					return err
				}
				continue
			}
			if err := t.AddTableRow(l.Name, concurrencyText(l), rateText(l.Rate), countsText(l), cli.OrDash(l.Order), limitState(l),
				cli.FormatRFC3339(l.Updated)); err != nil {
				return err
			}
		}
		if len(list) == 0 && !a.Flags.JSON {
			a.PrintNote("no limits")
		}
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
		count, per, _ := strings.Cut(c.Rate, "/")
		n, err := strconv.Atoi(count)
		if err != nil || n <= 0 {
			return rouse.Refuse("rate", c.Rate, "is no rate", "write a number and a time, such as 100/1m")
		}
		d, err := rouse.ParseDuration(per)
		if err != nil {
			return rouse.Refuse("rate", c.Rate, "has no time", "write a number and a time, such as 100/1m")
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
			return cli.AddObjectName("limit", c.Name, err)
		}
		return a.ShowValue(api.LimitOf(&l), func() error {
			a.PrintLine("%s limit %s: concurrency %s, rate %s, counted %s, %s", did, l.Name, concurrencyText(&l),
				rateText(l.Rate), countsText(&l), limitState(&l))
			return nil
		})
	})
}

// limitShowCmd shows a limit.
type limitShowCmd struct{ limitName }

func (limitShowCmd) Help() string {
	return `Examples:

    rouse limit show payments`
}

// Run shows it.
func (c *limitShowCmd) Run(a *cli.App) error {
	return c.answerLimit(a, "found", func(ctx context.Context, s *client.Limits) (rouse.Limit, error) {
		return s.Get(ctx, a.Flags.Namespace, c.Name)
	})
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
