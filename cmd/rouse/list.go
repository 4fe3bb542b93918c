package main

import (
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// listCmd lists timers.
type listCmd struct {
	filterFlags `embed:""`
	stateFlag   `embed:""`
	soughtFlags `embed:""`
	orderFlags  `embed:""`

	AllNamespaces bool `short:"A" help:"Those of all namespaces."`
	Limit         int  `help:"Maximum number; 0 is unlimited." default:"0" placeholder:"N"`
	Count         bool `help:"Print the number instead."`
}

func (listCmd) Help() string {
	return `Examples:

    rouse list
    rouse list --prefix invoice- --state retrying
    rouse list -l team=billing --due-until 1h --json
    rouse list -A --order-by due --limit 20
    rouse list --text 'connection refused' --state retrying
    rouse list -A --count`
}

// listQuery returns the query of the flags.
func (c *listCmd) listQuery(a *app) (rouse.Query, error) {
	q := c.filterFlags.filterQuery(a)
	q.Limit = c.Limit
	if c.AllNamespaces {
		q.Namespace = ""
	}
	if c.Limit < 0 {
		return q, rouse.Refuse("limit", "", "is negative", "give 0 for all")
	}
	q.Sought = c.soughtTerms()
	if err := c.orderFlags.setOrder(&q); err != nil {
		return q, err
	}
	var err error
	q.States, err = c.parseStates()
	return q, err
}

// Run lists or counts.
func (c *listCmd) Run(a *app) error {
	q, err := c.listQuery(a)
	if err != nil {
		return err
	}
	if c.Count {
		return a.callServer(func(ctx context.Context, s *client.Client) error {
			n, err := s.Count(ctx, q)
			if err != nil {
				return err
			}
			return a.showValue(api.Count{Count: n}, func() error { a.printLine("%d", n); return nil })
		})
	}
	header := []string{"NAME", "STATE", "DUE", "IN", "SCHEDULE", "TARGET"}
	if c.AllNamespaces {
		header = append([]string{"NAMESPACE"}, header...)
	}
	t := newTable(a, header...)
	t.paint[len(header)-5] = a.style.paintWord
	n := 0
	err = a.eachMatchingTimer(q, func(timer *rouse.Timer) error {
		n++
		if a.flags.JSON {
			return a.printJSON(api.TimerOf(timer))
		}
		row := []string{timer.Key.Name, timer.State().String(), formatRFC3339(timer.Due), dueIn(timer, a.serverTime()),
			rouse.Shorten(timer.Spec.Schedule, 40), rouse.Shorten(timer.Spec.Target, 60)}
		if c.AllNamespaces {
			row = append([]string{timer.Key.Namespace}, row...)
		}
		return t.addTableRow(row...)
	})
	if flushErr := t.flushTable(); err == nil {
		err = flushErr
	}
	if err == nil && n == 0 && !a.flags.JSON {
		a.printNote("no timers")
	}
	return err
}
