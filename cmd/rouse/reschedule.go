package main

import (
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
)

// rescheduleCmd changes when a timer fires, or all that match.
type rescheduleCmd struct {
	Name       string `arg:"" optional:"" help:"Name of the timer."`
	Expr       string `arg:"" optional:"" help:"The new schedule, as one argument."`
	Schedule   string `short:"s" help:"The new schedule; with a filter, which has no arguments." placeholder:"EXPR"`
	IfRevision uint64 `help:"Only if the timer has this revision." placeholder:"N"`

	whenFlags `embed:""`
	manyFlags `embed:""`
	stateFlag `embed:""`
}

func (rescheduleCmd) Help() string {
	return `Only when it fires is changed; payload, target, policies, labels and a pause stay. All that defines when is replaced: what is
not given has its default. A new generation begins, from its first due time after now on.

Examples:

    rouse reschedule coffee '0 9 * * MON-FRI' --timezone Europe/Stockholm
    rouse reschedule coffee '@every 90m' --end 24h --if-revision 42
    rouse reschedule --label team=billing --schedule '0 6 * * *' --dry-run`
}

// Run reschedules.
func (c *rescheduleCmd) Run(a *app) error {
	many, err := c.many(a, "timers", c.Name, len(c.State) > 0)
	if err != nil {
		return err
	}
	help := a.command + " --help"
	switch {
	case c.Expr != "" && c.Schedule != "":
		return &usage{text: "the schedule is given twice", help: help}
	case c.Expr == "" && c.Schedule == "":
		return &usage{text: "what is the new schedule? give it after the name, or with --schedule", help: help}
	case many && c.IfRevision != 0:
		return &usage{text: "--if-revision goes with a name", help: help}
	}
	spec, err := c.whenOf(c.Expr + c.Schedule)
	if err != nil {
		return err
	}
	if many {
		if err := c.try(a, &spec); err != nil {
			return err
		}
		return c.bulk(a, client.BulkRequest{Action: client.BulkReschedule, When: &spec}, c.stateFlag, "reschedule", "rescheduled", true)
	}
	return a.call(func(ctx context.Context, s *client.Client) error {
		var conditions []client.Condition
		if c.IfRevision != 0 {
			conditions = append(conditions, client.IfRevision(c.IfRevision))
		}
		r, err := s.Reschedule(ctx, a.cli.Namespace, c.Name, spec, conditions...)
		if err != nil {
			return named("timer", c.Name, flagged(err))
		}
		return a.showReplaced(&r, func() { a.say("rescheduled %s: first due %s", r.Key.Name, when(r.Due, a.now())) })
	})
}

// try refuses what is invalid for every timer, before any timer is changed.
func (c *rescheduleCmd) try(a *app, spec *rouse.Spec) error {
	return a.call(func(ctx context.Context, s *client.Client) error {
		_, err := s.Preview(ctx, client.PreviewRequest{Spec: *spec, Namespace: a.cli.Namespace, Count: 1})
		return flagged(err)
	})
}
