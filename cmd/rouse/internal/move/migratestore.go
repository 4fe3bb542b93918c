package move

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/migrate"
	"github.com/rousehq/rouse/internal/pool/target"
	"github.com/rousehq/rouse/node"
)

// MigrateStoreCmd copies a store into another.
type MigrateStoreCmd struct {
	From       string `arg:"" help:"The store to copy, as serve takes it, or http://HOST:PORT of the server that has it."`
	To         string `arg:"" help:"The store to copy it into, as serve takes it: an empty one, or one that this command was copying into."`
	Final      bool   `help:"The service of FROM was stopped: copy what is left, verify all of it, and give TO free."`
	DryRun     bool   `help:"Print what would be copied, and copy nothing."`
	VerifyOnly bool   `help:"Compare the stores, and copy nothing."`
	Batch      int    `help:"Rows in one write." default:"500" placeholder:"N"`
	Temp       string `help:"Temporary directory for the copy of a server's store; default the system's." placeholder:"DIR" type:"path"`
}

func (MigrateStoreCmd) Help() string {
	return `Copies all timers in all states, dead letters, occurrences on their way, calendars and records. Generations are kept, and with
them fire ids; fencing tokens go on above those that receivers saw. Revisions are new ones.

While the service of FROM goes on, run it without --final, as often as you like: it comes close, and each run copies what has
changed since, deletes included. A store that a running server has open on its disk is copied through a backup, which the server
at http://HOST:PORT gives. Then

    1. stop the service of FROM,
    2. run the same command with --final, FROM being the store itself: it is quick, as only the last changes are left,
    3. start the service on TO. FROM is not served again: it has a note of that, which only "rouse serve --force" overrides.

When a run is ended or killed, the same command goes on where it was. TO must not be served before --final has succeeded, and is
refused if it has anything that this copy did not put there. FROM gets one row, which is taken out again at once: it tells how far
FROM's revisions have come. When --final has succeeded, it gets one that names the place of its timers. With --verify-only, exit code 1 means that the stores differ; the first ten differences are printed.

Examples:

    rouse migrate-store pebble:rouse-data/pebble sqlite:timers.db --final
    rouse migrate-store http://127.0.0.1:7411 sqlite:timers.db
    rouse migrate-store pebble:rouse-data/pebble sqlite:timers.db --dry-run
    rouse migrate-store pebble:rouse-data/pebble sqlite:timers.db --verify-only`
}

// migrated is the JSON output.
type migrated struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Mode   string `json:"mode"` // copy, final, dry-run or verify-only
	Backup string `json:"backup,omitempty"`
	migrate.Report
}

// Run copies, or compares.
func (c *MigrateStoreCmd) Run(a *cli.App) (err error) {
	mode, err := c.migrationMode()
	if err != nil {
		return err
	}
	if err := c.checkMigration(a); err != nil {
		return err
	}
	from, taken, closeFrom, err := c.openFrom(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeFrom()) }()
	to, err := c.openTo(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err := c.checkServed(a, from, to); err != nil {
		return err
	}
	count := node.FixBuckets
	if c.DryRun || c.VerifyOnly {
		count = node.Buckets
	}
	buckets, err := count(a.Ctx, to)
	if err != nil {
		return err
	}
	bar := &migrateBar{a: a}
	o := migrate.Options{From: cli.RedactPasswords(c.From), To: cli.RedactPasswords(c.To),
		Origin: cli.RedactPasswords(storePlace(c.From)), Final: c.Final, Dry: c.DryRun, Batch: c.Batch,
		Progress: bar.showPassProgress,
		Bucket: func(row *rouse.Row) uint32 {
			t, err := rouse.DecodeTimer(row)
			if err != nil || row.State == rouse.StateNote { // nodes place rows that only they can read
				t = rouse.Timer{Key: row.Key}
			}
			return rouse.Placed(&t, target.Route, buckets)
		}}
	do := migrate.Copy
	if c.VerifyOnly {
		do = migrate.Verify
	}
	report, err := do(a.Ctx, from, to, o)
	bar.clearPassBar()
	if err != nil {
		if !c.DryRun && !c.VerifyOnly && !errors.As(err, new(*rouse.Invalid)) {
			a.PrintNote("the copy is not finished; the same command goes on with it")
		}
		return err
	}
	m := migrated{From: o.From, To: o.To, Mode: mode, Backup: taken, Report: report}
	if err := a.ShowValue(m, func() error { c.printMigration(a, &m); return nil }); err != nil {
		return err
	}
	if report.Different > 0 || c.Final && !report.Finished {
		return cli.Silent(cli.ExitFailure)
	}
	return nil
}

