package timer

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/flags"
)

// PlanCommands are the commands that report future fires, and their reasons.
type PlanCommands struct {
	Simulate simulateCmd `cmd:"" group:"times" help:"Print the fires of all timers in a range of time."`
	Forecast forecastCmd `cmd:"" group:"times" help:"Count the occurrences that come due, by the hour or another step."`
	Explain  explainCmd  `cmd:"" group:"times" help:"Explain why a timer fired or did not fire, and what happens next."`
}

// comingFlags select timers and a range of time.
type comingFlags struct {
	From cli.Moment `help:"From this time on: RFC 3339, or from now such as 36h; default now." placeholder:"TIME"`
	To   cli.Moment `help:"Before this time; default a day after --from." aliases:"until" placeholder:"TIME"`

	flags.FilterFlags `embed:""`
	flags.StateFlag   `embed:""`
	AllNamespaces     bool `short:"A" help:"Timers of all namespaces."`
}

// callWithSelection calls do with the timers and the range that the flags select.
func (c *comingFlags) callWithSelection(a *cli.App, do func(ctx context.Context, s *client.Client, q rouse.Query, from,
	to rouse.Instant) error) error {
	q := c.FilterQuery(a)
	if c.AllNamespaces {
		q.Namespace = ""
	}
	var err error
	if q.States, err = c.ParseStates(); err != nil {
		return err
	}
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		from, to := c.From.ToInstant(), c.To.ToInstant()
		if !c.To.Set {
			begin := from
			if begin == 0 {
				clock, err := s.Clock(ctx)
				if err != nil {
					return err
				}
				begin = clock.Now // from stays 0: a range that begins before now has the fires that pauses prevented
			}
			to = begin.Add(24 * time.Hour)
		}
		return do(ctx, s, q, from, to)
	})
}

// simulateCmd prints future fires.
type simulateCmd struct {
	comingFlags `embed:""`
	Limit       int `help:"Maximum number, up to 10000." default:"1000" placeholder:"N"`
}

func (simulateCmd) Help() string {
	return `All timers that match are looked at, with their pauses, skips, calendars and limits, as they are now. Nothing is changed.

Examples:

    rouse simulate
    rouse simulate --from 2027-03-28T00:00:00Z --to 2027-03-29T00:00:00Z --label team=billing
    rouse simulate --to 168h --prefix invoice- --limit 20 --json`
}

// Run simulates.
func (c *simulateCmd) Run(a *cli.App) error {
	if c.Limit < 1 || c.Limit > 10_000 {
		return rouse.Refuse("limit", strconv.Itoa(c.Limit), "is out of bounds", "use 1 to 10000")
	}
	return c.callWithSelection(a, func(ctx context.Context, s *client.Client, q rouse.Query, from,
		to rouse.Instant) error {
		sim, err := s.Simulate(ctx, q, from, to, c.Limit)
		if err != nil {
			return flags.UseFlagNames(err)
		}
		return a.ShowValue(api.Simulated{Fires: comingsOf(sim.Fires), Timers: sim.Timers, More: sim.More}, func() error {
			rows := rowsOf(sim.Fires)
			if c.AllNamespaces {
				rows = withNamespaces(rows, sim.Fires)
			}
			if err := showComing(a, "LOCAL", rows, a.ServerTime()); err != nil {
				return err
			}
			if sim.More {
				a.PrintNote("there are more: see --limit")
			}
			a.PrintNote("%s of %s", cli.CountThings(len(sim.Fires), "fire"), cli.CountThings(sim.Timers, "timer"))
			return nil
		})
	})
}

// forecastCmd counts the occurrences that come due.
type forecastCmd struct {
	comingFlags `embed:""`
	Step        time.Duration `help:"Count by so much time." default:"1h" placeholder:"DURATION"`
	By          string        `help:"Count each namespace or target by itself." enum:",namespace,target" default:"" placeholder:"WHAT"`
}

func (forecastCmd) Help() string {
	return `Recurring timers count with each occurrence; retries and requested runs are not included. Steps begin at multiples of their
length, in UTC. Nothing is changed.

Examples:

    rouse forecast
    rouse forecast --to 168h --step 24h -A
    rouse forecast --to 24h -A --by target
    rouse forecast --from 9h --to 10h --step 1m --label team=billing --json`
}

