// Package move has the commands that take timers from one place to another: exports and imports, backups,
// copies of stores, and files that declare timers.
package move

import (
	"bufio"
	"context"
	"maps"
	"slices"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/flags"
)

// ExportCmd writes timers, and the calendars and limits that they may name.
type ExportCmd struct {
	flags.FilterFlags `embed:""`
	flags.StateFlag   `embed:""`
	AllNamespaces     bool `short:"A" help:"Those of all namespaces."`

	To    string `help:"Write timers in the format of another scheduler: crontab, k8s-cronjob, quartz or eventbridge." enum:",crontab,k8s-cronjob,quartz,eventbridge" default:"" placeholder:"KIND"`
	Image string `help:"With --to k8s-cronjob: image with curl, which calls targets." default:"curlimages/curl:8.11.1" placeholder:"IMAGE"`
	ARN   string `name:"arn" help:"With --to eventbridge: what is invoked, with the payload." placeholder:"ARN"`
	Role  string `help:"With --to eventbridge: ARN of the role that may invoke it." placeholder:"ARN"`
	Class string `help:"With --to quartz: class of jobs that call targets, with url, method, content-type and payload in their data." placeholder:"CLASS"`
}

func (ExportCmd) Help() string {
	return `Prints JSON Lines: a first line with the version of the format, calendars, limits, timers and dead letters with all of their
state, and a last line that counts them, by which import notices a file that was cut. The same timers give the same bytes. Timers that
change during the export are written as they are when they are read; for a consistent copy of a whole store see backup.

With --all-namespaces, the calendars and limits are those of namespaces that have timers.

With --to, timers that wait or are paused are written as another scheduler has them. What is lost of each is told on stderr. A timer
whose times the other one cannot have is left out, with the reason, and the command fails in the end; docs/moving-in.md explains it.

Examples:

    rouse export > timers.jsonl
    rouse export --all-namespaces > everything.jsonl
    rouse export --label team=billing --state scheduled > billing.jsonl
    rouse export --to crontab > crontab.txt
    rouse export --to eventbridge --arn arn:aws:lambda:eu-north-1:1:function:run --role arn:aws:iam::1:role/scheduler > schedules.json`
}

// exportStates are the states of an export by default: all but those for rouse's internal use.
var exportStates = append(slices.Clone(rouse.ListedStates), rouse.StateFiring, rouse.StateDead)

// Run writes them.
func (c *ExportCmd) Run(a *cli.App) error {
	if c.To != "" {
		return c.exportForeign(a)
	}
	if c.ARN+c.Role+c.Class != "" || a.Given["image"] {
		return &cli.Usage{Text: "--image, --arn, --role and --class go with --to", Help: "rouse export --help"}
	}
	q := c.FilterQuery(a)
	if c.AllNamespaces {
		q.Namespace = ""
	} else if err := rouse.CheckNamespace(q.Namespace); err != nil {
		return err
	}
	var err error
	if q.States, err = c.ParseStates(); err != nil {
		return err
	}
	if len(q.States) == 0 {
		q.States = exportStates
	}
	return a.WithClient(func(s *client.Client) error {
		w := bufio.NewWriterSize(a.Out, 1<<16)
		e := exporting{a: a, s: s, w: w, end: exportEnd{Export: "end"}}
		if err := e.exportTimers(q); err != nil {
			_ = w.Flush() // the missing last line marks the file as incomplete
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
		a.PrintNote("exported %s, %s and %s", cli.CountThings(e.end.Timers, "timer"),
			cli.CountThings(e.end.Calendars, "calendar"), cli.CountThings(e.end.Limits, "limit"))
		return nil
	})
}

// exporting is an export in progress.
type exporting struct {
	a   *cli.App
	s   *client.Client
	w   *bufio.Writer
	end exportEnd
}

func (e *exporting) exportTimers(q rouse.Query) error {
	if err := e.writeExportLine(exportHead{exportFormat, exportVersion}); err != nil {
		return err
	}
	namespaces := []string{q.Namespace}
	if q.Namespace == "" {
		var err error
		if namespaces, err = e.findNamespaces(q); err != nil {
			return err
		}
	}
	for _, ns := range namespaces {
		if err := e.exportCalendars(ns); err != nil {
			return err
		}
		if err := e.exportLimits(ns); err != nil {
			return err
		}
	}
	bar := e.a.NewProgress("timers", 0)
	defer bar.ClearBar()
	for t, err := range e.s.List(e.a.Ctx, q) {
		if err != nil {
			return err
		}
		if err := e.writeExportLine(api.ExactTimerOf(&t)); err != nil {
			return err
		}
		e.end.Timers++
		bar.DrawBar(e.end.Timers, e.end.Timers)
	}
	return e.writeExportLine(e.end)
}

// findNamespaces returns the namespaces with matching timers.
func (e *exporting) findNamespaces(q rouse.Query) ([]string, error) {
	seen := map[string]bool{}
	for t, err := range e.s.List(e.a.Ctx, q) {
		if err != nil {
			return nil, err
		}
		seen[t.Key.Namespace] = true
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// exportCalendars writes the calendars of a namespace.
func (e *exporting) exportCalendars(namespace string) error {
	var list []rouse.Calendar
	if err := e.callWithinTimeout(func(ctx context.Context) (err error) {
		list,
			err = e.s.Calendars(ctx, namespace)
		return err
	}); err != nil {
		return err
	}
	slices.SortFunc(list, func(a,
		b rouse.Calendar) int {
		return rouse.Key{Name: a.Name}.Compare(rouse.Key{Name: b.Name})
	})
	for _, c := range list {
		if c.Name == rouse.Weekends {
			continue // every namespace has it
		}
		var whole rouse.Calendar
		if err := e.callWithinTimeout(func(ctx context.Context) (err error) {
			whole,
				err = e.s.Calendar(ctx, namespace, c.Name)
			return err
		}); err != nil {
			return cli.AddObjectName("calendar", c.Name, err)
		}
		if err := e.writeExportLine(exportCalendar{"calendar", api.CalendarOf(&whole)}); err != nil {
			return err
		}
		e.end.Calendars++
	}
	return nil
}

// exportLimits writes the limits of a namespace.
func (e *exporting) exportLimits(namespace string) error {
	return e.callWithinTimeout(func(ctx context.Context) error {
		list, err := e.s.Limits().List(ctx, namespace)
		if err != nil {
			return err
		}
		for i := range list.Limits {
			if err := e.writeExportLine(exportLimit{"limit", api.LimitOf(&list.Limits[i])}); err != nil {
				return err
			}
			e.end.Limits++
		}
		return nil
	})
}

// callWithinTimeout makes one call with the timeout.
func (e *exporting) callWithinTimeout(do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(e.a.Ctx, e.a.Flags.Timeout)
	defer cancel()
	return do(ctx)
}

func (e *exporting) writeExportLine(v any) error {
	body, err := api.Encode(v)
	if err != nil {
		return err
	}
	_, err = e.w.Write(append(body, '\n'))
	return err
}