func (c *MigrateStoreCmd) migrationMode() (string, error) {
	mode, given := "copy", 0
	for _, m := range []struct {
		name string
		on   bool
	}{{"final", c.Final}, {"dry-run", c.DryRun}, {"verify-only", c.VerifyOnly}} {
		if m.on {
			mode, given = m.name, given+1
		}
	}
	if given > 1 {
		return "", &cli.Usage{Text: "--final, --dry-run and --verify-only do not go together: give one of them",
			Help: "rouse migrate-store --help"}
	}
	if c.Batch < 1 || c.Batch > rouse.MaxBatch {
		return "", rouse.Refuse("batch", fmt.Sprint(c.Batch), "is out of bounds", fmt.Sprintf("give 1 to %d", rouse.MaxBatch))
	}
	return mode, nil
}

// printMigration prints the result and the next steps.
func (c *MigrateStoreCmd) printMigration(a *cli.App, m *migrated) {
	did := fmt.Sprintf("%s written, %s removed, %s written", cli.CountThings(m.Total.RowsWritten, "row"),
		cli.CountThings(m.Total.RowsRemoved, "row"), cli.CountThings(m.Total.RecordsWritten, "record"))
	has := fmt.Sprintf("%s and %s", cli.CountThings(m.Rows, "row"), cli.CountThings(m.Records, "record"))
	switch {
	case c.VerifyOnly && m.Different == 0:
		a.PrintLine("%s has all that %s has: %s", m.To, m.From, has)
	case c.VerifyOnly:
		a.PrintLine("%s differs from %s: %s", m.To, m.From, cli.CountThings(m.Different, "difference"))
	case c.DryRun && m.Same:
		a.PrintLine("%s has all that %s has: %s; nothing would be written", m.To, m.From, has)
	case c.DryRun:
		a.PrintLine("of %s, %s to %s there would be %s", has, m.From, m.To, did)
	default:
		a.PrintLine("copied %s to %s: %s, in %s", m.From, m.To, did, countPasses(m.Passes))
	}
	for _, d := range m.Differences {
		a.PrintLine("  %s", d)
	}
	if more := m.Different - int64(len(m.Differences)); more > 0 {
		a.PrintLine("  … and %d more", more)
	}
	if m.Forgot > 0 {
		a.PrintLine("%s also has %s, which %s has deleted since", m.To, cli.CountThings(m.Forgot, "record"), m.From)
	}
	switch {
	case c.VerifyOnly, c.DryRun:
	case m.Finished:
		a.PrintLine("verified: both have %s", has)
		a.PrintLine("now start the service on %s, and never again on %s", m.To, m.From)
	case c.Final:
		a.PrintNote(
			"%s still changes, or the copy is not what it should be: stop every service of it, and run the command again; do not serve %s yet", m.From, m.To)
	default:
		c.printNextSteps(a, m)
	}
}

// printNextSteps prints how to finish.
func (c *MigrateStoreCmd) printNextSteps(a *cli.App, m *migrated) {
	from, server := c.From, "the service of "+m.From
	switch {
	case m.Backup != "":
		from = m.Backup + ":…"
		a.PrintLine("that is %s as of the backup; run it again to come closer, or finish:", m.From)
	case m.Same:
		a.PrintLine("both have the same now; to finish:")
	default:
		a.PrintLine("%s goes on changing (%s by the last pass); to finish:", m.From,
			cli.CountThings(m.Last.RowsWritten+m.Last.RowsRemoved+m.Last.RecordsWritten, "change"))
	}
	a.PrintLine("  1. stop %s", server)
	a.PrintLine("  2. run rouse migrate-store %s %s --final", cli.RedactPasswords(from), m.To)
	a.PrintLine("  3. start the service on %s, and never again on %s", m.To, m.From)
	if m.Backup != "" {
		a.PrintLine("where %s is the store that the server was started with", from)
	}
}

func countPasses(n int) string {
	if n == 1 {
		return "1 pass"
	}
	return fmt.Sprintf("%d passes", n)
}

// migrateBar shows the progress of a copy: a bar for the rows of each pass, and one for the records, whose
// number is unknown. If it cannot be drawn, it prints a line for each step.
type migrateBar struct {
	a    *cli.App
	bar  *cli.Progress
	what string
}

func (b *migrateBar) showPassProgress(p migrate.Progress) {
	what := "rows"
	if p.Records {
		what = "records"
	}
	if p.Pass > 0 {
		what = fmt.Sprintf("pass %d, %s", p.Pass, what)
	}
	if what != b.what {
		b.clearPassBar()
		b.what, b.bar = what, b.a.NewProgress(what, p.Total)
		b.bar.Left = true
		if !b.a.ErrTTY && p.Pass > 0 { // for log files
			b.a.PrintNote("%s", what)
		}
	}
	b.bar.DrawBar(p.Done, p.Done)
}

func (b *migrateBar) clearPassBar() {
	if b.bar != nil {
		b.bar.ClearBar()
	}
}

// isServer reports whether FROM is a server, and returns its address.
func isServer(from string) (address string, ok bool) {
	address, ok = strings.CutPrefix(from, "http://")
	return strings.TrimSuffix(address, "/"), ok
}
