package schedule

import (
	"math/bits"
	"time"
)

// secondsADay is the length of a day on the wall, where no clock is ever changed.
const secondsADay = 86400

// month is a month of the Gregorian calendar. Days are counted from 1970-01-01.
type month struct {
	year, number int
	first        int64 // the day that its 1st is
	length       int
	before       int // days of the year before it
	weekday      int // of its 1st; 0 is Sunday
}

// monthOf returns a month; numbers above 12 continue in the following years.
func monthOf(year, number int) month {
	year, number = year+(number-1)/12, (number-1)%12+1
	t := time.Date(year, time.Month(number), 1, 0, 0, 0, 0, time.UTC)
	return month{year, number, t.Unix() / secondsADay, daysIn(year, time.Month(number)), t.YearDay() - 1, int(t.Weekday())}
}

// monthAt returns the month that a day lies in.
func monthAt(day int64) month {
	year, number, _ := time.Unix(day*secondsADay, 0).UTC().Date()
	return monthOf(year, int(number))
}

// nextMonth returns the month after it.
func (m month) nextMonth() month {
	n := month{m.year, m.number + 1, m.first + int64(m.length), 0, m.before + m.length, (m.weekday + m.length) % 7}
	if n.number > 12 {
		n.year, n.number, n.before = m.year+1, 1, 0
	}
	n.length = daysIn(n.year, time.Month(n.number))
	return n
}

// yearLength returns how many days a year has.
func yearLength(year int) int { return 337 + daysIn(year, time.February) }

// weekdayOf returns the day of the week of a day; 0 is Sunday.
func weekdayOf(day int64) int { return int(floorMod(day+4, 7)) }

// nthDay is an element of BYDAY with an ordinal: the nth such day of the month or year, counted from its end
// if negative.
type nthDay struct{ n, weekday int }

// yearSet is a set of days of a year, from 1 to 366, as bits.
type yearSet [6]uint64

// addDay adds a day of a year of the given length, counted from its end if negative.
func (s *yearSet) addDay(day, length int) {
	if day < 0 {
		day += length + 1
	}
	if day >= 1 && day <= length {
		s[day/64] |= 1 << (day % 64)
	}
}

// monthBits returns the days of the set that lie in a month, bit 1 being its 1st.
func (s *yearSet) monthBits(m month) uint64 {
	from := m.before + 1
	set := s[from/64] >> (from % 64)
	if from/64+1 < len(s) {
		set |= s[from/64+1] << (64 - from%64) // a shift by 64 gives 0
	}
	return set << 1
}

// dayRule holds the parts of a rule that select its days. A part that is not given is zero.
type dayRule struct {
	months    uint64   // bits 1 to 12; always given
	monthDays uint64   // bits 1 to 31
	monthEnds uint64   // bits 1 to 31, counted from the month's last day
	yearDays  *yearSet // in years of 365 days
	leapDays  *yearSet // the same in years of 366
	weeks     uint64   // bits 1 to 53
	weekEnds  uint64   // bits 1 to 53, counted from the year's last week
	weekdays  uint64   // bits 0 to 6
	nth       []nthDay
	nthOfYear bool // nth are counted in the year, not in the month
	weekStart int  // the day that weeks begin on; 0 is Sunday
}

// ruleDays returns the rule's days of a month as bits 1 to 31.
func (r *dayRule) ruleDays(m month) uint64 {
	days := uint64(1)<<(m.length+1) - 2
	if r.months>>m.number&1 == 0 {
		return 0
	}
	if r.monthDays|r.monthEnds != 0 {
		// Bit k, counted from the end, is the day length+1-k.
		days &= r.monthDays | bits.Reverse64(r.monthEnds)>>(62-m.length)
	}
	if r.yearDays != nil {
		if yearLength(m.year) == 366 {
			days &= r.leapDays.monthBits(m)
		} else {
			days &= r.yearDays.monthBits(m)
		}
	}
	if r.weeks|r.weekEnds != 0 {
		days &= r.weekDays(m)
	}
	if r.weekdays != 0 || r.nth != nil {
		w := m.weekday
		week := r.weekdays>>w | r.weekdays<<(7-w)&0x7f // bit 0: the day of the week of the 1st
		set := week * (1 | 1<<7 | 1<<14 | 1<<21 | 1<<28) << 1
		for _, d := range r.nth {
			set |= r.nthOf(d, m)
		}
		days &= set
	}
	return days
}

// nthOf returns the day of a month that has the ordinal, if the month has one.
func (r *dayRule) nthOf(d nthDay, m month) uint64 {
	before, length := 0, m.length
	if r.nthOfYear {
		before, length = m.before, yearLength(m.year)
	}
	// The first such day of the month or year, 1 to 7.
	day := 1 + int(floorMod(int64(d.weekday-m.weekday+before), 7))
	if d.n > 0 {
		day += 7 * (d.n - 1)
	} else {
		day += 7 * ((length-day)/7 + 1 + d.n)
	}
	if day < 1 || day > length || day <= before || day > before+m.length {
		return 0
	}
	return 1 << (day - before)
}

// weekDays returns the days of a month that lie in the rule's weeks. Week 1 is the first that has four days
// or more in its year; the days around New Year are those of the week that they lie in, whichever year it is
// counted in.
func (r *dayRule) weekDays(m month) uint64 {
	january := m.first - int64(m.before)
	this := r.firstWeek(january)
	next := r.firstWeek(january + int64(yearLength(m.year)))
	var set uint64
	for week := m.first - floorMod(int64(m.weekday-r.weekStart), 7); week < m.first+int64(m.length); week += 7 {
		from, to := this, next
		switch {
		case week < this:
			from, to = r.firstWeek(january-int64(yearLength(m.year-1))), this
		case week >= next:
			from, to = next, r.firstWeek(january+int64(yearLength(m.year)+yearLength(m.year+1)))
		}
		if number, end := (week-from)/7+1, (to-week)/7; r.weeks>>number&1 != 0 || r.weekEnds>>end&1 != 0 {
			if begin := week - m.first + 1; begin >= 0 {
				set |= 0x7f << begin
			} else {
				set |= 0x7f >> -begin
			}
		}
	}
	return set
}

// firstWeek returns the day that week 1 of a year begins on, given its January 1.
func (r *dayRule) firstWeek(january int64) int64 {
	week := january - floorMod(int64(weekdayOf(january)-r.weekStart), 7)
	if january-week > 3 {
		week += 7
	}
	return week
}
