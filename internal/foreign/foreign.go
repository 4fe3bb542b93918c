// Package foreign reads files of other schedulers as timers of rouse, and reports how each timer differs from
// its entry: the same words often do not mean the same.
package foreign

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/declare"
	"github.com/rousehq/rouse/schedule"
)

// Entry is one entry of a file.
type Entry struct {
	Line   int    // where it is: a line, or, where HasLines returns false, its number among the entries from 1
	Name   string // of its timer
	Spec   rouse.Spec
	Paused bool     // it is suspended there
	Late   bool     // the source keeps it until it is done: it is due, even if its time has passed
	Passed bool     // no time of it is left: a timer would fire at once, or never, so that none is made
	Notes  []string // how the timer differs from the entry
	Err    error    // why there is no timer for it

	Due rouse.Instant // when it is due first, after CheckTimers

	over error // its payload is left out: those of the file have too much
}

// Options are the settings that a file does not contain.
type Options struct {
	// Target is where fires go, for entries whose own target rouse cannot reach: "{name}" in it stands for
	// the name of the timer. Empty: such entries are refused.
	Target string
	// Timezone is that of entries that name none, as an IANA name; empty is UTC. Sources that have such
	// entries in UTC do not use it.
	Timezone string
	// File is the path of the file, which is the name of some entries; empty if it has none.
	File string
	// Now is when the file is read.
	Now rouse.Instant

	leftOut []string // objects of the file that are no entries, up to maxLeftOut of them
	unnamed int      // how many more there are
	notes   []string // on the file
	aliased int      // bytes that the aliases of its YAML add to it
	shared  int      // bytes of the payloads of setPayload
}

// maxLeftOut bounds the objects that are named as left out.
const maxLeftOut = 20

// leaveOut names an object of the file that is no entry, as it has no time.
func (o *Options) leaveOut(what string) {
	if len(o.leftOut) == maxLeftOut {
		o.unnamed++
		return
	}
	o.leftOut = append(o.leftOut, what)
}

// allLeftOut names the objects that are left out.
func (o *Options) allLeftOut() string {
	text := strings.Join(o.leftOut, ", ")
	if o.unnamed > 0 {
		text += fmt.Sprintf(", and %d more", o.unnamed)
	}
	return text
}

// noteZone notes that Timezone is not used, if it is given: all entries have zones of their own.
func (o *Options) noteZone(why string) {
	if o.Timezone != "" {
		o.notes = append(o.notes, "the time zone "+o.Timezone+" is not used: "+why+".")
	}
}

// MaxBytes bounds a file.
const MaxBytes = 16 << 20

// format is a kind of file.
type format struct {
	read  func(in []byte, o *Options) ([]Entry, error)
	notes []string // on all entries
	lines bool     // an entry begins with a line, or is one

	prefix string // of its expressions in rouse, which those of its files do not have
}

var formats = map[string]format{
	"crontab":         {readCrontab(false), cronNotes, true, ""},
	"system-crontab":  {readCrontab(true), cronNotes, true, ""},
	"k8s-cronjob":     {readCronJobs, cronJobNotes, false, ""},
	"eventbridge":     {readEventBridge, eventBridgeNotes, false, "aws:"},
	"cloud-scheduler": {readCloudScheduler, cloudSchedulerNotes, false, ""},
	"quartz":          {readQuartz, quartzNotes, false, "quartz:"},
	"river":           {readRiver, riverNotes, true, ""},
	"asynq":           {readAsynq, asynqNotes, true, ""},
	"pg_cron":         {readPgCron, pgCronNotes, true, ""},
	"celery-beat":     {readCelery, celeryNotes, false, ""},
	"sidekiq-cron":    {readSidekiqCron, sidekiqCronNotes, false, ""},
	"systemd":         {readSystemd, systemdNotes, true, ""},
}

// Formats returns the names of the kinds of files, in order.
func Formats() []string { return slices.Sorted(maps.Keys(formats)) }

// HasLines reports whether the entries of a kind have lines. Those of the others have numbers.
func HasLines(kind string) bool { return formats[kind].lines }

// Numbered returns the noun for the numbers of entries.
func Numbered(kind string) string {
	if HasLines(kind) {
		return "line"
	}
	return "entry"
}

// Object returns the timer of an entry as it is declared.
func (e *Entry) Object() declare.Object {
	o := declare.Object{Name: e.Name, Spec: e.Spec, Late: e.Late}
	if e.Paused {
		o.Paused = "it was suspended where it was imported from"
	}
	return o
}

// CheckTimers finds out when the timers of entries are due first in a namespace, and sets Err of those that a
// server would refuse, or that have the name of one before them. Of an entry that has passed no timer is
// made: neither its name nor its errors matter.
func CheckTimers(kind string, entries []Entry, namespace string, now rouse.Instant) {
	lines := map[string]int{}
	for i := range entries {
		e := &entries[i]
		if e.Err != nil {
			continue
		}
		due, err := e.firstDue(namespace, now)
		if e.Due = due; e.Passed {
			continue
		}
		o := e.Object()
		e.Err = cmp.Or(o.Check(namespace, now), err)
		if first, twice := lines[e.Name]; twice && e.Err == nil {
			e.Err = rouse.Refuse("name", e.Name, fmt.Sprintf("is that of the timer of %s %d, too", Numbered(kind), first),
				"import them apart, into two namespaces")
		}
		if e.Err == nil {
			lines[e.Name] = e.Line
		}
	}
}

