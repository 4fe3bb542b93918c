package main

import (
	"cmp"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/declare"
	"github.com/rousehq/rouse/internal/foreign"
)

// importForeign applies the file of another scheduler.
func (c *importCmd) importForeign(a *app) error {
	switch {
	case a.given["mode"]:
		return &usage{text: "--mode does not go with --from " + c.From +
			": its timers are applied, and what differs is changed", help: "rouse import --help"}
	case c.Prune && c.Owner == "":
		return &usage{text: "--prune needs --owner: it deletes the timers of that set which the file does not have",
			help: "rouse import --help"}
	}
	if err := rouse.CheckNamespace(a.flags.Namespace); err != nil {
		return err
	}
	set := applyCmd{Owner: cmp.Or(c.Owner, c.From), Prune: c.Prune, DryRun: c.DryRun}
	if err := declare.CheckOwner(set.Owner); err != nil {
		return err
	}
	in, err := c.readWhole(a)
	if err != nil {
		return err
	}
	now := rouse.Reached(time.Now())
	entries, notes, err := foreign.Read(c.From, in, foreign.Options{Target: c.Target, Timezone: c.Timezone,
		File: c.File, Now: now})
	if err != nil {
		return useFlagNames(err)
	}
	foreign.CheckTimers(c.From, entries, a.flags.Namespace, now)
	if c.DryRun && c.Owner == "" {
		return c.showEntries(a, entries, notes)
	}
	for _, n := range notes {
		a.printNote("all: %s", n)
	}
	list, refused := c.declareEntries(entries)
	return set.applyDeclared(a, list, refused)
}

// declareEntries returns entries as objects for apply, and the refused ones: they are no timer, or have
// passed.
func (c *importCmd) declareEntries(entries []foreign.Entry) (list []declared, refused []applied) {
	for i := range entries {
		e := &entries[i]
		d := declared{Object: e.Object(), file: c.File, line: e.Line, entry: !foreign.HasLines(c.From), notes: e.Notes}
		switch {
		case e.Passed:
			refused = append(refused, d.appliedOutcome(declare.Outcome{What: declare.Passed}))
		case e.Err != nil:
			refused = append(refused, d.appliedOutcome(declare.Outcome{What: declare.Failed, Err: e.Err}))
		default:
			list = append(list, d)
		}
	}
	return list, refused
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

// readWhole returns the contents of the file.
func (c *importCmd) readWhole(a *app) ([]byte, error) {
	from := a.in
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return nil, rouse.Refuse("file", c.File, "cannot be read: "+bareFileError(err), "name the file of another scheduler")
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

// showEntries prints the timers of entries, without a server.
func (c *importCmd) showEntries(a *app, entries []foreign.Entry, notes []string) error {
	t := a.newTally("good", foreign.Numbered(c.From), 0)
	for i := range entries {
		e := &entries[i]
		if e.Err != nil {
			if err := t.reportLine(e.Line, client.Created{Name: e.Name, Err: e.Err}); err != nil {
				return err
			}
			continue
		}
		if !e.Passed {
			t.good++
		}
		if err := c.showEntry(a, e); err != nil {
			return err
		}
	}
	for _, n := range notes {
		a.printNote("all: %s", n)
	}
	return t.printBulkTotals(nil)
}

func (c *importCmd) showEntry(a *app, e *foreign.Entry) error {
	if a.flags.JSON {
		return a.printJSON(foreignLine{Line: e.Line, Timer: api.NewTimer{Name: e.Name, Spec: api.SpecOf(&e.Spec)},
			Due: api.TimeOf(e.Due), Paused: e.Paused, Passed: e.Passed, Notes: e.Notes})
	}
	words := "first due " + formatRFC3339(e.Due)
	switch {
	case e.Passed:
		words = "its time has passed, so that no timer is made"
	case e.Paused:
		words = "paused"
	}
	a.printLine("%s: %s, %s", e.Name, strings.Join(append([]string{e.Spec.Schedule}, e.Spec.Also...), " also "), words)
	a.sayNotes(e.Notes)
	return nil
}
