package main

import (
	"context"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// deleteCmd deletes a timer.
type deleteCmd struct {
	Name       string `arg:"" help:"Name of the timer."`
	IfRevision uint64 `help:"Only if it has this revision." placeholder:"N"`
}

func (deleteCmd) Help() string {
	return `No attempt starts after the answer. One that had started before may still arrive; the answer says so.

Examples:

    rouse delete coffee
    rouse delete coffee --if-revision 42 --json`
}

// Run deletes the timer.
func (c *deleteCmd) Run(a *app) error {
	return a.call(func(ctx context.Context, s *client.Client) error {
		var conditions []client.Condition
		if c.IfRevision != 0 {
			conditions = append(conditions, client.IfRevision(c.IfRevision))
		}
		d, err := s.Delete(ctx, a.cli.Namespace, c.Name, conditions...)
		if err != nil {
			return named("timer", c.Name, err)
		}
		return a.show(api.Deleted{InFlight: d.InFlight, Generation: d.Generation}, func() error {
			a.say("deleted %s", c.Name)
			if d.InFlight {
				a.note("an attempt had started before and may still arrive")
			}
			return nil
		})
	})
}
