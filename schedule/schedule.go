// Package schedule parses the text forms of schedules and computes their due times. Use it to validate or
// preview a schedule without a server:
//
//	s, err := schedule.Parse("30 8 * * MON-FRI", schedule.Options{Timezone: "Europe/Stockholm"})
//	next, ok := s.Next(rouse.At(time.Now()))
//
// It is pure: no clock, no goroutine. It reads only the time zone database: the machine's, or the one in
// the program if the machine has none.
//
// The first characters of a schedule determine its form:
//
//	2027-01-31T09:00:00+01:00        once, at an RFC 3339 instant, rounded up to a millisecond
//	@after 90s                       once, at anchor + 90 s
//	@every 5m                        at anchor + k·interval, k = 1, 2, …
//	30 2 * * MON-FRI                 five-field cron in the time zone of the options
//	cron6:*/10 30 2 * * *            cron with seconds in front
//	quartz:0 30 2 ? * FRIL 2027      Quartz: second, minute, hour, day of month, month, day of week, optional year
//	aws:cron(30 2 L * ? *)           EventBridge: minute, hour, day of month, month, day of week, year; cron(…) is optional
//	aws:rate(5 minutes)              EventBridge: like @every 5m
//	aws:at(2027-01-31T09:00:00)      EventBridge: once, at a local time of the time zone
//	spring:0 30 2 15W * *            Spring: second, minute, hour, day of month, month, day of week; and spring:@daily
//	@hourly @daily @midnight @weekly @monthly @yearly @annually
//	PT30M  R/PT30M  R5/PT30M         ISO 8601: at anchor + k·duration, unlimited or five times
//	R5/2027-01-01T00:00:00Z/P1M      ISO 8601: at start + k·duration, k = 0, 1, …; five times, or R/ for unlimited
//	rrule:FREQ=WEEKLY;BYDAY=MO       RFC 5545
//
// Cron is Vixie's: lists, ranges, steps, names, 7 as Sunday, 5/15 as 5-59/15. If both day fields are given,
// a day must match one of them; if one of the two begins with '*', it must match both.
//
// Quartz and aws count the days of the week from Sunday = 1, spring from Sunday = 0 or 7 like cron. In
// quartz and aws one of the two day fields is '?', which ignores it; in spring '?' is '*' and a day must
// match both. All three have
//
//	L  L-3      the last day of the month, the third before it
//	15W  LW     the weekday (Monday to Friday) nearest to the 15th, to the last day, in the same month; none in a
//	            month without the day
//	6L  FRIL    the last Friday of the month, where Friday is 6
//	6#3  FRI#3  the third Friday of the month
//
// and accept them in lists, too. L alone as the day of the week is Saturday in quartz and aws. Years are
// 1970 to 2199; without one, and with '*', all years match. A range of quartz may wrap around the end of
// its field (22-2, FRI-MON), but not a range of years.
//
// In each dialect H is a number derived from the timer's name, so that many timers with the same expression
// do not fire at the same time: H is one of the field's values (1 to 28 for a day of month), H(0-29) one of a
// range, H/15 an offset and every 15th from there to the field's end, H(0-29)/10 the same in a range. The
// number never changes.
//
// Where clocks go forward or back, all dialects follow Vixie cron unless dst is set. A job with fixed
// minutes and hours is due once for each local time: local times that a gap skips are due once, at the
// gap's end; repeated local times are due in the first pass only. A job whose minute or hour field begins
// with '*' follows elapsed time under every rule: it is due whenever the clock shows a matching time, never
// in the gap, and in both passes of the repeat. For jobs with fixed minutes and hours dst is "vixie", or a
// word for gaps, or one for repeats, or both with a comma:
//
//	next    due at the gap's end (as Vixie)     first   due in the first pass (as Vixie)
//	shift   due later by the gap's length       second  due in the second pass
//	skip    not due                             both    due in both
//
// ISO 8601 years, months, weeks and days are counted on the calendar of the time zone, always from the
// first day, so they do not drift: in a month without the day, the last day is used (January 31, February
// 28, March 31, …). Skipped and repeated local times are treated as those of a job with fixed minutes and
// hours. Hours, minutes and seconds are elapsed time.
package schedule

import (
	"fmt"
	"math"
	"strings"

	"github.com/rousehq/rouse"
)

// Options holds the inputs of a schedule other than its text.
type Options struct {
	Timezone string        // IANA name for cron and for ISO 8601 calendar durations; empty is UTC
	DST      string        // rule for local times that a change of the clocks skips or repeats; empty is "vixie"
	Anchor   rouse.Instant // where intervals and @after begin: when the timer was created
	Start    rouse.Instant // where intervals begin instead; 0 is unset
	// the seed by which H in a cron expression spreads: "namespace/name" of the timer; without a name H is
	// refused
	Seed string
}

// Schedule is a parsed schedule. It does not change and may be used concurrently.
type Schedule struct {
	text    string
	times   rouse.Schedule
	oneShot bool
}

// offered ends the errors about texts that are of no form.
const offered = `give an RFC 3339 instant, "@after 90s", "@every 5m", five cron fields such as "30 2 * * MON-FRI", ` +
	`"cron6:" and six with seconds first, "quartz:", "spring:" or "aws:" and theirs, @hourly, @daily, @weekly, @monthly, @yearly, ` +
	`an ISO 8601 interval such as "R/PT30M", or "rrule:" and a recurrence rule`

