package main

import (
	"context"
	"strconv"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// simulateCmd tells what would fire.
type simulateCmd struct {
	From moment `help:"From this time on: RFC 3339, or from now such as 36h; now if not given." placeholder:"TIME"`
	To   moment `help:"Before this time; a day after --from if not given." aliases:"until" placeholder:"TIME"`

	filterFlags   `embed:""`
	stateFlag     `embed:""`
	AllNamespaces bool `short:"A" help:"Timers of all namespaces."`
	Limit         int  `help:"At most so many, up to 10000." default:"1000" placeholder:"N"`
}

func (simulateCmd) Help() string {
	return `All timers that match are looked at, with their pauses, skips, calendars and limits, as they are now. Nothing is changed.

Examples:

    rouse simulate
    rouse simulate --from 2027-03-28T00:00:00Z --to 2027-03-29T00:00:00Z --label team=billing
    rouse simulate --to 168h --prefix invoice- --limit 20 --json`
}

// Run simulates.
func (c *simulateCmd) Run(a *app) error {
	if c.Limit < 1 || c.Limit > 10_000 {
		return rouse.Refuse("limit", strconv.Itoa(c.Limit), "is out of bounds", "use 1 to 10000")
	}
	q := c.query(a)
	if c.AllNamespaces {
		q.Namespace = ""
	}
	var err error
	if q.States, err = c.states(); err != nil {
		return err
	}
	return a.call(func(ctx context.Context, s *client.Client) error {
		from, to := c.From.instant(), c.To.instant()
		if !c.To.set {
			if from == 0 {
				clock, err := s.Clock(ctx)
				if err != nil {
					return err
				}
				from = clock.Now
			}
			to = from.Add(24 * time.Hour)
		}
		sim, err := s.Simulate(ctx, q, from, to, c.Limit)
		if err != nil {
			return flagged(err)
		}
		return a.show(api.Simulated{Fires: comingsOf(sim.Fires), Timers: sim.Timers, More: sim.More}, func() error {
			rows := rowsOf(sim.Fires)
			if c.AllNamespaces {
				rows = withNamespaces(rows, sim.Fires)
			}
			if err := a.showComing("LOCAL", rows, a.now()); err != nil {
				return err
			}
			if sim.More {
				a.note("there are more: see --limit")
			}
			a.note("%s of %s", some(len(sim.Fires), "fire"), some(sim.Timers, "timer"))
			return nil
		})
	})
}
