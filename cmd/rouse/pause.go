package main

import (
	"context"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// pauseCmd pauses a timer, or all that match.
type pauseCmd struct {
	Name   string `arg:"" optional:"" help:"Name of the timer."`
	Reason string `help:"Why, for those who find it paused." placeholder:"TEXT"`
	Until  moment `help:"Time at which the pause ends: RFC 3339, or from now such as 36h; default never." placeholder:"TIME"`

	manyFlags `embed:""`
	stateFlag `embed:""`
}

func (pauseCmd) Help() string {
	return `An occurrence that is on its way ends as it would. A run that is asked for fires in spite of the pause.

Examples:

    rouse pause coffee --reason 'the machine is being repaired'
    rouse pause coffee --until 2027-02-01T06:00:00Z
    rouse pause --label team=billing --until 2h --reason 'the database is being moved' --yes`
}

// Run pauses.
func (c *pauseCmd) Run(a *app) error {
	many, err := c.selectsMany(a, "timers", c.Name, len(c.State) > 0)
	if err != nil {
		return err
	}
	if many {
		r := client.BulkRequest{Action: client.BulkPause, Reason: c.Reason, Until: c.Until.toInstant()}
		return c.applyBulk(a, r, c.stateFlag, "pause", "paused", true)
	}
	return a.callServer(func(ctx context.Context, s *client.Client) error {
		t, err := s.PauseUntil(ctx, a.flags.Namespace, c.Name, c.Reason, c.Until.toInstant())
		if err != nil {
			return addObjectName("timer", c.Name, useFlagNames(err))
		}
		return a.showValue(api.TimerOf(&t), func() error {
			if t.Until != 0 {
				a.printLine("paused %s until %s", t.Key.Name, formatWithRelative(t.Until, a.serverTime()))
				return nil
			}
			a.printLine("paused %s", t.Key.Name)
			return nil
		})
	})
}

// resumeCmd resumes a timer, or all that match.
type resumeCmd struct {
	Name string `arg:"" optional:"" help:"Name of the timer."`

	manyFlags `embed:""`
}

func (resumeCmd) Help() string {
	return `Occurrences of a recurring timer that came due while it was paused are recorded as skipped. A one-shot timer whose time has
passed fires at once.

Examples:

    rouse resume coffee
    rouse resume --label team=billing --yes`
}

// Run resumes.
func (c *resumeCmd) Run(a *app) error {
	many, err := c.selectsMany(a, "timers", c.Name, false)
	if err != nil {
		return err
	}
	if many {
		return c.applyBulk(a, client.BulkRequest{Action: client.BulkResume}, stateFlag{}, "resume", "resumed", true)
	}
	return a.callServer(func(ctx context.Context, s *client.Client) error {
		t, err := s.Resume(ctx, a.flags.Namespace, c.Name)
		if err != nil {
			return addObjectName("timer", c.Name, err)
		}
		return a.showValue(api.TimerOf(&t), func() error {
			a.printLine("resumed %s: due %s", t.Key.Name, formatWithRelative(t.Due, a.serverTime()))
			return nil
		})
	})
}