// firstDue returns when the timer of an entry is due first, or why a server refuses it.
func (e *Entry) firstDue(namespace string, now rouse.Instant) (rouse.Instant, error) {
	key := rouse.Key{Namespace: namespace, Name: e.Name}
	s, err := schedule.Compile(&e.Spec, rouse.ScheduleInput{Key: key, Anchor: now})
	if err != nil {
		return 0, err
	}
	t, err := rouse.NewTimer(key, e.Spec, now, now, s)
	return t.Due, err
}

// Read reads a file of a kind. notes are on all of its entries. The specs have been checked, except for
// limits that only a server knows. The error is that the file cannot be read at all.
func Read(kind string, in []byte, o Options) (entries []Entry, notes []string, err error) {
	f, ok := formats[kind]
	switch {
	case !ok:
		return nil, nil, rouse.Refuse("from", kind, "is no kind of file", "give one of "+strings.Join(Formats(), ", "))
	case len(in) > MaxBytes:
		return nil, nil, rouse.Refuse("file", "", fmt.Sprintf("has more than %d bytes", MaxBytes), "import it in parts")
	}
	in = bytes.TrimPrefix(in, []byte("\xef\xbb\xbf")) // the mark of UTF-8, which editors of Windows write
	entries, err = f.read(in, &o)
	if err != nil {
		return nil, nil, err
	}
	for i := range entries {
		e := &entries[i]
		wrong := e.fitTimes(&o)
		e.Err = cmp.Or(e.Err, e.over)
		if e.Err == nil {
			e.Err = f.inOwnForm(cmp.Or(e.completeSpec(&o), wrong))
		}
		if e.Passed {
			e.Err = nil // no timer is made: its errors do not matter
		}
	}
	notes = slices.Concat(f.notes, o.notes)
	if len(o.leftOut) > 0 {
		notes = append(notes, "left out: "+o.allLeftOut()+".")
	}
	return entries, notes, nil
}

// inOwnForm returns an error about an expression without the prefix, as the file has it.
func (f *format) inOwnForm(err error) error {
	var inv *rouse.Invalid
	if f.prefix == "" || !errors.As(err, &inv) {
		return err
	}
	out := &rouse.Invalid{Problems: slices.Clone(inv.Problems)}
	for i := range out.Problems {
		p := &out.Problems[i]
		p.Value = strings.TrimPrefix(p.Value, f.prefix)
		p.Wrong, p.Cure = strings.ReplaceAll(p.Wrong, `"`+f.prefix, `"`), strings.ReplaceAll(p.Cure, `"`+f.prefix, `"`)
	}
	return out
}

// completeSpec adds the target, if the entry has none that rouse can reach, and checks the spec.
func (e *Entry) completeSpec(o *Options) error {
	if e.Spec.Target == "" {
		if o.Target == "" {
			return rouse.Refuse("target", "", "is missing: rouse cannot do by itself what this entry does",
				"give --target, a URL that does it")
		}
		e.Spec.Target = strings.ReplaceAll(o.Target, "{name}", url.PathEscape(e.Name))
	}
	if err := (rouse.Key{Namespace: "default", Name: e.Name}).Check(); err != nil {
		return err
	}
	switch s := &e.Spec; { // the next import must find the timers that it could create again
	case e.Late && s.Keep >= 0:
		s.Keep = max(s.Keep, 24*time.Hour)
	case s.Keep != 0:
	case strings.HasPrefix(s.Schedule, "@after "), s.TTL != 0, s.MaxOccurrences != 0: // counted from the creation
		s.Keep = -1
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
		e.noteDifference(
			"its jitter is cut to less than the shortest interval of its schedule, so that occurrences keep their order.")
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

// readTime reads a time of a field, which may have no zone, and be of any year.
func (o *Options) readTime(field, text string) (time.Time, error) {
	zone, err := time.LoadLocation(o.Timezone)
	if err != nil {
		return time.Time{}, rouse.Refuse("timezone", o.Timezone, "is no time zone",
			"give an IANA name such as Europe/Stockholm")
	}
	at, err := readTime(text, zone)
	if err != nil {
		return at, rouse.Refuse(field, text, "is no time", "write it as 2027-01-31T09:00:00Z")
	}
	return at, nil
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
		e.noteDifference("its timeout of %.0f s is cut to %v: for longer work answer 202, and report.", d.Seconds(), longest)
	}
}

// maxShared bounds the payloads of a file together in which each entry gets a copy of shared parts.
const maxShared = 64 << 20

// setPayload makes the JSON of a value the payload of an entry, of which a part is shared with other entries.
func (e *Entry) setPayload(v any, o *Options) {
	e.Spec.ContentType = "application/json"
	if o.shared <= maxShared {
		e.Spec.Payload = encodePayload(v)
		o.shared += len(e.Spec.Payload)
	}
	if o.shared > maxShared {
		e.Spec.Payload = nil
		e.over = rouse.Refuse("payload", "",
			fmt.Sprintf("with those before it, exceeds %d bytes: each timer gets a copy of what its entry shares with others",
				maxShared),
			"import the file in parts, or take out what the target does not need")
	}
}

// noteDifference adds a difference.
func (e *Entry) noteDifference(format string, args ...any) {
	e.Notes = append(e.Notes, fmt.Sprintf(format, args...))
}

// nameApart gives entries of one name different ones, by a hash of the text that distinguishes them. Names do
// not depend on the order of a file: they stay when entries before them come and go.
func nameApart(entries []Entry, apart func(i int) string) {
	taken := map[string]int{}
	for i := range entries {
		taken[entries[i].Name]++
	}
	for i := range entries {
		if e := &entries[i]; taken[e.Name] > 1 {
			e.Name += "-" + nameHash(apart(i))
		}
	}
}

// nameHash returns a short hash, for names.
func nameHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}
