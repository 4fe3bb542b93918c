package timer

import (
	"context"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/flags"
)

// PauseCmd pauses a timer, or all that match.
type PauseCmd struct {
	Name   string     `arg:"" optional:"" help:"Name of the timer."`
	Reason string     `help:"Why, for those who find it paused." placeholder:"TEXT"`
	Until  cli.Moment `help:"Time at which the pause ends: RFC 3339, or from now such as 36h; default never." placeholder:"TIME"`

	flags.ManyFlags `embed:""`
	flags.StateFlag `embed:""`
}

func (PauseCmd) Help() string {
	return `An occurrence that is on its way ends as it would. A run that is asked for fires in spite of the pause.

Examples:

    rouse pause coffee --reason 'the machine is being repaired'
    rouse pause coffee --until 2027-02-01T06:00:00Z
    rouse pause --label team=billing --until 2h --reason 'the database is being moved' --yes`
}

// Run pauses.
func (c *PauseCmd) Run(a *cli.App) error {
	many, err := c.SelectsMany(a, "timers", c.Name, len(c.State) > 0)
	if err != nil {
		return err
	}
	if many {
		r := client.BulkRequest{Action: client.BulkPause, Reason: c.Reason, Until: c.Until.ToInstant()}
		return c.ApplyBulk(a, r, c.StateFlag, "pause", "paused", true)
	}
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		t, err := s.PauseUntil(ctx, a.Flags.Namespace, c.Name, c.Reason, c.Until.ToInstant())
		if err != nil {
			return cli.AddObjectName("timer", c.Name, flags.UseFlagNames(err))
		}
		return a.ShowValue(api.TimerOf(&t), func() error {
			if t.Until != 0 {
				a.PrintLine("paused %s until %s", t.Key.Name, cli.FormatWithRelative(t.Until, a.ServerTime()))
				return nil
			}
			a.PrintLine("paused %s", t.Key.Name)
			return nil
		})
	})
}

// ResumeCmd resumes a timer, or all that match.
type ResumeCmd struct {
	Name string `arg:"" optional:"" help:"Name of the timer."`

	flags.ManyFlags `embed:""`
}

func (ResumeCmd) Help() string {
	return `Occurrences of a recurring timer that came due while it was paused are recorded as skipped. A one-shot timer whose time has
passed fires at once.

Examples:

    rouse resume coffee
    rouse resume --label team=billing --yes`
}

// Run resumes.
func (c *ResumeCmd) Run(a *cli.App) error {
	many, err := c.SelectsMany(a, "timers", c.Name, false)
	if err != nil {
		return err
	}
	if many {
		return c.ApplyBulk(a, client.BulkRequest{Action: client.BulkResume}, flags.StateFlag{}, "resume", "resumed", true)
	}
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		t, err := s.Resume(ctx, a.Flags.Namespace, c.Name)
		if err != nil {
			return cli.AddObjectName("timer", c.Name, err)
		}
		return a.ShowValue(api.TimerOf(&t), func() error {
			a.PrintLine("resumed %s: due %s", t.Key.Name, cli.FormatWithRelative(t.Due, a.ServerTime()))
			return nil
		})
	})
}
