package main

import (
	"context"
	"time"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// pauseCmd pauses a timer.
type pauseCmd struct {
	Name   string `arg:"" help:"Name of the timer."`
	Reason string `help:"Why, for those who find it paused." placeholder:"TEXT"`
}

func (pauseCmd) Help() string {
	return `An occurrence that is on its way ends as it would. A run that is asked for fires in spite of the pause.

Examples:

    rouse pause coffee --reason 'the machine is being repaired'`
}

// Run pauses the timer.
func (c *pauseCmd) Run(a *app) error {
	return a.call(func(ctx context.Context, s *client.Client) error {
		t, err := s.Pause(ctx, a.cli.Namespace, c.Name, c.Reason)
		if err != nil {
			return named("timer", c.Name, err)
		}
		return a.show(api.TimerOf(&t), func() error { a.say("paused %s", t.Key.Name); return nil })
	})
}

// resumeCmd resumes a timer.
type resumeCmd struct {
	Name string `arg:"" help:"Name of the timer."`
}

func (resumeCmd) Help() string {
	return `Occurrences of a recurring timer that came due meanwhile are recorded as skipped. A one-shot timer whose time has
passed fires at once.

Examples:

    rouse resume coffee`
}

// Run resumes the timer.
func (c *resumeCmd) Run(a *app) error {
	return a.call(func(ctx context.Context, s *client.Client) error {
		t, err := s.Resume(ctx, a.cli.Namespace, c.Name)
		if err != nil {
			return named("timer", c.Name, err)
		}
		return a.show(api.TimerOf(&t), func() error {
			a.say("resumed %s: due %s", t.Key.Name, when(t.Due, time.Now()))
			return nil
		})
	})
}
