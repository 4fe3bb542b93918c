// Package timer has the commands for timers, their occurrences, dead letters, calendars and jobs.
package timer

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/flags"
)

// CreateCmd creates one timer, or the timers of a file.
type CreateCmd struct {
	Name       string `arg:"" optional:"" help:"Name of the timer, unique in its namespace; default generated."`
	File       string `short:"f" help:"Create the timers of a file of JSON Lines, each the body of the API's create call; - is stdin." placeholder:"FILE"`
	Replace    bool   `help:"Give an existing timer of the name this spec. If its due times are the same, all of its state stays."`
	IfRevision uint64 `help:"Replace the timer only if it has this revision." placeholder:"N"`

	DryRun bool `help:"Check everything, and show what would be stored and when it would fire; nothing is written."`

	Debounce        time.Duration `help:"Instead of a schedule: fire when there was no such call for this duration." placeholder:"DURATION" xor:"when"`
	DebounceMaxWait time.Duration `help:"With --debounce: but at most so long after the first call." placeholder:"DURATION"`
	Throttle        time.Duration `help:"Instead of a schedule: fire immediately, then at most once per this duration." placeholder:"DURATION" xor:"when"`

	flags.SpecFlags `embed:""`
}

func (CreateCmd) Help() string {
	return `With --debounce or --throttle the name is a key: many calls become few fires, and the newest call's payload wins.

Examples:

    rouse create coffee -s '30 8 * * MON-FRI' --timezone Europe/Stockholm -t https://example.com/hook -p '{"cups": 2}'
    rouse create -s '@after 90s' -t http://127.0.0.1:7413/ -p '"hello"'
    rouse create report -s '0 6 * * *' -t stream:reports -l team=billing --retry-attempts 3 --replace
    rouse create payroll -s '0 8 25 * *' --timezone Europe/Berlin --calendar-off weekends --calendar-shift previous -t stream:payroll
    rouse create poll -s '@every 5m' --end 24h --jitter 30s --overlap skip --deadline 2m --keep 72h -t stream:poll
    rouse create index-17 --debounce 10s --debounce-max-wait 1m -t stream:index
    rouse create nightly -s '0 3 * * *' -t https://example.com/nightly --dry-run
    rouse create --file timers.jsonl`
}

// Run creates the timer of the flags, or those of a file.
func (c *CreateCmd) Run(a *cli.App) error {
	if c.File != "" {
		return c.createFile(a)
	}
	if err := c.checkConflicts(a); err != nil {
		return err
	}
	spec, err := c.BuildSpec(a.In, c.coalesceFlags() != (rouse.Coalesce{}))
	if err != nil {
		return flags.UseFlagNames(err)
	}
	if c.DryRun {
		return c.validateTimer(a, spec)
	}
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		r, done, err := c.createByFlags(ctx, s, a.Flags.Namespace, spec)
		if err != nil {
			return cli.AddObjectName("timer", c.Name, flags.UseFlagNames(err))
		}
		due := "first due"
		if c.coalesceFlags() != (rouse.Coalesce{}) {
			due = "due"
		}
		return showReplaced(a, &r, func() {
			a.PrintLine("%s %s: %s %s", done, r.Key.Name, due,
				whenDue(&r.Timer, a.ServerTime()))
		})
	})
}

// validateTimer prints the timer that would be stored.
func (c *CreateCmd) validateTimer(a *cli.App, spec rouse.Spec) error {
	conditions := []client.Condition{client.ValidateOnly()}
	switch {
	case c.IfRevision != 0:
		conditions = append(conditions, client.IfRevision(c.IfRevision))
	case !c.Replace:
		conditions = append(conditions, client.IfNew())
	}
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		r, err := s.Replace(ctx, a.Flags.Namespace, c.Name, spec, conditions...)
		if err != nil {
			return cli.AddObjectName("timer", c.Name, flags.UseFlagNames(err))
		}
		shown := api.TimerOf(&r.Timer)
		for _, at := range r.Next {
			shown.Next = append(shown.Next, api.TimeOf(at))
		}
		return a.ShowValue(shown, func() error {
			a.PrintLine("nothing was written; %s would fire:", r.Key.Name)
			rows := make([]comingRow, len(r.Next))
			for i, at := range r.Next {
				rows[i].due = at
			}
			return showComing(a, "", rows, a.ServerTime())
		})
	})
}

// showReplaced shows a timer that was given another spec, the state that could not be kept, and whether a
// fire with the previous one may still arrive.
func showReplaced(a *cli.App, r *client.Replaced, human func()) error {
	shown := api.TimerOf(&r.Timer)
	shown.InFlight, shown.Unchanged, shown.Notes = r.InFlight, r.Unchanged, r.Notes
	return a.ShowValue(shown, func() error {
		if r.Unchanged {
			a.PrintLine("%s is unchanged", r.Key.Name)
		} else {
			human()
		}
		if r.Paused {
			a.PrintNote("it is paused: rouse resume %s", r.Key.Name)
		}
		for _, note := range r.Notes {
			a.PrintNote("%s", note)
		}
		if r.InFlight {
			a.PrintNote("an attempt of the timer as it was had started before and may still arrive")
		}
		return nil
	})
}

func (c *CreateCmd) coalesceFlags() rouse.Coalesce {
	return rouse.Coalesce{Quiet: c.Debounce, MaxWait: c.DebounceMaxWait, Every: c.Throttle}
}

func (c *CreateCmd) createByFlags(ctx context.Context, s *client.Client, namespace string,
	spec rouse.Spec) (client.Replaced, string, error) {
	switch {
	case c.Throttle != 0:
		r, err := s.Throttle(ctx, namespace, c.Name, spec, c.Throttle)
		return r, "throttled", err
	case c.Debounce != 0:
		r, err := s.Debounce(ctx, namespace, c.Name, spec, c.Debounce, c.DebounceMaxWait)
		return r, "debounced", err
	case c.IfRevision != 0:
		r, err := s.Replace(ctx, namespace, c.Name, spec, client.IfRevision(c.IfRevision))
		return r, "replaced", err
	case c.Replace:
		r, err := s.Replace(ctx, namespace, c.Name, spec)
		return r, "created or replaced", err
	}
	t, err := s.Create(ctx, namespace, c.Name, spec)
	return client.Replaced{Timer: t}, "created", err
}

// checkConflicts refuses conflicting flags before anything is read.
func (c *CreateCmd) checkConflicts(a *cli.App) error {
	if how := c.coalesceFlags(); how != (rouse.Coalesce{}) {
		switch {
		case c.Name == "":
			return rouse.Refuse("name", "", "is missing", "name the key by which calls are one")
		case a.Given["schedule"]:
			return rouse.Refuse("schedule", c.Schedule, "does not go with --debounce and --throttle", "leave one out")
		case c.DryRun:
			return rouse.Refuse("dry-run", "", "does not go with --debounce and --throttle", "leave one out")
		case c.IfRevision != 0:
			return rouse.Refuse("if-revision", "", "does not go with --debounce and --throttle", "leave one out")
		}
		if err := how.Check(); err != nil {
			return flags.UseFlagNames(err)
		}
	}
	if c.Name == "" && (c.Replace || c.IfRevision != 0) {
		return rouse.Refuse("name", "", "is missing", "name the timer to replace")
	}
	if c.Name != "" {
		if err := rouse.CheckName(c.Name); err != nil {
			return err
		}
	}
	return rouse.CheckNamespace(a.Flags.Namespace)
}
