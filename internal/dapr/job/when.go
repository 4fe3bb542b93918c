package job

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
)

// every0 is how often a job ticks whose interval is none, which is taken, and means as often as can be.
const every0 = 100 * time.Millisecond

// unsure is by how much an engine may be behind the clock of its store: a tick so much later is surely not early.
const unsure = 2 * time.Millisecond

// recurrence is what a schedule says: an interval, or cron in a time zone.
type recurrence struct {
	every time.Duration
	cron  string
	zone  string
}

// when fills in when the job's timer is due.
func (t *Timer) when(j *schedulerv1.Job, now rouse.Instant) error {
	if j.Schedule == nil {
		return t.once(j, now)
	}
	r, err := readSchedule(*j.Schedule)
	if err != nil {
		return err
	}
	s := &t.Spec
	s.Schedule, s.Timezone = r.cron, r.zone
	if r.every != 0 {
		s.Schedule = "@every " + r.every.String()
	} else if r.zone != "" {
		s.DST = "skip,both"
	}
	due := rouse.Instant(0)
	if j.DueTime != nil {
		m, err := readMoment("due_time", *j.DueTime)
		if err != nil {
			return err
		}
		from := now
		if m.at.IsZero() {
			from = now.Add(unsure)
		}
		due = m.from(from)
		if s.Start = due; r.cron != "" {
			s.Also = []string{due.String()}
		}
		t.First = due
	}
	if err := t.until(j, due, now); err != nil {
		return err
	}
	return t.count(j, r, due, now)
}

// once is when for a job without a schedule.
func (t *Timer) once(j *schedulerv1.Job, now rouse.Instant) error {
	switch {
	case j.DueTime == nil:
		return rouse.Refuse("schedule", "", "is missing, and so is due_time", "give one of them, or both")
	case j.Repeats != nil && *j.Repeats != 1:
		return rouse.Refuse("repeats", strconv.FormatUint(uint64(*j.Repeats), 10), "needs a schedule", "give one, or leave repeats out")
	case j.Ttl != nil:
		return rouse.Refuse("ttl", *j.Ttl, "needs a schedule", "give one, or leave ttl out")
	}
	m, err := readMoment("due_time", *j.DueTime)
	if err != nil {
		return err
	}
	d, ok := m.elapsed()
	switch at := m.from(now); {
	case at <= now:
		t.Spec.Schedule = "@after 0s"
	case ok && at < rouse.MaxInstant:
		t.Spec.Schedule = "@after " + roundUp(d).String()
	default:
		t.Spec.Schedule = at.String()
	}
	return nil
}

// roundUp returns a duration of whole milliseconds, as those of timers are.
func roundUp(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// until fills in the end by the time to live. A tick at the very end still fires.
func (t *Timer) until(j *schedulerv1.Job, due, now rouse.Instant) error {
	if j.Ttl == nil {
		return nil
	}
	m, err := readMoment("ttl", *j.Ttl)
	if err != nil {
		return err
	}
	d, relative := m.elapsed()
	switch {
	case due != 0:
		end := m.from(due)
		if end < due {
			return rouse.Refuse("ttl", *j.Ttl, "ends before due_time, "+due.String(), "give a later end")
		}
		t.end(end)
	case relative && d < 0:
		t.Over = true
	case relative && d < longTTL: // counted from when the timer is created, as its schedule is
		t.Spec.TTL = d + time.Millisecond
	case relative:
	default:
		t.end(m.from(now.Add(unsure)))
		t.Over = t.Spec.End != 0 && t.Spec.End <= now
	}
	return nil
}

// longTTL is as good as none.
const longTTL = 190 * 366 * 24 * time.Hour

// end makes the given time the last at which there may be a tick.
func (t *Timer) end(last rouse.Instant) {
	if last < rouse.MaxInstant {
		t.Spec.End = last + 1
	}
}

// count fills in how many ticks there are.
func (t *Timer) count(j *schedulerv1.Job, r recurrence, due, now rouse.Instant) error {
	if j.Repeats == nil {
		return nil
	}
	n := uint64(*j.Repeats)
	text := strconv.FormatUint(n, 10)
	switch {
	case n == 0:
		return rouse.Refuse("repeats", text, "is no number of ticks", "give 1 or more, or leave repeats out")
	case n <= rouse.MaxOccurrences:
		t.Spec.MaxOccurrences = n
	case r.every == 0:
		return rouse.Refuse("repeats", text, "is too many to count for a cron schedule", fmt.Sprintf("give at most %d, or a ttl", rouse.MaxOccurrences))
	case r.every > longTTL/time.Duration(n): // for ever
	case due != 0:
		last := due.Add(time.Duration(n-1) * r.every)
		if t.Spec.End == 0 || t.Spec.End > last {
			t.end(last)
		}
	case t.Spec.End != 0: // between the last tick and the one after it, whenever the timer is created
		if last := now.Add(time.Duration(n)*r.every + r.every/2); t.Spec.End > last {
			t.end(last)
		}
	default:
		last := time.Duration(n)*r.every + time.Millisecond
		if t.Spec.TTL == 0 || t.Spec.TTL > last {
			t.Spec.TTL = last
		}
	}
	return nil
}

// zonePrefixes begin a schedule that names its time zone.
var zonePrefixes = [...]string{"TZ=", "CRON_TZ="}

// Zoned reports whether a schedule names its time zone.
func Zoned(schedule string) bool {
	return strings.HasPrefix(schedule, zonePrefixes[0]) || strings.HasPrefix(schedule, zonePrefixes[1])
}

// readSchedule reads an interval, a word, or cron.
func readSchedule(text string) (r recurrence, err error) {
	refuse := func(wrong string) (recurrence, error) {
		return recurrence{}, rouse.Refuse("schedule", text, wrong,
			`give "@every 90s", "@daily" or another word, or six cron fields such as "0 30 2 * * mon-fri"; "TZ=Europe/Berlin " may stand before cron`)
	}
	rest := text
	for _, prefix := range zonePrefixes {
		after, ok := strings.CutPrefix(text, prefix)
		if !ok {
			continue
		}
		if r.zone, rest, ok = strings.Cut(after, " "); !ok || strings.TrimSpace(rest) == "" {
			return refuse("names a time zone, and nothing after it")
		}
		rest = strings.TrimSpace(rest)
	}
	switch d, every := strings.CutPrefix(rest, "@every "); {
	case every && rest != text:
		return refuse("has a time zone before an interval, which is the same in all of them")
	case every:
		if r.every, err = time.ParseDuration(d); err != nil {
			return refuse("has no duration after @every")
		}
		if r.every < 0 {
			return refuse("has a negative interval")
		}
		if r.every = roundUp(r.every); r.every == 0 {
			r.every = every0
		}
		return r, nil
	case strings.HasPrefix(rest, "@"):
		fields, ok := cronWords[rest]
		if !ok {
			return refuse("is a word that is not known")
		}
		rest = fields
	}
	var wrong string
	if r.cron, wrong = translateCron(strings.Fields(rest)); wrong != "" {
		return refuse(wrong)
	}
	return r, nil
}
