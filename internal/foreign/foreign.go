// Package foreign reads files of other schedulers as timers of rouse, and reports how each timer differs from
// its entry: the same words often do not mean the same.
package foreign

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rousehq/rouse"
)

// Entry is one entry of a file.
type Entry struct {
	Line   int    // where it is: a line, or a number from 1 where the file has no meaningful lines
	Name   string // of its timer
	Spec   rouse.Spec
	Paused bool     // it is suspended there
	Notes  []string // how the timer differs from the entry
	Err    error    // why there is no timer for it
}

// Options are what a file does not say.
type Options struct {
	// Target is where fires go, for entries whose own target rouse cannot reach: "{name}" in it stands for
	// the name of the timer. Empty: such entries are refused.
	Target string
	// Timezone is that of entries that name none, as an IANA name; empty is UTC.
	Timezone string
	// Now is after single times that are past, of which there is no timer.
	Now rouse.Instant
}

// MaxBytes bounds a file.
const MaxBytes = 16 << 20

// format is a kind of file.
type format struct {
	read  func(in []byte, o *Options) ([]Entry, error)
	notes []string // on all entries
}

var formats = map[string]format{
	"crontab":         {readCrontab(false), cronNotes},
	"system-crontab":  {readCrontab(true), cronNotes},
	"k8s-cronjob":     {readCronJobs, cronJobNotes},
	"eventbridge":     {readEventBridge, eventBridgeNotes},
	"cloud-scheduler": {readCloudScheduler, cloudSchedulerNotes},
	"quartz":          {readQuartz, quartzNotes},
	"river":           {readRiver, riverNotes},
	"asynq":           {readAsynq, asynqNotes},
	"pg_cron":         {readPgCron, pgCronNotes},
	"celery-beat":     {readCelery, celeryNotes},
	"sidekiq-cron":    {readSidekiqCron, sidekiqCronNotes},
	"systemd":         {readSystemd, systemdNotes},
}

// Formats returns the names of the kinds of files, in order.
func Formats() []string { return slices.Sorted(maps.Keys(formats)) }

// Read reads a file of a kind. notes are on all of its entries. The specs have been checked, but for what
// only a server knows. The error is that the file cannot be read at all.
func Read(kind string, in []byte, o Options) (entries []Entry, notes []string, err error) {
	f, ok := formats[kind]
	switch {
	case !ok:
		return nil, nil, rouse.Refuse("from", kind, "is no kind of file", "give one of "+strings.Join(Formats(), ", "))
	case len(in) > MaxBytes:
		return nil, nil, rouse.Refuse("file", "", fmt.Sprintf("has more than %d bytes", MaxBytes), "import it in parts")
	}
	entries, err = f.read(in, &o)
	if err != nil {
		return nil, nil, err
	}
	for i := range entries {
		if e := &entries[i]; e.Err == nil {
			e.Err = e.finish(&o)
		}
	}
	return entries, f.notes, nil
}

// finish adds the target, if the entry has none that rouse can reach, and checks the spec.
func (e *Entry) finish(o *Options) error {
	if e.Spec.Target == "" {
		if o.Target == "" {
			return rouse.Refuse("target", "", "is missing: rouse cannot do by itself what this entry does", "give --target, a URL that does it")
		}
		e.Spec.Target = strings.ReplaceAll(o.Target, "{name}", url.PathEscape(e.Name))
	}
	if err := (rouse.Key{Namespace: "default", Name: e.Name}).Check(); err != nil {
		return err
	}
	return e.Spec.Check()
}

// once sets a single time.
func (e *Entry) once(field string, at rouse.Instant, o *Options) error {
	e.Spec.Schedule = at.String()
	if at <= o.Now {
		return rouse.Refuse(field, at.String(), "is past", "leave it out, or give it another time there")
	}
	return nil
}

// note adds a difference.
func (e *Entry) note(format string, args ...any) {
	e.Notes = append(e.Notes, fmt.Sprintf(format, args...))
}

// unique gives entries of one name different ones, by a number in the order of the file.
type unique map[string]int

func (u unique) name(base string) string {
	u[base]++
	if n := u[base]; n > 1 {
		return base + "-" + strconv.Itoa(n)
	}
	return base
}
