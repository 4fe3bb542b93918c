package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/foreign"
	"github.com/rousehq/rouse/schedule"
)

// foreign imports the file of another scheduler.
func (c *importCmd) foreign(a *app) error {
	if err := rouse.CheckNamespace(a.cli.Namespace); err != nil {
		return err
	}
	in, err := c.whole(a)
	if err != nil {
		return err
	}
	now := rouse.Reached(time.Now())
	entries, notes, err := foreign.Read(c.From, in, foreign.Options{Target: c.Target, Timezone: c.Timezone, Now: now})
	if err != nil {
		return flagged(err)
	}
	t := &tally{a: a, did: "imported", bar: a.progress("timers", 0)}
	if c.DryRun {
		t.did = "good"
	}
	var timers []rouse.Timer
	var lines []int
	for i := range entries {
		if entries[i].Passed {
			if err := c.showPassed(a, &entries[i]); err != nil {
				return err
			}
			continue
		}
		timer, err := c.timer(a, &entries[i], now)
		if err == nil {
			timers, lines = append(timers, timer), append(lines, entries[i].Line)
		}
		if err := c.show(a, t, &entries[i], timer.Due, err); err != nil {
			return err
		}
	}
	for _, n := range notes {
		a.note("all: %s", n)
	}
	if c.DryRun {
		return t.result(nil)
	}
	return a.remote(func(s *client.Client) error {
		i := &importing{a: a, s: s, t: t, mode: importModes[c.Mode]}
		for len(timers) > 0 {
			n := min(len(timers), bulkTimers)
			i.timers, i.lines, timers, lines = timers[:n], lines[:n], timers[n:], lines[n:]
			if err := i.flush(); err != nil {
				return t.result(err)
			}
		}
		t.bar.end()
		return t.result(nil)
	})
}

// daprEtcd imports the jobs of Dapr's scheduler: they have a progress, which entries of files do not have.
func (c *importCmd) daprEtcd(a *app) error {
	if c.Target+c.Timezone != "" || a.given["namespace"] || c.Mode == "replace-only" {
		return &usage{text: "--target, --timezone, --namespace and --mode replace-only do not go with --from dapr-etcd: jobs go on to their sidecars, in the namespaces of Dapr",
			help: "rouse dapr-import --help"}
	}
	etcd := daprImportCmd{Etcd: c.File, DaprNamespace: "default", Replace: c.Mode == "create-or-replace", DryRun: c.DryRun}
	return etcd.Run(a)
}

// whole returns the contents of the file.
func (c *importCmd) whole(a *app) ([]byte, error) {
	from := a.in
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return nil, rouse.Refuse("file", c.File, "cannot be read: "+reason(err), "name the file of another scheduler")
		}
		defer f.Close()
		from = f
	}
	return io.ReadAll(io.LimitReader(from, foreign.MaxBytes+1))
}

// timer returns the timer of an entry.
func (c *importCmd) timer(a *app, e *foreign.Entry, now rouse.Instant) (t rouse.Timer, err error) {
	if e.Err != nil {
		return t, e.Err
	}
	key := rouse.Key{Namespace: a.cli.Namespace, Name: e.Name}
	s, err := schedule.Compile(&e.Spec, rouse.ScheduleInput{Key: key, Anchor: now})
	if err != nil {
		return t, err
	}
	if t, err = rouse.NewTimer(key, e.Spec, now, now, s); err != nil {
		return t, err
	}
	if e.Paused {
		err = t.Pause("it was suspended where it was imported from", 0, now)
	}
	return t, err
}

// foreignLine is the JSON output for an entry of a dry run.
type foreignLine struct {
	Line   int          `json:"line"`
	Timer  api.NewTimer `json:"timer"`
	Due    api.Time     `json:"due,omitzero"`
	Paused bool         `json:"paused,omitzero"`
	Passed bool         `json:"passed,omitzero"`
	Notes  []string     `json:"notes,omitempty"`
}

// showPassed prints that no timer is made of an entry: it would fire at once, or never.
func (c *importCmd) showPassed(a *app, e *foreign.Entry) error {
	if a.cli.JSON {
		timer := api.NewTimer{Name: e.Name, Spec: api.SpecOf(&e.Spec)}
		return a.printJSON(foreignLine{Line: e.Line, Timer: timer, Passed: true, Notes: e.Notes})
	}
	a.say("%s: %s, its time has passed, so that no timer is made", e.Name, e.Spec.Schedule)
	return nil
}

// show prints what becomes of an entry. In a dry run that is its outcome, too.
func (c *importCmd) show(a *app, t *tally, e *foreign.Entry, due rouse.Instant, err error) error {
	switch {
	case err != nil:
		return t.outcome(e.Line, client.Created{Name: e.Name, Err: err})
	case c.DryRun:
		t.good++
	}
	switch {
	case a.cli.JSON && c.DryRun:
		return a.printJSON(foreignLine{Line: e.Line, Timer: api.NewTimer{Name: e.Name, Spec: api.SpecOf(&e.Spec)}, Due: api.TimeOf(due), Paused: e.Paused, Notes: e.Notes})
	case a.cli.JSON:
		return nil
	}
	words := "first due " + stamp(due)
	if e.Paused {
		words = "paused"
	}
	if _, err := fmt.Fprintf(a.out, "%s: %s, %s\n", clean(e.Name), clean(e.Spec.Schedule), words); err != nil {
		return err
	}
	for _, n := range e.Notes {
		if _, err := fmt.Fprintf(a.out, "    %s\n", clean(n)); err != nil {
			return err
		}
	}
	return nil
}