// Parse reads a schedule. Its errors are of type *rouse.Invalid, with the field "schedule", "timezone" or
// "dst".
func Parse(expr string, o Options) (*Schedule, error) {
	o.Anchor = min(max(o.Anchor, 0), rouse.MaxInstant) // so that sums with it do not overflow
	times, err := parseForm(expr, o)
	if err != nil {
		return nil, err
	}
	if form := timelessForm(expr, times); form != "" && o.DST != "" {
		return nil, refuseDST(o, form)
	}
	_, once := times.(once)
	return &Schedule{strings.Clone(expr), times, once}, nil // the text may be a part of something large
}

func parseForm(expr string, o Options) (rouse.Schedule, error) {
	switch {
	case expr == "":
		return nil, refuseExpr(expr, "is missing", offered)
	case len(expr) > rouse.MaxSchedule:
		return nil, refuseExpr(expr, fmt.Sprintf("has %d bytes", len(expr)), fmt.Sprintf("use at most %d", rouse.MaxSchedule))
	case instantLike(expr):
		return parseInstant(expr, o)
	case expr[0] == '@':
		return parseWord(expr, o)
	case strings.HasPrefix(expr, "rrule:"):
		return parseRRule(expr, o)
	case strings.HasPrefix(expr, "RRULE:"):
		return nil, refuseExpr(expr, "begins with RRULE: in upper case", "write "+quotePart("rrule:"+expr[len("RRULE:"):]))
	case expr[0] == 'P', expr[0] == 'R':
		return parseRepeat(expr, o)
	}
	return parseCron(expr, o)
}

// Next returns the first due time strictly after the given one. A one-shot schedule has one time, which may
// be past; the others have times from 1970 to 9998.
func (s *Schedule) Next(after rouse.Instant) (rouse.Instant, bool) { return s.times.Next(after) }

// Look is Next with the number of steps that it took. A search in a recurrence rule gives up after most; all
// other forms are cheap.
func (s *Schedule) Look(after rouse.Instant, most int) (next rouse.Instant, ok bool, steps int) {
	switch t := s.times.(type) {
	case *cron:
		next, ok, steps = t.nextWithSteps(max(after, 0))
		return next, ok, 1 + steps/looksPerStep
	case *rrule:
		return t.nextWithLimit(after, most)
	}
	next, ok = s.times.Next(after)
	return next, ok, 1
}

// Between counts the due times after the first and not after the second, and returns the last of them. ok is
// true only for intervals without an end: the other forms would have to visit each time.
func (s *Schedule) Between(after, until rouse.Instant) (n uint64, last rouse.Instant, ok bool) {
	e, ok := s.asInterval()
	if !ok {
		return 0, 0, false
	}
	n, last = e.countBetween(after, until)
	return n, last, true
}

// asInterval returns an interval without an end.
func (s *Schedule) asInterval() (e every, ok bool) {
	if r, is := s.times.(*repeat); is && !r.period.hasCalendar() && r.last == math.MaxInt64 {
		return every{r.start, rouse.Instant(r.period.millis), rouse.Instant(r.first)}, true
	}
	e, ok = s.times.(every)
	return e, ok
}

// OneShot reports whether the schedule has exactly one due time: an instant, @after, or aws:at(…).
func (s *Schedule) OneShot() bool { return s.oneShot }

// Resolved returns the text with each H replaced by its value.
func (s *Schedule) Resolved() string {
	if c, ok := s.times.(*cron); ok && c.resolved != "" {
		return c.resolved
	}
	return s.text
}

// String returns the text that the schedule was parsed from.
func (s *Schedule) String() string { return s.text }

// timelessForm names the form of a schedule that has no local times, or nothing.
func timelessForm(expr string, times rouse.Schedule) string {
	switch t := times.(type) {
	case once:
		if strings.HasPrefix(expr, aws.prefix) {
			return ""
		}
		return "a single instant"
	case every:
		return "an interval"
	case *repeat:
		if !t.period.hasCalendar() {
			return "an interval of hours, minutes and seconds"
		}
	}
	return ""
}

// once is the schedule of a single time.
type once rouse.Instant

func (at once) Next(after rouse.Instant) (rouse.Instant, bool) {
	return rouse.Instant(at), rouse.Instant(at) > after
}

// refuseExpr returns the error for a schedule.
func refuseExpr(expr, wrong, cure string) error {
	return rouse.Refuse("schedule", expr, wrong, cure)
}

// asScheduleError returns an error about a value as one about the schedule that it is in.
func asScheduleError(expr string, err error) error {
	inv, ok := err.(*rouse.Invalid)
	if !ok {
		return err
	}
	return refuseExpr(expr, inv.Problems[0].Wrong, inv.Problems[0].Cure)
}

// refuseZone returns the error for a time zone with a form that has none.
func refuseZone(o Options, form string) error {
	return rouse.Refuse("timezone", o.Timezone, "does not go with "+form+", which is the same in every time zone",
		"leave the timezone empty, or give a cron expression")
}
