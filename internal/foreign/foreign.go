// Package foreign reads files of other schedulers as timers of rouse, and reports how each timer differs from
// its entry: the same words often do not mean the same.
package foreign

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/schedule"
)

// Entry is one entry of a file.
type Entry struct {
	Line   int    // where it is: a line, or a number from 1 where the file has no meaningful lines
	Name   string // of its timer
	Spec   rouse.Spec
	Paused bool     // it is suspended there
	Late   bool     // the source keeps it until it is done: it is due, even if its time has passed
	Passed bool     // no time of it is left: a timer would fire at once, or never, so that none is made
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
	// Now is when the file is read.
	Now rouse.Instant

	leftOut []string // objects of the file that are no entries
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
		e := &entries[i]
		wrong := e.fitTimes(&o)
		if e.Err == nil {
			e.Err = cmp.Or(e.finish(&o), wrong)
		}
		if e.Passed {
			e.Err = nil // no timer is made: what is wrong with it does not matter
		}
	}
	notes = f.notes
	if len(o.leftOut) > 0 {
		notes = append(slices.Clone(notes), "left out: "+strings.Join(o.leftOut, ", ")+".")
	}
	return entries, notes, nil
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
	switch s := &e.Spec; { // the next import must find what it could create again
	case s.Keep != 0:
	case strings.HasPrefix(s.Schedule, "@after "), s.TTL != 0, s.MaxOccurrences != 0: // counted from the creation
		s.Keep = -1
	case e.Late:
		s.Keep = 24 * time.Hour
	}
	return e.Spec.Check()
}

// fitTimes finds out whether the times of an entry have passed, and makes its jitter fit between them.
func (e *Entry) fitTimes(o *Options) error {
	in := rouse.ScheduleInput{Key: rouse.Key{Namespace: "default", Name: e.Name}, Anchor: o.Now}
	s, err := schedule.Compile(&e.Spec, in)
	if err != nil {
		return err
	}
	from := o.Now
	if !e.Spec.Recurring() {
		from = 0
	}
	if err := e.Spec.CheckCost(from, s); err != nil {
		return err
	}
	if e.Passed = !e.Late && e.Spec.HasPassed(s, o.Now); e.Passed || e.Spec.Jitter == 0 || !e.Spec.Recurring() {
		return nil
	}
	due, ok := s.Next(from)
	if !ok {
		return nil // the check of the timer explains why
	}
	if shortest, _ := rouse.ShortestInterval(due, s); shortest > time.Millisecond && e.Spec.Jitter >= shortest {
		e.Spec.Jitter = shortest - time.Millisecond
		e.note("its jitter is cut to less than the shortest interval of its schedule, so that occurrences keep their order.")
	}
	return nil
}

// readTime reads a time of another scheduler: of any year, also one that no instant has, and perhaps without
// an offset.
func readTime(text string, zone *time.Location) (at time.Time, err error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00"} {
		if at, err = time.ParseInLocation(layout, text, zone); err == nil {
			break
		}
	}
	return at, err
}

// startAt sets when the schedule begins. A beginning that has passed decides only when an interval is due
// after that, also one that is too early for an instant.
func (e *Entry) startAt(at time.Time, every time.Duration) {
	start, step := rouse.Reached(at), rouse.Instant(every/time.Millisecond)
	if early := rouse.MinInstant - start; early > 0 {
		if step <= 0 {
			return // other schedules have the same times without it
		}
		start += (early + step - 1) / step * step
	}
	e.Spec.Start = start
}

// endAt sets when the schedule ends. An instant is of the years 2000 to 9998.
func (e *Entry) endAt(at time.Time) {
	if end := rouse.Reached(at); end <= rouse.MaxInstant {
		e.Spec.End = max(rouse.MinInstant, end)
	}
}

// setTimeout sets how long an attempt may take.
func (e *Entry) setTimeout(d time.Duration) {
	const longest = time.Hour
	if e.Spec.Retry.Timeout = min(d, longest); d > longest {
		e.note("its timeout of %.0f s is cut to %v: for longer work answer 202, and report.", d.Seconds(), longest)
	}
}

// note adds a difference.
func (e *Entry) note(format string, args ...any) {
	e.Notes = append(e.Notes, fmt.Sprintf(format, args...))
}

// nameApart gives entries of one name different ones, by a hash of what tells them apart. Names do not depend
// on the order of a file: they stay when entries before them come and go.
func nameApart(entries []Entry, apart func(i int) string) {
	taken := map[string]int{}
	for i := range entries {
		taken[entries[i].Name]++
	}
	for i := range entries {
		if e := &entries[i]; taken[e.Name] > 1 {
			e.Name += "-" + hashOf(apart(i))
		}
	}
}

// hashOf returns a short hash, for names.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}
