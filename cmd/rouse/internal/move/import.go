package move

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/foreign"
)

// ImportCmd imports the output of export.
type ImportCmd struct {
	File   string `arg:"" help:"What export, or list or get with --json, wrote, or with --from another scheduler; - is stdin. From dapr-etcd: HOST:PORT of the etcd."`
	Mode   string `help:"Without --from, what becomes of a name that is taken: create-only refuses it, create-or-replace replaces it, replace-only refuses one that is not taken." enum:"create-only,create-or-replace,replace-only" default:"create-only" placeholder:"MODE"`
	DryRun bool   `help:"Validate the file, and change nothing; needs no server. With --from and --owner: print what would be changed, and end with 2 if anything would."`

	From     string `help:"What wrote the file, if it was not rouse: crontab, system-crontab, k8s-cronjob, eventbridge, cloud-scheduler, quartz, systemd, pg_cron, celery-beat, sidekiq-cron, asynq or river; or dapr-etcd." enum:",crontab,system-crontab,k8s-cronjob,eventbridge,cloud-scheduler,quartz,systemd,pg_cron,celery-beat,sidekiq-cron,asynq,river,dapr-etcd" default:"" placeholder:"KIND"`
	Target   string `help:"With --from: the target of entries that have none which rouse can reach; {name} in it is the name of the timer." placeholder:"URL"`
	Timezone string `help:"With --from: the time zone of entries that name none, as an IANA name; default UTC." placeholder:"ZONE"`
	Owner    string `help:"With --from: name of the set of timers, as apply has it; default: the KIND. Files that are imported apart need a name each." placeholder:"NAME"`
	Prune    bool   `help:"With --from and --owner: delete the timers of the set that are not in the file."`
}

func (ImportCmd) Help() string {
	return `Timers and dead letters are written with their state, into the namespaces that they name; calendars and limits, which
come first, are replaced. Timers begin a new generation; dead letters keep their fire ids. Each line has an outcome of its own. A file that was cut is
refused before anything is changed, and from stdin when its end is missing.

With --from, the file is that of another scheduler, and its timers are applied to --namespace, as rouse apply does: the same file again
changes nothing, and a changed one what differs. An entry that cannot be a timer is reported, and the others are applied. What each of them
does otherwise than there is printed; docs/moving-in.md explains it, and how the entries of each are exported. Look at it with
--dry-run first. Jobs in the etcd of Dapr's scheduler are read from there, as dapr-import --etcd does, into namespaces of their own.

Examples:

    rouse import timers.jsonl --dry-run
    rouse import timers.jsonl --mode create-or-replace
    rouse export -A --server old:7411 | rouse import - --server new:7411
    rouse import crontab.txt --from crontab --target http://127.0.0.1:8000/run --timezone Europe/Stockholm --dry-run
    rouse import crontab.txt --from crontab --target http://127.0.0.1:8000/run --owner web1 --prune
    rouse import river.jsonl --from river --target http://127.0.0.1:8000/insert --dry-run
    rouse import 127.0.0.1:2379 --from dapr-etcd --dry-run`
}

var importModes = map[string]client.Mode{"create-only": client.CreateOnly, "create-or-replace": client.CreateOrReplace,
	"replace-only": client.ReplaceOnly}

// Run imports.
func (c *ImportCmd) Run(a *cli.App) error {
	switch c.From {
	case "":
	case "dapr-etcd":
		return c.daprEtcd(a)
	default:
		return c.importForeign(a)
	}
	if c.Target+c.Timezone+c.Owner != "" || c.Prune {
		return &cli.Usage{Text: "--target, --timezone, --owner and --prune go with --from: what rouse exported has targets, zones and labels", Help: "rouse import --help"}
	}
	in, total := a.In, int64(0)
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return rouse.Refuse("file", c.File, "cannot be read: "+cli.BareFileError(err), "name a file that export wrote")
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			total = info.Size()
			if err := readExport(f, c.File, func(exportLine) error { return nil }); err != nil {
				return err
			}
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				return err
			}
		}
		in = f
	}
	did := "imported"
	if c.DryRun {
		did = "good"
	}
	i := &importing{a: a, t: a.NewTally(did, "line", total), mode: importModes[c.Mode]}
	i.timers = foreign.Importer{Report: i.countImported, MaxTimers: cli.BulkTimers, MaxBytes: cli.BulkBytes}
	if c.DryRun {
		if err := readExport(in, c.File, i.importLine); err != nil {
			return err
		}
		return i.t.PrintBulkTotals(nil)
	}
	return a.WithClient(func(s *client.Client) error {
		i.s = s
		i.timers.Write = func(timers []rouse.Timer) ([]client.Created, error) { return i.sendImport(timers, nil) }
		err := readExport(in, c.File, i.importLine)
		if err == nil {
			err = i.timers.Flush()
		}
		if isInvalidInput(err) { // stdin was used up and rows were imported: that is not a refusal
			err = errors.New(err.Error())
		}
		return i.t.PrintBulkTotals(err)
	})
}

// importing is an import in progress.
type importing struct {
	a      *cli.App
	s      *client.Client // nil: nothing is written
	t      *cli.Tally
	mode   client.Mode
	timers foreign.Importer
	done   int64 // bytes of the file read so far
}

// importLine handles one line of the file.
func (i *importing) importLine(l exportLine) error {
	i.done = l.done
	switch l.kind {
	case "calendar":
		return i.importCalendar(&l)
	case "limit":
		return i.importLimit(&l)
	}
	t, err := l.parseTimer()
	return i.timers.Add(foreign.Resumed{Timer: t, Line: l.number, Size: len(l.body), Err: err})
}

// countImported counts and prints the outcome of a timer.
func (i *importing) countImported(r *foreign.Resumed, created client.Created) error {
	err := i.t.ReportLine(r.Line, created)
	if i.s != nil {
		i.t.DrawProgress(i.done)
	}
	return err
}

// importCalendar sends a calendar alone, so that it has its own outcome.
func (i *importing) importCalendar(l *exportLine) error {
	calendar, err := l.readCalendar()
	if err == nil && i.s != nil {
		_, err = i.sendImport(nil, []rouse.Calendar{calendar})
		if err != nil && !isInvalidInput(err) {
			return err
		}
	}
	return i.t.ReportLine(l.number, client.Created{Name: calendar.Name, Err: err})
}

// importLimit makes a limit, or replaces the one of its name, before the timers that name it.
func (i *importing) importLimit(l *exportLine) error {
	limit, err := l.readLimit()
	if err == nil && i.s != nil {
		ctx, cancel := context.WithTimeout(i.a.Ctx, i.a.Flags.Timeout)
		defer cancel()
		if _, err = i.s.Limits().Put(ctx, limit); err != nil && !isInvalidInput(err) {
			return err
		}
	}
	return i.t.ReportLine(l.number, client.Created{Name: limit.Name, Err: err})
}

// isInvalidInput reports whether an error refuses the input, so that nothing was changed.
func isInvalidInput(err error) bool {
	_, ok := errors.AsType[*rouse.Invalid](err)
	return ok
}

func (i *importing) sendImport(timers []rouse.Timer, calendars []rouse.Calendar) ([]client.Created, error) {
	ctx, cancel := context.WithTimeout(i.a.Ctx, i.a.Flags.Timeout)
	defer cancel()
	return i.s.Import(ctx, i.mode, timers, calendars)
}
