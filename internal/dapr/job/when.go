package job

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
)

// every0 is the interval of a job whose interval is zero, which is accepted and means as often as possible.
const every0 = 100 * time.Millisecond

// unsure is the maximum by which an engine may be behind its store's clock: a tick that is later by this is
// surely not early.
const unsure = 2 * time.Millisecond

// recurrence is a parsed schedule: an interval, or cron in a time zone.
type recurrence struct {
	every time.Duration
	cron  string
	zone  string
}

// setJobTimes sets the due times of the job's timer.
func (t *Timer) setJobTimes(j *schedulerv1.Job, now rouse.Instant) error {
	if j.Schedule == nil {
		return t.setOneTick(j, now)
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
		due = m.instantFrom(from)
		if s.Start = due; r.cron != "" {
			s.Also = []string{due.String()}
		}
		t.First = due
	}
	if err := t.setEndFromTTL(j, due, now); err != nil {
		return err
	}
	return t.setTickCount(j, r, due, now)
}

// setOneTick is setJobTimes for a job without a schedule.
func (t *Timer) setOneTick(j *schedulerv1.Job, now rouse.Instant) error {
	switch {
	case j.DueTime == nil:
		return rouse.Refuse("schedule", "", "is missing, and so is due_time", "give one of them, or both")
	case j.Repeats != nil && *j.Repeats != 1:
		return rouse.Refuse("repeats", strconv.FormatUint(uint64(*j.Repeats), 10), "needs a schedule",
			"give one, or leave repeats out")
	case j.Ttl != nil:
		return rouse.Refuse("ttl", *j.Ttl, "needs a schedule", "give one, or leave ttl out")
	}
	m, err := readMoment("due_time", *j.DueTime)
	if err != nil {
		return err
	}
	d, ok := m.fixedOffset()
	switch at := m.instantFrom(now); {
	case at <= now:
		t.Spec.Schedule = "@after 0s"
	case ok && at < rouse.MaxInstant:
		t.Spec.Schedule = "@after " + roundUp(d).String()
	default:
		t.Spec.Schedule = at.String()
	}
	return nil
}

// roundUp rounds a duration up to whole milliseconds, the resolution of timers.
func roundUp(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// setEndFromTTL sets the end from the time to live. A tick exactly at the end still fires.
func (t *Timer) setEndFromTTL(j *schedulerv1.Job, due, now rouse.Instant) error {
	if j.Ttl == nil {
		return nil
	}
	m, err := readMoment("ttl", *j.Ttl)
	if err != nil {
		return err
	}
	d, relative := m.fixedOffset()
	switch {
	case due != 0:
		end := m.instantFrom(due)
		if end < due {
			return rouse.Refuse("ttl", *j.Ttl, "ends before due_time, "+due.String(), "give a later end")
		}
		t.setLastTick(end)
	case relative && d < 0:
		t.Over = true
	case relative && d < longTTL: // counted from the timer's creation, like its schedule
		t.Spec.TTL = d + time.Millisecond
	case relative:
	default:
		t.setLastTick(m.instantFrom(now.Add(unsure)))
		t.Over = t.Spec.End != 0 && t.Spec.End <= now
	}
	return nil
}

// longTTL is a time to live that counts as unlimited.
const longTTL = 190 * 366 * 24 * time.Hour

// setLastTick sets the last time at which a tick may be.
func (t *Timer) setLastTick(last rouse.Instant) {
	if last < rouse.MaxInstant {
		t.Spec.End = last + 1
	}
}

// setTickCount sets the number of ticks.
func (t *Timer) setTickCount(j *schedulerv1.Job, r recurrence, due, now rouse.Instant) error {
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
		return rouse.Refuse("repeats", text, "is too many to count for a cron schedule",
			fmt.Sprintf("give at most %d, or a ttl", rouse.MaxOccurrences))
	case r.every > longTTL/time.Duration(n): // unlimited
	case due != 0:
		last := due.Add(time.Duration(n-1) * r.every)
		if t.Spec.End == 0 || t.Spec.End > last {
			t.setLastTick(last)
		}
	case t.Spec.End != 0: // between the last tick and the next, whenever the timer is created
		if last := now.Add(time.Duration(n)*r.every + r.every/2); t.Spec.End > last {
			t.setLastTick(last)
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

// readSchedule reads an interval, a word, or a cron expression.
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
