package timer

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/flags"
)

// EditCommands are the commands that change which occurrences a timer has.
type EditCommands struct {
	Edit       editCmd       `cmd:"" group:"timers" help:"Change parts of a timer, and leave the rest."`
	Skip       skipCmd       `cmd:"" group:"timers" help:"Skip the next occurrences of a timer, or of all that match."`
	Reschedule rescheduleCmd `cmd:"" group:"timers" help:"Change when a timer fires, or all that match."`
	Backfill   backfillCmd   `cmd:"" group:"timers" help:"Fire the past occurrences of a timer."`
}

// skipCmd skips occurrences of a timer, or of all that match.
type skipCmd struct {
	Name   string `arg:"" optional:"" help:"Name of the timer."`
	Count  uint32 `help:"Number of occurrences; with a filter one of each timer." default:"1" placeholder:"N"`
	Reason string `help:"Why, for the history." placeholder:"TEXT"`

	flags.ManyFlags `embed:""`
	flags.StateFlag `embed:""`
}

func (skipCmd) Help() string {
	return `The next occurrences are recorded as skipped, and the schedule goes on after them. One that is on its way ends as it
would, and those after it are skipped.

Examples:

    rouse skip coffee
    rouse skip coffee --count 3 --reason 'the office is closed'
    rouse skip --label team=billing --due-until 24h --yes`
}

// Run skips.
func (c *skipCmd) Run(a *cli.App) error {
	if c.Count < 1 || c.Count > rouse.MaxSkips {
		return rouse.Refuse("count", strconv.FormatUint(uint64(c.Count), 10), "is out of bounds",
			fmt.Sprintf("skip 1 to %d occurrences", rouse.MaxSkips))
	}
	many, err := c.SelectsMany(a, "timers", c.Name, len(c.State) > 0)
	if err != nil {
		return err
	}
	if many {
		if c.Count != 1 {
			return &cli.Usage{Text: "--count goes with a name: with a filter one occurrence of each timer is skipped",
				Help: a.Command + " --help"}
		}
		return c.ApplyBulk(a, client.BulkRequest{Action: client.BulkSkip, Reason: c.Reason}, c.StateFlag,
			"skip the next occurrence of", "skipped", true)
	}
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		t, err := s.Skip(ctx, a.Flags.Namespace, c.Name, c.Count, c.Reason)
		if err != nil {
			return cli.AddObjectName("timer", c.Name, flags.UseFlagNames(err))
		}
		return a.ShowValue(api.TimerOf(&t), func() error {
			switch {
			case t.Skips > 0:
				a.PrintLine("%s: one is on its way since %s, and %d after it will be skipped", t.Key.Name,
					cli.FormatRFC3339(t.Due), t.Skips)
			case t.Due == rouse.Never:
				a.PrintLine("skipped %d of %s: there are no more", c.Count, t.Key.Name)
			default:
				a.PrintLine("skipped %d of %s: next due %s", c.Count, t.Key.Name, whenDue(&t, a.ServerTime()))
			}
			return nil
		})
	})
}

// rescheduleCmd changes when a timer fires, or all that match.
type rescheduleCmd struct {
	Name       string `arg:"" optional:"" help:"Name of the timer."`
	Expr       string `arg:"" optional:"" help:"The new schedule, as one argument."`
	Schedule   string `short:"s" help:"The new schedule; with a filter, which has no arguments." placeholder:"EXPR"`
	IfRevision uint64 `help:"Only if the timer has this revision." placeholder:"N"`

	flags.WhenFlags `embed:""`
	flags.ManyFlags `embed:""`
	flags.StateFlag `embed:""`
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
func (c *rescheduleCmd) Run(a *cli.App) error {
	many, err := c.SelectsMany(a, "timers", c.Name, len(c.State) > 0)
	if err != nil {
		return err
	}
	help := a.Command + " --help"
	switch {
	case c.Expr != "" && c.Schedule != "":
		return &cli.Usage{Text: "the schedule is given twice", Help: help}
	case c.Expr == "" && c.Schedule == "":
		return &cli.Usage{Text: "what is the new schedule? give it after the name, or with --schedule", Help: help}
	case many && c.IfRevision != 0:
		return &cli.Usage{Text: "--if-revision goes with a name", Help: help}
	}
	spec, err := c.WhenOf(c.Expr + c.Schedule)
	if err != nil {
		return err
	}
	if many {
		if err := c.validateSpec(a, &spec); err != nil {
			return err
		}
		return c.ApplyBulk(a, client.BulkRequest{Action: client.BulkReschedule, When: &spec}, c.StateFlag, "reschedule",
			"rescheduled", true)
	}
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		var conditions []client.Condition
		if c.IfRevision != 0 {
			conditions = append(conditions, client.IfRevision(c.IfRevision))
		}
		r, err := s.Reschedule(ctx, a.Flags.Namespace, c.Name, spec, conditions...)
		if err != nil {
			return cli.AddObjectName("timer", c.Name, flags.UseFlagNames(err))
		}
		return showReplaced(a, &r, func() {
			a.PrintLine("rescheduled %s: first due %s", r.Key.Name,
				whenDue(&r.Timer, a.ServerTime()))
		})
	})
}

