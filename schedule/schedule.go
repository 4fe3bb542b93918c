// Package schedule reads the text forms of schedules and computes their due times. It is pure: no clock, no goroutine; the
// only thing outside of it is the time zone database, the machine's if it has one, else the one built into the program.
//
// The forms, told apart by their first bytes, never guessed:
//
//	2027-01-31T09:00:00+01:00        once, at an RFC 3339 instant, rounded up to a millisecond
//	@after 90s                       once, so long after the anchor
//	@every 5m                        at anchor + k·interval, k = 1, 2, …
//	30 2 * * MON-FRI                 five-field cron in the time zone of the options
//	cron6:*/10 30 2 * * *            cron with seconds in front
//	@hourly @daily @midnight @weekly @monthly @yearly @annually
//	PT30M  R/PT30M  R5/PT30M         ISO 8601: at anchor + k·duration, without end or five times
//	R5/2027-01-01T00:00:00Z/P1M      ISO 8601: at start + k·duration, k = 0, 1, …; five times, or R/ without end
//
// Cron is Vixie's: lists, ranges, steps, names, 7 as Sunday, 5/15 as 5-59/15. If both day fields are given a day needs to
// match one of them; if one of the two begins with '*' it needs to match both.
//
// Where clocks are put forward or back, cron is Vixie's too. A job that names its minutes and hours is due once for each
// local time: local times that a gap skips are due at the gap's end, all together once, and local times that a repeat brings
// again are due in the first pass only. A job whose minute or hour field begins with '*' follows real time: it is due
// whenever the clock shows a matching time, never in the gap, in both passes of the repeat.
//
// ISO 8601 years, months, weeks and days are counted on the calendar of the time zone, always from the first day, so that
// nothing drifts: a day that the month does not have becomes the month's last (January 31, February 28, March 31, …), and
// local times that are skipped or repeated are treated as cron's fixed ones. Hours, minutes and seconds are elapsed time.
package schedule

import (
	"fmt"
	"strings"

	"github.com/rousehq/rouse"
)

// Options is what a schedule depends on beside its text.
type Options struct {
	Timezone string        // IANA name for cron and for ISO 8601 calendar durations; empty is UTC
	Anchor   rouse.Instant // where intervals and @after begin: when the timer was created
}

// Schedule is a parsed schedule. It does not change and may be used concurrently.
type Schedule struct {
	text    string
	times   rouse.Schedule
	oneShot bool
}

// offered ends the errors about texts that are of no form.
const offered = `give an RFC 3339 instant, "@after 90s", "@every 5m", five cron fields such as "30 2 * * MON-FRI", ` +
	`"cron6:" and six with seconds first, @hourly, @daily, @weekly, @monthly, @yearly, or an ISO 8601 interval such as "R/PT30M"`

// Parse reads a schedule. What it refuses, it refuses with a *rouse.Invalid whose fields are "schedule" and "timezone".
func Parse(expr string, o Options) (*Schedule, error) {
	o.Anchor = min(max(o.Anchor, 0), rouse.MaxInstant) // so that sums with it do not overflow
	times, err := parse(expr, o)
	if err != nil {
		return nil, err
	}
	_, once := times.(once)
	return &Schedule{strings.Clone(expr), times, once}, nil // the text may be a part of something large
}

func parse(expr string, o Options) (rouse.Schedule, error) {
	switch {
	case expr == "":
		return nil, refuse(expr, "is missing", offered)
	case len(expr) > rouse.MaxSchedule:
		return nil, refuse(expr, fmt.Sprintf("has %d bytes", len(expr)), fmt.Sprintf("use at most %d", rouse.MaxSchedule))
	case instantLike(expr):
		return parseInstant(expr, o)
	case expr[0] == '@':
		return parseWord(expr, o)
	case expr[0] == 'P', expr[0] == 'R' && !strings.HasPrefix(expr, "RRULE:"):
		return parseRepeat(expr, o)
	}
	return parseCron(expr, o)
}

// Next returns the first due time strictly after the given one. A one-shot schedule has the one time that it names, however
// long past; the others have times from 1970 to 9998.
func (s *Schedule) Next(after rouse.Instant) (rouse.Instant, bool) { return s.times.Next(after) }

// OneShot says whether the schedule has exactly one due time: an instant, or @after.
func (s *Schedule) OneShot() bool { return s.oneShot }

// String returns the text that the schedule was parsed from.
func (s *Schedule) String() string { return s.text }

// once is the schedule of a single time.
type once rouse.Instant

func (at once) Next(after rouse.Instant) (rouse.Instant, bool) {
	return rouse.Instant(at), rouse.Instant(at) > after
}

// refuse returns the error for a schedule.
func refuse(expr, wrong, cure string) error {
	return rouse.Refuse("schedule", expr, wrong, cure)
}

// refuseZone returns the error for a time zone beside a form that has none.
func refuseZone(o Options, form string) error {
	return rouse.Refuse("timezone", o.Timezone, "does not go with "+form+", which is the same in every time zone",
		"leave the timezone empty, or give a cron expression")
}
