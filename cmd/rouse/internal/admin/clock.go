package admin

import (
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/flags"
)

// ClockCmd shows and moves the clock of a server.
type ClockCmd struct {
	Show    clockShowCmd    `cmd:"" default:"withargs" help:"Show the time of the server."`
	Advance clockAdvanceCmd `cmd:"" help:"Move the clock of a development server forward."`
	Repair  clockRepairCmd  `cmd:"" help:"Set timers right after the store's clock was ahead."`
}

func (ClockCmd) Help() string {
	return `Examples:

    rouse clock
    rouse clock advance 30d`
}

// clockShowCmd shows the clock.
type clockShowCmd struct{}

func (clockShowCmd) Help() string {
	return `Examples:

    rouse clock show
    rouse clock --json`
}

// Run shows it.
func (clockShowCmd) Run(a *cli.App) error {
	return a.WithClient(func(s *client.Client) error {
		c, err := s.Clock(a.Ctx)
		if err != nil {
			return err
		}
		return showClock(a, c)
	})
}

// clockRepairCmd moves all timers to their due times by the present clock.
type clockRepairCmd struct {
	DryRun bool `help:"Change nothing, and print what would be looked at."`
	Yes    bool `short:"y" help:"Do not ask for confirmation."`
}

func (clockRepairCmd) Help() string {
	return `While the store's clock is ahead, timers fire early, and then wait for their next occurrence after that time. This moves the
timers of all namespaces to their first occurrence from now: what fired early fires again at its time. So do occurrences to
come that were skipped on request. Retries, and schedules that count from their creation, go on from now. Set the clock right
first: rouse doctor tells by how much it was ahead.

Examples:

    rouse clock repair --dry-run
    rouse clock repair --yes`
}

// Run moves them.
func (c *clockRepairCmd) Run(a *cli.App) error {
	if !c.Yes && !c.DryRun {
		if err := a.AskConfirmation("move the timers of all namespaces to their first occurrence from now?"); err != nil {
			return err
		}
	}
	return a.WithClient(func(s *client.Client) error {
		return flags.RunBulk(a, a.Ctx, s, client.BulkRequest{Action: client.BulkReplan, DryRun: c.DryRun}, "set right")
	})
}

// clockAdvanceCmd moves the clock.
type clockAdvanceCmd struct {
	By   cli.Stretch `arg:"" optional:"" help:"Time to advance, such as 90s, 12h, 30d or 2w3d."`
	To   future      `help:"To this time, in RFC 3339, instead." placeholder:"TIME"`
	Jump bool        `help:"Move at once, as if the server had been down: occurrences in between are late, and misfire policies apply."`
}

func (clockAdvanceCmd) Help() string {
	return `The server must be one that rouse dev started. Its clock goes from due time to due time: each timer fires at its own
time, retries too, and the next step waits until that has ended. That takes as long as the targets take; a clock that is
interrupted stays where it has come to.

Examples:

    rouse clock advance 30d
    rouse clock advance --to 2027-03-28T03:00:00+02:00
    rouse clock advance 12h --jump`
}

// Run moves it.
func (c *clockAdvanceCmd) Run(a *cli.App) error {
	if (c.By == 0) == (c.To == 0) {
		return rouse.Refuse("by", "", "and --to are both given, or neither is", "give how far, such as 30d, or --to a time")
	}
	return a.WithClient(func(s *client.Client) error {
		clock, err := s.AdvanceClock(a.Ctx, client.Advance{By: time.Duration(c.By), To: rouse.Instant(c.To), Jump: c.Jump})
		if err != nil {
			return err
		}
		return showClock(a, clock)
	})
}

func showClock(a *cli.App, c client.Clock) error {
	return a.ShowValue(api.Clock{Now: api.Time(c.Now), Ahead: api.Duration(c.Ahead), Virtual: c.Virtual, Fired: c.Fired},
		func() error {
			how := "the machine's clock"
			switch d := c.Ahead.Round(time.Second); {
			case c.Virtual && d == 0:
				how = "with the real clock"
			case c.Virtual && d < 0:
				how = cli.RoughDuration(d) + " behind the real clock"
			case c.Virtual:
				how = cli.RoughDuration(d) + " ahead of the real clock"
			}
			if c.Fired > 0 {
				a.PrintLine("%s, %s; %d fired on the way", cli.FormatRFC3339(c.Now), how, c.Fired)
			} else {
				a.PrintLine("%s, %s", cli.FormatRFC3339(c.Now), how)
			}
			return nil
		})
}

// future is a time in RFC 3339. It cannot be relative to now, because this machine's clock does not count.
type future rouse.Instant

// UnmarshalText reads a time.
func (f *future) UnmarshalText(text []byte) error {
	i, err := rouse.ParseInstant(string(text))
	*f = future(i)
	return rouse.Under("to", err)
}