// validateSpec refuses values that are invalid for every timer, before any timer is changed.
func (c *rescheduleCmd) validateSpec(a *cli.App, spec *rouse.Spec) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		_, err := s.Preview(ctx, client.PreviewRequest{Spec: *spec, Namespace: a.Flags.Namespace, Count: 1})
		return flags.UseFlagNames(err)
	})
}

// backfillCmd fires occurrences of the past.
type backfillCmd struct {
	Name   string     `arg:"" help:"Name of the timer."`
	From   cli.Moment `required:"" help:"First due time: RFC 3339, or from now such as --from=-24h." placeholder:"TIME"`
	Until  cli.Moment `help:"Due times before this one; default now." placeholder:"TIME"`
	DryRun bool       `help:"Fire nothing, and print what would be fired."`
	Rate   float64    `help:"At most so many per second, so that the target is not overrun; 0 is all at once." default:"0" placeholder:"N"`
}

func (backfillCmd) Help() string {
	return `The occurrences that the schedule had in the range are fired, whatever became of them then, with the fire ids that they had or
would have had: a receiver can tell those that it knows. Those that are on their way already are left alone. They do not wait for each other,
whatever the timer's overlap policy is; with --rate they start one after the other, and the command does not wait for that.

Examples:

    rouse backfill coffee --from=-24h --dry-run
    rouse backfill coffee --from=-24h --rate 10
    rouse backfill coffee --from 2027-01-04T00:00:00Z --until 2027-01-05T00:00:00Z`
}

// Run asks for the occurrences.
func (c *backfillCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		until := c.Until.ToInstant()
		if !c.Until.Set {
			clock, err := s.Clock(ctx) // until is not after now, by the service's clock
			if err != nil {
				return err
			}
			until = clock.Now
		}
		b, err := s.Backfill(ctx, a.Flags.Namespace, c.Name,
			client.BackfillRequest{From: c.From.ToInstant(), Until: until, DryRun: c.DryRun, PerSecond: c.Rate})
		if err != nil {
			return cli.AddObjectName("timer", c.Name, flags.UseFlagNames(err))
		}
		return a.ShowValue(api.Backfilled{Count: b.Count, Waiting: b.Waiting, Fires: comingsOf(b.Fires)}, func() error {
			if err := showComing(a, "LOCAL", rowsOf(b.Fires), a.ServerTime()); err != nil {
				return err
			}
			if more := b.Count - uint64(len(b.Fires)); b.Count > uint64(len(b.Fires)) {
				a.PrintNote("and %d more", more)
			}
			fired := b.Count - min(b.Waiting, b.Count)
			over := ""
			if c.Rate > 0 && fired > 1 {
				over = ", the last one in " + cli.RoughDuration(time.Duration(float64(fired-1)/c.Rate*float64(time.Second)))
			}
			if c.DryRun {
				a.PrintNote("%s would be fired%s; nothing was done", cli.CountThings(fired, "occurrence"), over)
			} else {
				a.PrintLine("fired %s%s", cli.CountThings(fired, "occurrence"), over)
			}
			if b.Waiting > 0 {
				a.PrintNote("%s on the way already", cli.CountThings(b.Waiting, "other"))
			}
			return nil
		})
	})
}
