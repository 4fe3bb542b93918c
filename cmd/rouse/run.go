package main

import (
	"context"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// runCmd fires a timer now.
type runCmd struct {
	Name string `arg:"" help:"Name of the timer."`
}

func (runCmd) Help() string {
	return `The run is in addition to the schedule and never uses up one of its occurrences.

Examples:

    rouse run coffee
    rouse run coffee --json`
}

// Run asks for the run.
func (c *runCmd) Run(a *app) error {
	return a.callServer(func(ctx context.Context, s *client.Client) error {
		fire, due, err := s.Run(ctx, a.flags.Namespace, c.Name)
		if err != nil {
			return addObjectName("timer", c.Name, err)
		}
		return a.showValue(api.Ran{FireID: fire, Due: api.TimeOf(due)}, func() error {
			if t, err := s.Get(ctx, a.flags.Namespace, c.Name); err == nil && t.Attempts != 0 && !(t.Manual && t.Runs[0] == due) {
				a.printLine("%s fires after the occurrence in progress: fire %s", c.Name, fire)
				a.printNote("that of %s has had %d attempts: rouse explain %s", formatWithRelative(t.Due, a.serverTime()),
					t.Attempts, c.Name)
				return nil
			}
			a.printLine("%s fires now: fire %s", c.Name, fire)
			return nil
		})
	})
}
