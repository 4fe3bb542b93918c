package main

import (
	"context"
	"fmt"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// explainCmd explains why a timer fired or did not fire.
type explainCmd struct {
	Name string `arg:"" help:"Name of the timer."`
	At   moment `help:"Explain the occurrence of this time, or why there is none: RFC 3339, or from now such as --at=-1h." placeholder:"TIME"`
}

func (explainCmd) Help() string {
	return `It looks at the timer, its history, its calendars and its target, and prints what it finds, the most important first.

Examples:

    rouse explain coffee
    rouse explain coffee --at 2027-01-04T07:30:00Z
    rouse explain coffee --json`
}

// Run explains.
func (c *explainCmd) Run(a *app) error {
	return a.call(func(ctx context.Context, s *client.Client) error {
		e, err := s.Explain(ctx, a.cli.Namespace, c.Name, c.At.instant())
		if err != nil {
			return named("timer", c.Name, flagged(err))
		}
		return a.show(explanationOf(&e), func() error { return a.explainTimer(&e) })
	})
}

func explanationOf(e *client.Explanation) api.Explanation {
	o := api.Explanation{Summary: e.Summary, Words: e.Words, Reasons: []api.Reason{}, Records: []api.Record{}, Next: comingsOf(e.Next)}
	for _, r := range e.Reasons {
		o.Reasons = append(o.Reasons, api.Reason{Code: r.Code, Text: r.Text, At: api.TimeOf(r.At)})
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
func (a *app) explainTimer(e *client.Explanation) error {
	now := a.now()
	a.say("%s", e.Summary)
	for _, r := range e.Reasons {
		if r.Text == e.Summary {
			continue
		}
		text := r.Text
		if r.At != 0 {
			text += " (" + when(r.At, now) + ")"
		}
		fmt.Fprintf(a.out, "  %s %s\n", a.style.bold(clean(r.Code)+":"), clean(text))
	}
	if e.Timer != nil {
		a.say("")
		facts(a.out, a.style, "state", e.Timer.State().String(), "schedule", e.Timer.Spec.Schedule, "in words", e.Words)
	}
	if len(e.Next) > 0 {
		a.say("")
		if err := a.showComing("LOCAL", rowsOf(e.Next), now); err != nil {
			return err
		}
	}
	if len(e.Records) == 0 {
		return nil
	}
	a.say("")
	t := newTable(a, fireColumns...)
	t.paint[2] = a.style.word
	for i := range e.Records {
		if err := t.row(fireRow(&e.Records[i])...); err != nil {
			return err
		}
	}
	return t.flush()
}
