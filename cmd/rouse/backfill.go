package main

import (
	"context"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// backfillCmd fires occurrences of the past.
type backfillCmd struct {
	Name   string `arg:"" help:"Name of the timer."`
	From   moment `required:"" help:"First due time: RFC 3339, or from now such as --from=-24h." placeholder:"TIME"`
	Until  moment `help:"Due times before this one; now if not given." placeholder:"TIME"`
	DryRun bool   `help:"Fire nothing, and print what would be fired."`
}

func (backfillCmd) Help() string {
	return `The occurrences that the schedule had in the range are fired, whatever became of them then, with the fire ids that they had or
would have had: a receiver can tell those that it knows. Those that are on their way already are left alone.

Examples:

    rouse backfill coffee --from=-24h --dry-run
    rouse backfill coffee --from 2027-01-04T00:00:00Z --until 2027-01-05T00:00:00Z`
}

// Run asks for the occurrences.
func (c *backfillCmd) Run(a *app) error {
	return a.call(func(ctx context.Context, s *client.Client) error {
		until := c.Until.instant()
		if !c.Until.set {
			clock, err := s.Clock(ctx) // until is not after now, by the service's clock
			if err != nil {
				return err
			}
			until = clock.Now
		}
		b, err := s.Backfill(ctx, a.cli.Namespace, c.Name, c.From.instant(), until, c.DryRun)
		if err != nil {
			return named("timer", c.Name, flagged(err))
		}
		return a.show(api.Backfilled{Count: b.Count, Waiting: b.Waiting, Fires: comingsOf(b.Fires)}, func() error {
			if err := a.showComing("LOCAL", rowsOf(b.Fires), a.now()); err != nil {
				return err
			}
			if more := b.Count - uint64(len(b.Fires)); b.Count > uint64(len(b.Fires)) {
				a.note("and %d more", more)
			}
			fired := b.Count - min(b.Waiting, b.Count)
			if c.DryRun {
				a.note("%s would be fired; nothing was done", some(fired, "occurrence"))
			} else {
				a.say("fired %s", some(fired, "occurrence"))
			}
			if b.Waiting > 0 {
				a.note("%s on the way already", some(b.Waiting, "other"))
			}
			return nil
		})
	})
}