// Run counts.
func (c *forecastCmd) Run(a *cli.App) error {
	return c.callWithSelection(a, func(ctx context.Context, s *client.Client, q rouse.Query, from,
		to rouse.Instant) error {
		f, next, err := s.Forecast(ctx, q, c.By, from, to, c.Step, "")
		for err == nil && next != "" {
			var more rouse.Forecast
			more, next, err = s.Forecast(ctx, q, c.By, from, to, c.Step, next)
			f.Add(&more)
		}
		if err != nil {
			return flags.UseFlagNames(err)
		}
		return a.ShowValue(api.ForecastOf(&f, ""), func() error {
			header := []string{"FROM", "COUNT"}
			if c.By != "" {
				header = append(header, strings.ToUpper(c.By))
			}
			t := cli.NewTable(a, header...)
			for _, l := range f.Loads {
				row := []string{cli.FormatRFC3339(l.From), strconv.FormatInt(l.Count, 10)}
				if c.By != "" {
					row = append(row, cmp.Or(l.Key, "(others)"))
				}
				if err := t.AddTableRow(row...); err != nil {
					return err
				}
			}
			if err := t.FlushTable(); err != nil {
				return err
			}
			a.PrintNote("%s of %s", cli.CountThings(f.Total(), "occurrence"), cli.CountThings(f.Timers, "timer"))
			return nil
		})
	})
}

// explainCmd explains why a timer fired or did not fire.
type explainCmd struct {
	Name string     `arg:"" help:"Name of the timer."`
	At   cli.Moment `help:"Explain the occurrence of this time, or why there is none: RFC 3339, or from now such as --at=-1h." placeholder:"TIME"`
}

func (explainCmd) Help() string {
	return `It looks at the timer, its history, its calendars and its target, and prints what it finds, the most important first.

Examples:

    rouse explain coffee
    rouse explain coffee --at 2027-01-04T07:30:00Z
    rouse explain coffee --json`
}

// Run explains.
func (c *explainCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		e, err := s.Explain(ctx, a.Flags.Namespace, c.Name, c.At.ToInstant())
		if err != nil {
			return cli.AddObjectName("timer", c.Name, flags.UseFlagNames(err))
		}
		return a.ShowValue(explanationOf(&e), func() error { return explainTimer(a, &e) })
	})
}

func explanationOf(e *client.Explanation) api.Explanation {
	o := api.Explanation{Summary: e.Summary, Words: e.Words, Reasons: []api.Reason{}, Records: []api.Record{},
		Next: comingsOf(e.Next)}
	for _, r := range e.Reasons {
		o.Reasons = append(o.Reasons, api.Reason{Code: r.Code, Text: r.Text, At: api.TimeOf(r.At), Since: api.TimeOf(r.Since),
			Until: api.TimeOf(r.Until), Cure: r.Cure})
	}
	for i := range e.Records {
		o.Records = append(o.Records, api.RecordOf(&e.Records[i]))
	}
	if e.Timer != nil {
		t := api.TimerOf(e.Timer)
		o.Timer = &t
	}
	return o
}

// explainTimer prints an explanation.
func explainTimer(a *cli.App, e *client.Explanation) error {
	now := a.ServerTime()
	a.PrintLine("%s", e.Summary)
	for _, r := range e.Reasons {
		if r.Text == e.Summary {
			continue
		}
		text := r.Text
		if r.At != 0 {
			text += " (" + cli.FormatWithRelative(r.At, now) + ")"
		}
		fmt.Fprintf(a.Out, "  %s %s\n", a.Style.Bold(cli.CleanText(r.Code)+":"), cli.CleanText(text))
	}
	if e.Timer != nil {
		a.PrintLine("")
		cli.PrintFacts(a.Out, a.Style, "state", e.Timer.State().String(), "schedule", e.Timer.Spec.Schedule, "in words",
			e.Words)
	}
	if len(e.Next) > 0 {
		a.PrintLine("")
		if err := showComing(a, "LOCAL", rowsOf(e.Next), now); err != nil {
			return err
		}
	}
	if len(e.Records) == 0 {
		return nil
	}
	a.PrintLine("")
	t := cli.NewTable(a, fireColumns...)
	t.Paint[2] = a.Style.PaintWord
	for i := range e.Records {
		if err := t.AddTableRow(fireRow(&e.Records[i])...); err != nil {
			return err
		}
	}
	return t.FlushTable()
}
