package schedule

import (
	"math"
	"math/bits"
	"time"

	"github.com/rousehq/rouse"
)

// Next finds the next match on the wall, then the instant of that wall time.
func (c *cron) Next(after rouse.Instant) (rouse.Instant, bool) {
	at, ok, _ := c.nextWithSteps(max(after, 0))
	return at, ok
}

// nextWithSteps is Next with the number of steps that it took. It goes from span to span of the zone, and
// from one span in which nothing is due to the one with the next match.
func (c *cron) nextWithSteps(after rouse.Instant) (next rouse.Instant, ok bool, steps int) {
	if after >= rouse.MaxInstant {
		return 0, false, 0
	}
	at := int64(after)/1000 + 1 // due times are whole seconds, so the next one is at least this
	end := max(at, settled) + cycle
	for at < end {
		s := c.zone.spanAt(at)
		due, wall, found := c.firstInSpan(s, at, &steps)
		if due != none {
			next = rouse.Instant(due) * 1000
			return next, next <= rouse.MaxInstant, steps
		}
		// The local times before this one do not match. If no local time from before at repeats and matters
		// then, nothing is due until shortly before this one.
		jump := at == s.begin || c.zone.rule.repeat == repeatFirst
		switch at = s.end; {
		case jump && !found, at == math.MaxInt64:
			return 0, false, steps
		case jump:
			at = max(at, wall-maxShift)
		}
	}
	return 0, false, steps
}

// After settled, the zone database has only the clock changes that a rule repeats every year, and the
// calendar, including the days of the week, repeats after a cycle. So a schedule that is not due in a cycle
// after settled is never due. In seconds.
const (
	settled = 150 * 366 * 86400 // the year 2120
	cycle   = 146097 * 86400    // 400 years
)

const none = math.MaxInt64

// firstInSpan returns the first due instant of a span at or after at, or none, and the first matching wall
// time from the local time of at on, if one exists.
func (c *cron) firstInSpan(s span, at int64, steps *int) (due, wall int64, found bool) {
	due = none
	rule := c.zone.rule
	from, end := at+s.offset, int64(math.MaxInt64)
	if s.end != math.MaxInt64 {
		end = s.end + s.offset
	}
	if s.begin > at-maxShift { // also keeps the sums below from overflowing
		switch before := c.zone.spanAt(s.begin - 1).offset; {
		case before > s.offset: // the span begins with a repeat
			if rule.repeat == repeatFirst {
				from = max(from, s.begin+before)
			}
		case before < s.offset: // the span begins with the end of a gap
			due = c.afterGap(s, at, before, steps)
		}
	}
	if rule.repeat == repeatSecond && end != math.MaxInt64 {
		end = min(end, s.end+c.zone.spanAt(s.end).offset) // repeated local times are due in the next span
	}
	if due == s.begin {
		return due, 0, false
	}
	if wall, found = c.matchWall(from, steps); found && wall < end {
		due = min(due, wall-s.offset)
	}
	return due, wall, found
}

// afterGap returns the first instant, not before at, at which a local time is due that the gap before the
// span skipped.
func (c *cron) afterGap(s span, at, before int64, steps *int) int64 {
	from := at + before // the wall time, had the clocks not been put forward
	if c.zone.rule.gap == gapSkip || c.zone.rule.gap == gapNext && at != s.begin || from >= s.begin+s.offset {
		return none
	}
	wall, found := c.matchWall(from, steps)
	switch {
	case !found || wall >= s.begin+s.offset:
		return none
	case c.zone.rule.gap == gapNext:
		return s.begin
	}
	return wall - before
}

// matchWall returns the first matching wall time that is not before the given one; ok is false if none lies
// in this calendar. A step is one matching month. If any day matches, one does within 400 years, after which
// the calendar repeats: two matches may be 40 years apart (a February 29 on a certain day of the week, around
// a century without leap year).
func (c *cron) matchWall(wall int64, steps *int) (next int64, ok bool) {
	t := time.Unix(wall, 0).UTC()
	year, month, day := t.Date()
	if seconds, ok := c.matchClock(t.Clock()); ok && c.onYear(year) == year && c.months>>month&1 != 0 &&
		nextBit(c.daysOf(year, month), day) == day {
		return wall - floorMod(wall, 86400) + seconds, true
	}
	day++
	seconds, _ := c.matchClock(0, 0, 0)
	last := 9998
	if c.years == nil {
		last = min(last, year+400)
	}
	for year <= last {
		*steps++
		if y := c.onYear(year); y != year {
			year, month, day = y, time.January, 1
			continue
		}
		if m := nextBit(c.months, int(month)); m > 12 {
			year, month, day = year+1, time.January, 1
			continue
		} else if m != int(month) {
			month, day = time.Month(m), 1
		}
		if day = nextBit(c.daysOf(year, month), day); day <= 31 {
			return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() + seconds, true
		}
		month, day = month+1, 1
	}
	return 0, false
}

// onYear returns the first matching year that is not before the given one, or one after all.
func (c *cron) onYear(year int) int {
	if c.years == nil {
		return year
	}
	if i := c.years.nextMember(max(0, year-firstYear)); i >= 0 {
		return firstYear + i
	}
	return math.MaxInt32
}

// matchClock returns the first matching time of day that is not before the given one, in seconds; ok is false
// if the day has none.
func (c *cron) matchClock(hour, minute, second int) (seconds int64, ok bool) {
	h, m, s := nextBit(c.hours, hour), 0, 0
	if h == hour {
		if m = nextBit(c.minutes, minute); m == minute {
			if s = nextBit(c.seconds, second); s > 59 {
				m = nextBit(c.minutes, minute+1)
			}
		}
		if m > 59 {
			h = nextBit(c.hours, hour+1)
		}
	}
	if h > 23 {
		return 0, false
	}
	if h != hour {
		m = nextBit(c.minutes, 0)
	}
	if h != hour || m != minute {
		s = nextBit(c.seconds, 0)
	}
	return int64(h)*3600 + int64(m)*60 + int64(s), true
}

// daysOf returns the matching days of a month as bits.
func (c *cron) daysOf(year int, month time.Month) uint64 {
	first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	w := uint(first.Weekday())
	week := c.weekdays>>w | c.weekdays<<(7-w)&0x7f // bit 0: the day of the week of the 1st
	weekdays := week * (1 | 1<<7 | 1<<14 | 1<<21 | 1<<28) << 1
	days, n := c.days, daysIn(year, month)
	if c.odd != nil {
		days |= c.odd.monthdayBits(int(w), n)
		weekdays |= c.odd.weekdayBits(int(w), n)
	}
	if c.both {
		days &= weekdays
	} else {
		days |= weekdays
	}
	return days & (1<<(n+1) - 1)
}

// daysIn returns how many days a month has.
func daysIn(year int, month time.Month) int {
	switch month {
	case time.February:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case time.April, time.June, time.September, time.November:
		return 30
	}
	return 31
}

// nextBit returns the lowest bit of the set that is not below from, or 64.
func nextBit(set uint64, from int) int {
	return bits.TrailingZeros64(set >> from << from)
}

func floorMod(a, b int64) int64 {
	if a %= b; a < 0 {
		a += b
	}
	return a
}
