package timer

import (
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/flags"
)

// ListCmd lists timers.
type ListCmd struct {
	flags.FilterFlags `embed:""`
	flags.StateFlag   `embed:""`
	flags.SoughtFlags `embed:""`
	flags.OrderFlags  `embed:""`
	cli.WatchFlag     `embed:""`

	AllNamespaces bool `short:"A" help:"Those of all namespaces."`
	Limit         int  `help:"Maximum number; 0 is unlimited." default:"0" placeholder:"N"`
	Count         bool `help:"Print the number instead."`
}

func (ListCmd) Help() string {
	return `Examples:

    rouse list
    rouse list --prefix invoice- --state retrying
    rouse list -l team=billing --due-until 1h --json
    rouse list -A --order-by due --limit 20
    rouse list --text 'connection refused' --state retrying
    rouse list -A --count`
}

// listQuery returns the query of the flags.
func (c *ListCmd) listQuery(a *cli.App) (rouse.Query, error) {
	q := c.FilterFlags.FilterQuery(a)
	q.Limit = c.Limit
	if c.AllNamespaces {
		q.Namespace = ""
	}
	if c.Limit < 0 {
		return q, rouse.Refuse("limit", "", "is negative", "give 0 for all")
	}
	q.Sought = c.SoughtTerms()
	if err := c.OrderFlags.SetOrder(&q); err != nil {
		return q, err
	}
	var err error
	q.States, err = c.ParseStates()
	return q, err
}

// Run lists or counts.
func (c *ListCmd) Run(a *cli.App) error {
	q, err := c.listQuery(a)
	if err != nil {
		return err
	}
	if c.Count {
		return a.CallServer(func(ctx context.Context, s *client.Client) error {
			n, err := s.Count(ctx, q)
			if err != nil {
				return err
			}
			return a.ShowValue(api.Count{Count: n}, func() error { a.PrintLine("%d", n); return nil })
		})
	}
	header := []string{"NAME", "STATE", "DUE", "IN", "SCHEDULE", "TARGET"}
	if c.AllNamespaces {
		header = append([]string{"NAMESPACE"}, header...)
	}
	t := cli.NewTable(a, header...)
	t.Paint[len(header)-5] = a.Style.PaintWord
	n := 0
	err = a.EachMatchingTimer(q, func(timer *rouse.Timer) error {
		n++
		if a.Flags.JSON {
			return a.PrintJSON(api.TimerOf(timer))
		}
		row := []string{timer.Key.Name, timer.State().String(), cli.FormatRFC3339(timer.Due), dueIn(timer, a.ServerTime()),
			rouse.Shorten(timer.Spec.Schedule, 40), rouse.Shorten(timer.Spec.Target, 60)}
		if c.AllNamespaces {
			row = append([]string{timer.Key.Namespace}, row...)
		}
		return t.AddTableRow(row...)
	})
	if flushErr := t.FlushTable(); err == nil {
		err = flushErr
	}
	if err == nil && n == 0 && !a.Flags.JSON {
		a.PrintNote("no timers")
	}
	return err
}
