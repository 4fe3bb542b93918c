package move

import (
	"cmp"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/flags"
	"github.com/rousehq/rouse/internal/declare"
	"github.com/rousehq/rouse/internal/foreign"
)

// importForeign applies the file of another scheduler.
func (c *ImportCmd) importForeign(a *cli.App) error {
	switch {
	case a.Given["mode"]:
		return &cli.Usage{Text: "--mode does not go with --from " + c.From +
			": its timers are applied, and what differs is changed", Help: "rouse import --help"}
	case c.Prune && c.Owner == "":
		return &cli.Usage{Text: "--prune needs --owner: it deletes the timers of that set which the file does not have",
			Help: "rouse import --help"}
	}
	if err := rouse.CheckNamespace(a.Flags.Namespace); err != nil {
		return err
	}
	set := ApplyCmd{Owner: cmp.Or(c.Owner, c.From), Prune: c.Prune, DryRun: c.DryRun}
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
		return flags.UseFlagNames(err)
	}
	foreign.CheckTimers(c.From, entries, a.Flags.Namespace, now)
	if c.DryRun && c.Owner == "" {
		return c.showEntries(a, entries, notes)
	}
	for _, n := range notes {
		a.PrintNote("all: %s", n)
	}
	list, refused := c.declareEntries(entries)
	return set.applyDeclared(a, list, refused)
}

// declareEntries returns entries as objects for apply, and the refused ones: they are no timer, or have
// passed.
func (c *ImportCmd) declareEntries(entries []foreign.Entry) (list []declared, refused []applied) {
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
func (c *ImportCmd) daprEtcd(a *cli.App) error {
	if c.Target+c.Timezone+c.Owner != "" || c.Prune || a.Given["namespace"] || c.Mode == "replace-only" {
		return &cli.Usage{Text: "--target, --timezone, --owner, --prune, --namespace and --mode replace-only do not go with --from dapr-etcd: jobs go on to their sidecars, in the namespaces of Dapr",
			Help: "rouse dapr-import --help"}
	}
	etcd := DaprImportCmd{Etcd: c.File, DaprNamespace: "default", Replace: c.Mode == "create-or-replace", DryRun: c.DryRun}
	return etcd.Run(a)
}

// readWhole returns the contents of the file.
func (c *ImportCmd) readWhole(a *cli.App) ([]byte, error) {
	from := a.In
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return nil, rouse.Refuse("file", c.File, "cannot be read: "+cli.BareFileError(err),
				"name the file of another scheduler")
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
func (c *ImportCmd) showEntries(a *cli.App, entries []foreign.Entry, notes []string) error {
	t := a.NewTally("good", foreign.Numbered(c.From), 0)
	for i := range entries {
		e := &entries[i]
		if e.Err != nil {
			if err := t.ReportLine(e.Line, client.Created{Name: e.Name, Err: e.Err}); err != nil {
				return err
			}
			continue
		}
		if !e.Passed {
			t.Good++
		}
		if err := c.showEntry(a, e); err != nil {
			return err
		}
	}
	for _, n := range notes {
		a.PrintNote("all: %s", n)
	}
	return t.PrintBulkTotals(nil)
}

func (c *ImportCmd) showEntry(a *cli.App, e *foreign.Entry) error {
	if a.Flags.JSON {
		return a.PrintJSON(foreignLine{Line: e.Line, Timer: api.NewTimer{Name: e.Name, Spec: api.SpecOf(&e.Spec)},
			Due: api.TimeOf(e.Due), Paused: e.Paused, Passed: e.Passed, Notes: e.Notes})
	}
	words := "first due " + cli.FormatRFC3339(e.Due)
	switch {
	case e.Passed:
		words = "its time has passed, so that no timer is made"
	case e.Paused:
		words = "paused"
	}
	a.PrintLine("%s: %s, %s", e.Name, strings.Join(append([]string{e.Spec.Schedule}, e.Spec.Also...), " also "), words)
	a.SayNotes(e.Notes)
	return nil
}
