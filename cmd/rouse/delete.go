package main

import (
	"context"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// deleteCmd deletes a timer, or all that match.
type deleteCmd struct {
	Name       string `arg:"" optional:"" help:"Name of the timer."`
	IfRevision uint64 `help:"Only if it has this revision." placeholder:"N"`

	manyFlags `embed:""`
	stateFlag `embed:""`
}

func (deleteCmd) Help() string {
	return `No attempt starts after the answer. One that had started before may still arrive; the output reports that.

Examples:

    rouse delete coffee
    rouse delete coffee --if-revision 42 --json
    rouse delete --label team=billing --dry-run
    rouse delete --prefix tmp- --yes`
}

// Run deletes.
func (c *deleteCmd) Run(a *app) error {
	many, err := c.selectsMany(a, "timers", c.Name, len(c.State) > 0 || c.IfRevision != 0 && c.Name == "")
	if err != nil {
		return err
	}
	if many {
		if c.IfRevision != 0 {
			return &usage{text: "--if-revision goes with a name", help: a.command + " --help"}
		}
		return c.applyBulk(a, client.BulkRequest{Action: client.BulkDelete}, c.stateFlag, "delete", "deleted", true)
	}
	return a.callServer(func(ctx context.Context, s *client.Client) error {
		var conditions []client.Condition
		if c.IfRevision != 0 {
			conditions = append(conditions, client.IfRevision(c.IfRevision))
		}
		d, err := s.Delete(ctx, a.flags.Namespace, c.Name, conditions...)
		if err != nil {
			return addObjectName("timer", c.Name, err)
		}
		return a.showValue(api.Deleted{InFlight: d.InFlight, Generation: d.Generation}, func() error {
			a.printLine("deleted %s", c.Name)
			if d.InFlight {
				a.printNote("an attempt had started before and may still arrive")
			}
			return nil
		})
	})
}
