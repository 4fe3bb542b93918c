package main

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// createCmd creates one timer, or those of a file.
type createCmd struct {
	Name       string `arg:"" optional:"" help:"Name of the timer, unique in its namespace; one is made up if not given."`
	File       string `short:"f" help:"Create the timers of a file of JSON Lines, each the body of the API's create call; - is stdin." placeholder:"FILE"`
	Replace    bool   `help:"Replace a timer of the same name, which begins a new generation."`
	IfRevision uint64 `help:"Replace the timer only if it has this revision." placeholder:"N"`

	specFlags `embed:""`
}

func (createCmd) Help() string {
	return `Examples:

    rouse create coffee -s '30 8 * * MON-FRI' --timezone Europe/Stockholm -t https://example.com/hook -p '{"cups": 2}'
    rouse create -s '@after 90s' -t http://127.0.0.1:7413/ -p '"hello"'
    rouse create report -s '0 6 * * *' -t stream:reports -l team=billing --retry-attempts 3 --replace
    rouse create --file timers.jsonl`
}

// Run creates what was asked for.
func (c *createCmd) Run(a *app) error {
	if c.File != "" {
		return c.createFile(a)
	}
	if err := c.check(a); err != nil {
		return err
	}
	spec, err := c.spec(a.in)
	if err != nil {
		return flagged(err)
	}
	return a.call(func(ctx context.Context, s *client.Client) error {
		t, done, err := c.create(ctx, s, a.cli.Namespace, spec)
		if err != nil {
			return named("timer", c.Name, flagged(err))
		}
		return a.show(api.TimerOf(&t), func() error {
			a.say("%s %s: first due %s", done, t.Key.Name, when(t.Due, time.Now()))
			return nil
		})
	})
}

func (c *createCmd) create(ctx context.Context, s *client.Client, namespace string, spec rouse.Spec) (rouse.Timer, string, error) {
	switch {
	case c.IfRevision != 0:
		t, err := s.CreateOrReplace(ctx, namespace, c.Name, spec, client.IfRevision(c.IfRevision))
		return t, "replaced", err
	case c.Replace:
		t, err := s.CreateOrReplace(ctx, namespace, c.Name, spec)
		return t, "created or replaced", err
	}
	t, err := s.Create(ctx, namespace, c.Name, spec)
	return t, "created", err
}

// check refuses flags that do not go together, before anything is read.
func (c *createCmd) check(a *app) error {
	if c.Name == "" && (c.Replace || c.IfRevision != 0) {
		return rouse.Refuse("name", "", "is missing", "name the timer to replace")
	}
	if c.Name != "" {
		if err := rouse.CheckName(c.Name); err != nil {
			return err
		}
	}
	return rouse.CheckNamespace(a.cli.Namespace)
}
