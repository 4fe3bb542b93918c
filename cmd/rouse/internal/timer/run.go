package timer

import (
	"context"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// RunCmd fires a timer now.
type RunCmd struct {
	Name string `arg:"" help:"Name of the timer."`
}

func (RunCmd) Help() string {
	return `The run is in addition to the schedule and never uses up one of its occurrences.

Examples:

    rouse run coffee
    rouse run coffee --json`
}

// Run asks for the run.
func (c *RunCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		fire, due, err := s.Run(ctx, a.Flags.Namespace, c.Name)
		if err != nil {
			return cli.AddObjectName("timer", c.Name, err)
		}
		return a.ShowValue(api.Ran{FireID: fire, Due: api.TimeOf(due)}, func() error {
			t, err := s.Get(ctx, a.Flags.Namespace, c.Name)
			if err == nil && t.Attempts != 0 && !(t.Manual && t.Runs[0] == due) {
				a.PrintLine("%s fires after the occurrence in progress: fire %s", c.Name, fire)
				a.PrintNote("that of %s has had %d attempts: rouse explain %s", cli.FormatWithRelative(t.Due, a.ServerTime()),
					t.Attempts, c.Name)
				return nil
			}
			a.PrintLine("%s fires now: fire %s", c.Name, fire)
			return nil
		})
	})
}
