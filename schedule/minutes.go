package schedule

import (
	"math/bits"

	"github.com/rousehq/rouse"
)

const (
	minuteMillis = 60_000
	dayLength    = 1440 // minutes
)

// minutes is a set of minutes of a day, as bits.
type minutes [(dayLength + 63) / 64]uint64

// clockMinutes returns the minutes of the hours and minutes that a cron expression has.
func (c *cron) clockMinutes() *minutes {
	var m minutes
	for h := nextBit(c.hours, 0); h < 24; h = nextBit(c.hours, h+1) {
		first := h * 60
		m[first/64] |= c.minutes << (first % 64)
		if shift := 64 - first%64; shift < 60 {
			m[first/64+1] |= c.minutes >> shift
		}
	}
	return &m
}

// nextOpen returns the given minute if it is not in m. Otherwise it returns the next minute that is not in m
// and, if clock is not nil, is in clock; dayLength if none exists.
func (m *minutes) nextOpen(from int, clock *minutes) int {
	if m[from/64]>>(from%64)&1 == 0 {
		return from
	}
	for i := from / 64; i < len(m); i++ {
		free := ^m[i]
		if clock != nil {
			free &= clock[i]
		}
		if i == from/64 {
			free = free >> (from % 64) << (from % 64)
		}
		if free != 0 {
			return min(i*64+bits.TrailingZeros64(free), dayLength)
		}
	}
	return dayLength
}

// dayMinutes are minutes of the days that the day fields of a cron expression match.
type dayMinutes struct {
	days, months, weekdays uint64
	both                   bool // a day must match both day fields, not one of them
	clock                  minutes
}

// matchesDay reports whether a day matches.
func (d *dayMinutes) matchesDay(month, day, weekday int) bool {
	if d.months>>month&1 == 0 {
		return false
	}
	inMonth, inWeek := d.days>>day&1 != 0, d.weekdays>>weekday&1 != 0
	if d.both {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}

// takeOut adds the minutes of a cron expression to those of expressions for the same days, so that a day is
// checked once, however many expressions match it.
func (e *exceptions) takeOut(c *cron) {
	clock := c.clockMinutes()
	for i := range e.minutes {
		if d := &e.minutes[i]; d.days == c.days && d.months == c.months && d.weekdays == c.weekdays && d.both == c.both {
			d.clock.addMinutes(clock)
			return
		}
	}
	e.minutes = append(e.minutes, dayMinutes{c.days, c.months, c.weekdays, c.both, *clock})
}

func (m *minutes) addMinutes(o *minutes) {
	for i := range m {
		m[i] |= o[i]
	}
}

// minutesOn returns the minutes that are taken out of a date.
func (e *exceptions) minutesOn(d rouse.Date, b *budget) *minutes {
	if b.worked && b.day == d {
		return &b.on
	}
	b.on, b.day, b.worked = minutes{}, d, true
	m := monthAt(int64(d))
	day, weekday := int(int64(d)-m.first)+1, weekdayOf(int64(d))
	for i := range e.minutes {
		if e.minutes[i].matchesDay(m.number, day, weekday) {
			b.on.addMinutes(&e.minutes[i].clock)
		}
	}
	return &b.on
}
