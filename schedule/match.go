package schedule

import (
	"math/bits"
	"time"

	"github.com/rousehq/rouse"
)

// Next finds the next match on the wall, then the instant of that wall time.
func (c *cron) Next(after rouse.Instant) (rouse.Instant, bool) {
	at, ok, _ := c.next(max(after, 0))
	return at, ok
}

// next is Next with the number of steps that it took.
func (c *cron) next(after rouse.Instant) (next rouse.Instant, ok bool, steps int) {
	if after >= rouse.MaxInstant {
		return 0, false, 0
	}
	now := int64(after) / 1000 // what is due at a whole second after it is due after it
	var at int64
	if c.wild {
		at, ok = c.nextReal(now, &steps)
	} else if wall, found := c.match(c.zone.reached(now)+1, &steps); found {
		// The clocks have not shown this wall time yet, nor any between, so its first instant lies after now.
		at, _ = c.zone.instant(wall)
		ok = true
	}
	next = rouse.Instant(at) * 1000
	return next, ok && next <= rouse.MaxInstant, steps
}

// nextReal returns the first instant after now at which the clocks show a matching time.
func (c *cron) nextReal(now int64, steps *int) (int64, bool) {
	at := now + 1
	var wall int64
	// The span of now, and then the next one, which may show wall times again that lie behind us.
	for range 2 {
		var ok bool
		s := c.zone.span(at)
		if wall, ok = c.match(at+s.offset, steps); !ok || wall-s.offset < s.end {
			return wall - s.offset, ok
		}
		at = s.end
	}
	// Nothing matched in a whole span, so what later spans show again does not match either: the next match is a wall time
	// that is shown for the first time, or not at all if a gap skips it.
	for {
		at, shown := c.zone.instant(wall)
		if shown {
			return at, true
		}
		*steps++
		var ok bool
		if wall, ok = c.match(at+c.zone.span(at).offset, steps); !ok {
			return 0, false
		}
	}
}

// match returns the first matching wall time that is not before the given one; ok is false if none lies in this calendar.
// It looks at one month a step. Matching days are at most 40 years apart (a February 29 on a certain day of the week, around
// a century without leap year), and only matching months are looked at.
func (c *cron) match(wall int64, steps *int) (next int64, ok bool) {
	t := time.Unix(wall, 0).UTC()
	year, month, day := t.Date()
	seconds, ok := c.clock(t.Clock())
	if !ok || nextBit(c.daysOf(year, month), day) != day || c.months>>month&1 == 0 {
		day++
		seconds, _ = c.clock(0, 0, 0)
	} else {
		return wall - mod(wall, 86400) + seconds, true
	}
	for year <= 9998 {
		*steps++
		if m := nextBit(c.months, int(month)); m > 12 {
			year, month, day = year+1, time.Month(nextBit(c.months, 1)), 1
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

// clock returns the first matching time of day that is not before the given one, in seconds; ok is false if the day has none.
func (c *cron) clock(hour, minute, second int) (seconds int64, ok bool) {
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
	days := c.days | weekdays
	if c.both {
		days = c.days & weekdays
	}
	return days & (1<<(daysIn(year, month)+1) - 1)
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

func mod(a, b int64) int64 {
	if a %= b; a < 0 {
		a += b
	}
	return a
}
