package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/declare"
	"github.com/rousehq/rouse/internal/foreign"
	"github.com/rousehq/rouse/schedule"
)

// foreign applies the file of another scheduler.
func (c *importCmd) foreign(a *app) error {
	switch {
	case a.given["mode"]:
		return &usage{text: "--mode does not go with --from " + c.From + ": its timers are applied, and what differs is changed", help: "rouse import --help"}
	case c.Prune && c.Owner == "":
		return &usage{text: "--prune needs --owner: it deletes the timers of that set which the file does not have", help: "rouse import --help"}
	}
	if err := rouse.CheckNamespace(a.cli.Namespace); err != nil {
		return err
	}
	set := applyCmd{Owner: cmp.Or(c.Owner, c.From), Prune: c.Prune, DryRun: c.DryRun}
	if err := declare.CheckOwner(set.Owner); err != nil {
		return err
	}
	in, err := c.whole(a)
	if err != nil {
		return err
	}
	now := rouse.Reached(time.Now())
	entries, notes, err := foreign.Read(c.From, in, foreign.Options{Target: c.Target, Timezone: c.Timezone, File: c.File, Now: now})
	if err != nil {
		return flagged(err)
	}
	list, refused := c.declared(a, entries, now)
	if c.DryRun && c.Owner == "" {
		return c.show(a, entries, notes, now)
	}
	for _, n := range notes {
		a.note("all: %s", n)
	}
	return set.apply(a, list, refused)
}

// numbered returns what the numbers of entries are of.
func (c *importCmd) numbered() string {
	if foreign.HasLines(c.From) {
		return "line"
	}
	return "entry"
}

// declared returns entries as what apply makes, and those that are no timer: they cannot be one, or have
// passed. It notes in entries why.
func (c *importCmd) declared(a *app, entries []foreign.Entry, now rouse.Instant) (list []declared, refused []applied) {
	lines := map[string]int{}
	for i := range entries {
		e := &entries[i]
		d := declared{Object: declare.Object{Name: e.Name, Spec: e.Spec, Late: e.Late}, file: c.File, line: e.Line, entry: !foreign.HasLines(c.From), notes: e.Notes}
		if e.Passed { // no timer is made: neither its name nor what is wrong with it matters
			refused = append(refused, d.outcome(declare.Outcome{What: declare.Passed}))
			continue
		}
		if e.Paused {
			d.Paused = "it was suspended where it was imported from"
		}
		if e.Err == nil {
			e.Err = d.Check(a.cli.Namespace, now)
		}
		if e.Err == nil {
			_, e.Err = firstDue(a, e, now)
		}
		if first, twice := lines[e.Name]; twice && e.Err == nil {
			e.Err = rouse.Refuse("name", e.Name, fmt.Sprintf("is that of the timer of %s %d, too", c.numbered(), first), "import them apart, into two namespaces")
		}
		if e.Err != nil {
			refused = append(refused, d.outcome(declare.Outcome{What: declare.Failed, Err: e.Err}))
			continue
		}
		lines[e.Name] = e.Line
		list = append(list, d)
	}
	return list, refused
}

// firstDue returns when the timer of an entry is due first, or why a server refuses it.
func firstDue(a *app, e *foreign.Entry, now rouse.Instant) (rouse.Instant, error) {
	key := rouse.Key{Namespace: a.cli.Namespace, Name: e.Name}
	s, err := schedule.Compile(&e.Spec, rouse.ScheduleInput{Key: key, Anchor: now})
	if err != nil {
		return 0, err
	}
	t, err := rouse.NewTimer(key, e.Spec, now, now, s)
	return t.Due, err
}

// daprEtcd imports the jobs of Dapr's scheduler: they have a progress, which entries of files do not have.
func (c *importCmd) daprEtcd(a *app) error {
	if c.Target+c.Timezone+c.Owner != "" || c.Prune || a.given["namespace"] || c.Mode == "replace-only" {
		return &usage{text: "--target, --timezone, --owner, --prune, --namespace and --mode replace-only do not go with --from dapr-etcd: jobs go on to their sidecars, in the namespaces of Dapr",
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

// foreignLine is the JSON output for an entry of a dry run.
type foreignLine struct {
	Line   int          `json:"line"`
	Timer  api.NewTimer `json:"timer"`
	Due    api.Time     `json:"due,omitzero"`
	Paused bool         `json:"paused,omitzero"`
	Passed bool         `json:"passed,omitzero"`
	Notes  []string     `json:"notes,omitempty"`
}

// show prints what entries mean, without a server.
func (c *importCmd) show(a *app, entries []foreign.Entry, notes []string, now rouse.Instant) error {
	t := &tally{a: a, did: "good", of: c.numbered(), bar: a.progress("timers", 0)}
	for i := range entries {
		e := &entries[i]
		if e.Err != nil {
			if err := t.outcome(e.Line, client.Created{Name: e.Name, Err: e.Err}); err != nil {
				return err
			}
			continue
		}
		if !e.Passed {
			t.good++
		}
		if err := c.showEntry(a, e, now); err != nil {
			return err
		}
	}
	for _, n := range notes {
		a.note("all: %s", n)
	}
	return t.result(nil)
}

func (c *importCmd) showEntry(a *app, e *foreign.Entry, now rouse.Instant) error {
	due, _ := firstDue(a, e, now) // it has been checked, or has passed
	if a.cli.JSON {
		return a.printJSON(foreignLine{Line: e.Line, Timer: api.NewTimer{Name: e.Name, Spec: api.SpecOf(&e.Spec)}, Due: api.TimeOf(due), Paused: e.Paused, Passed: e.Passed, Notes: e.Notes})
	}
	words := "first due " + stamp(due)
	switch {
	case e.Passed:
		words = "its time has passed, so that no timer is made"
	case e.Paused:
		words = "paused"
	}
	a.say("%s: %s, %s", e.Name, strings.Join(append([]string{e.Spec.Schedule}, e.Spec.Also...), " also "), words)
	a.sayNotes(e.Notes)
	return nil
}
