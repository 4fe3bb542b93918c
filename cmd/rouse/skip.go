package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// skipCmd skips occurrences of a timer, or of all that match.
type skipCmd struct {
	Name   string `arg:"" optional:"" help:"Name of the timer."`
	Count  uint32 `help:"How many occurrences; with a filter one of each timer." default:"1" placeholder:"N"`
	Reason string `help:"Why, for the history." placeholder:"TEXT"`

	manyFlags `embed:""`
	stateFlag `embed:""`
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
func (c *skipCmd) Run(a *app) error {
	if c.Count < 1 || c.Count > rouse.MaxSkips {
		return rouse.Refuse("count", strconv.FormatUint(uint64(c.Count), 10), "is out of bounds", fmt.Sprintf("skip 1 to %d occurrences", rouse.MaxSkips))
	}
	many, err := c.many(a, "timers", c.Name, len(c.State) > 0)
	if err != nil {
		return err
	}
	if many {
		if c.Count != 1 {
			return &usage{text: "--count goes with a name: with a filter one occurrence of each timer is skipped", help: a.command + " --help"}
		}
		return c.bulk(a, client.BulkRequest{Action: client.BulkSkip, Reason: c.Reason}, c.stateFlag, "skip the next occurrence of", "skipped", true)
	}
	return a.call(func(ctx context.Context, s *client.Client) error {
		t, err := s.Skip(ctx, a.cli.Namespace, c.Name, c.Count, c.Reason)
		if err != nil {
			return named("timer", c.Name, flagged(err))
		}
		return a.show(api.TimerOf(&t), func() error {
			switch {
			case t.Skips > 0:
				a.say("%s: one is on its way since %s, and %d after it will be skipped", t.Key.Name, stamp(t.Due), t.Skips)
			case t.Due == rouse.Never:
				a.say("skipped %d of %s: there are no more", c.Count, t.Key.Name)
			default:
				a.say("skipped %d of %s: next due %s", c.Count, t.Key.Name, when(t.Due, a.now()))
			}
			return nil
		})
	})
}
