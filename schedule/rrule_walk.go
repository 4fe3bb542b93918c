package schedule

import (
	"math"
	"math/bits"
	"time"
)

// freq is the length of a rule's periods.
type freq uint8

const (
	secondly freq = iota
	minutely
	hourly
	daily
	weekly
	monthly
	yearly
)

var freqNames = [...]string{"SECONDLY", "MINUTELY", "HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY"}

// freqUnits are the names of the periods for people.
var freqUnits = [...]string{"second", "minute", "hour", "day", "week", "month", "year"}

func (f freq) String() string { return freqNames[f] }

// unitSeconds returns how many seconds a period below a day has.
func (f freq) unitSeconds() int64 { return [...]int64{1, 60, 3600}[f] }

// Limits that keep the walk through a rule short.
const (
	// maxCount bounds COUNT, as the last occurrence is looked for when the rule is read: day by day, or one
	// by one. maxPicked bounds it for BYSETPOS with weeks, months and years, where that takes longer.
	maxCount  = 100_000
	maxPicked = 10_000
	// maxPhases bounds after how many days a rule below a day comes back to the same times of day. Its phases
	// are kept.
	maxPhases = 1000
)

// lastDay is the end of the calendar, 9998-12-31.
var lastDay = time.Date(9998, 12, 31, 0, 0, 0, 0, time.UTC).Unix() / secondsADay

// gregorian is after how many days the calendar repeats, days of the week included: 400 years.
const gregorian = 146_097

// recur is a recurrence rule on the wall: its times are seconds since 1970 as the clocks on the wall show
// them. All that a rule takes from its begin has been put into its parts.
//
// The walk has three levels. Which days are in the rule is known by the month, as bits; days, weeks, months
// and years that INTERVAL passes over are taken out there, as are days on which an interval of hours, minutes
// or seconds never meets the times of day that are asked for. Which times a day has is known from sets of
// hours, minutes and seconds. Only BYSETPOS with weeks, months and years asks for the whole of a period; with
// shorter periods, which are all alike, it has been applied to the sets.
type recur struct {
	freq      freq
	interval  int64
	begin     int64 // nothing is before it, and intervals are counted from its period
	last      int64 // nothing is after it
	count     int64 // COUNT; 0 is none. It is in last, too, as UNTIL is
	bounded   bool  // UNTIL is given
	days      dayRule
	positions []int // BYSETPOS of weeks, months and years
	times     times // of a day; of an hour or minute where that is the period

	// Of rules below a day: which hours, minutes and seconds may begin a period; phases[d mod len] reports
	// whether a day d has any.
	limits times
	phases []bool

	first month // that begin lies in
	cycle int64 // days after which the rule repeats, but for begin and last
}

// looks counts the months, days and periods that a walk checks. After most it ends the walk, as if no more
// times followed.
type looks struct{ n, most int }

// spendCheck counts a look, and reports whether it may be made.
func (l *looks) spendCheck() bool {
	l.n++
	return l.n <= l.most
}

// isExhausted reports that a walk was ended.
func (l *looks) isExhausted() bool { return l.n > l.most }

// maxRuleLooks bounds the cost of reading a rule: whether it has times, and where COUNT ends. It is a few
// milliseconds.
const maxRuleLooks = 400_000

// nextWall returns the first time of the rule that is not before wall, and counts the months and days that it
// checks.
func (r *recur) nextWall(wall int64, l *looks) (int64, bool) {
	wall = max(wall, r.begin)
	day, end := floorDiv(wall, secondsADay), r.searchEnd(wall)
	for wall <= r.last {
		next, ok := r.nextDay(day, end, l)
		if !ok {
			return 0, false
		}
		var at int64
		if r.positions != nil {
			at, day, ok = r.pickFromPeriod(next, wall, l)
		} else {
			from := int64(0)
			if next == floorDiv(wall, secondsADay) {
				from = floorMod(wall, secondsADay)
			}
			at, ok = r.firstTimeOf(next, from, l)
			at, day = next*secondsADay+at, next+1
		}
		if ok {
			return at, at <= r.last
		}
	}
	return 0, false
}

// searchEnd returns the day on which a search from wall may stop: a time that was not found by then does not
// exist.
func (r *recur) searchEnd(wall int64) int64 {
	return min(floorDiv(r.last, secondsADay), floorDiv(wall, secondsADay)+r.cycle+366, lastDay)
}

// nextDay returns the first day of the rule that is not before from, up to end.
func (r *recur) nextDay(from, end int64, l *looks) (int64, bool) {
	if from > end {
		return 0, false
	}
	m, days, ok := r.nextDays(monthAt(from), from, end, l)
	day := m.first + int64(bits.TrailingZeros64(days)) - 1
	return day, ok && day <= end
}

// nextDays returns the days of the first month, from m on, that has some of the rule's that are not before
// from. It gives up after end.
func (r *recur) nextDays(m month, from, end int64, l *looks) (month, uint64, bool) {
	for m.first <= end {
		if !l.spendCheck() {
			return m, 0, false
		}
		if skip := r.skipMonths(m); skip.first != m.first {
			m = skip
			continue
		}
		days := r.days.ruleDays(m) & r.intervalDays(m)
		if m.first < from {
			days = days >> (from - m.first + 1) << (from - m.first + 1)
		}
		if days != 0 {
			return m, days, true
		}
		m = m.nextMonth()
	}
	return m, 0, false
}

// skipMonths returns the first month, from m on, that INTERVAL and BYMONTH do not leave out altogether.
func (r *recur) skipMonths(m month) month {
	switch r.freq {
	case yearly:
		if off := floorMod(int64(r.first.year-m.year), r.interval); off != 0 {
			return monthOf(m.year+int(min(off, 10_000)), 1)
		}
	case monthly:
		if off := floorMod(int64((r.first.year-m.year)*12+r.first.number-m.number), r.interval); off != 0 {
			return monthOf(m.year, m.number+int(min(off, 120_000)))
		}
	case weekly, daily:
		if r.interval > 31 { // seldom; else the next month is as near
			if day := m.first + r.daysUntil(m.first); day >= m.first+int64(m.length) {
				return monthAt(min(day, lastDay+1))
			}
		}
	}
	if number := nextBit(r.days.months, m.number); number > 12 {
		return monthOf(m.year+1, nextBit(r.days.months, 1))
	} else if number != m.number {
		return monthOf(m.year, number)
	}
	return m
}

// daysUntil returns how many days after the given one the next day lies that INTERVAL meets, for rules of
// days and weeks.
func (r *recur) daysUntil(day int64) int64 {
	begin := floorDiv(r.begin, secondsADay)
	if r.freq == daily {
		return floorMod(begin-day, r.interval)
	}
	off := floorMod(r.weekOf(begin)-r.weekOf(day), 7*r.interval) // from one week's begin to the other's
	if off == 0 {
		return 0
	}
	return off - (day - r.weekOf(day))
}

// weekOf returns the day that a day's week begins on.
func (r *recur) weekOf(day int64) int64 {
	return day - floorMod(int64(weekdayOf(day)-r.days.weekStart), 7)
}

// intervalDays returns the days of a month that INTERVAL does not pass over.
func (r *recur) intervalDays(m month) uint64 {
	const all = math.MaxUint64
	switch r.freq {
	case yearly, monthly:
		return all
	case weekly, daily:
		if r.interval == 1 {
			return all
		}
	default:
		if len(r.phases) == 1 {
			return all
		}
		var set uint64
		phase := floorMod(m.first, int64(len(r.phases)))
		for day := 1; day <= m.length; day++ {
			if r.phases[phase] {
				set |= 1 << day
			}
			if phase++; phase == int64(len(r.phases)) {
				phase = 0
			}
		}
		return set
	}
	// Weeks that begin before the month reach into it.
	var set uint64
	begin, width := floorDiv(r.begin, secondsADay), uint64(1)
	period := r.interval
	if r.freq == weekly {
		begin, width, period = r.weekOf(begin), 0x7f, 7*r.interval
	}
	for at := m.length - int(floorMod(m.first+int64(m.length)-1-begin, period)); at > -7; at -= int(min(period, 64)) {
		if at >= 0 {
			set |= width << at
		} else {
			set |= width >> -at
		}
	}
	return set
}

// firstTimeOf returns the first time of a day of the rule that is not before from, in seconds.
func (r *recur) firstTimeOf(day, from int64, l *looks) (int64, bool) {
	if r.freq >= daily {
		return r.times.nextTime(from)
	}
	unit := r.freq.unitSeconds()
	day *= secondsADay / unit
	for from < secondsADay {
		if !l.spendCheck() {
			return 0, false
		}
		period := from / unit
		if off := floorMod(floorDiv(r.begin, unit)-day-period, r.interval); off != 0 {
			if period += off; period >= secondsADay/unit {
				return 0, false
			}
			from = period * unit
		}
		open, ok := r.limits.nextTime(period * unit)
		if !ok {
			return 0, false
		}
		if open != period*unit {
			from = open
			continue
		}
		if in, ok := r.times.nextTime(from - open); ok && in < unit {
			return open + in, true
		}
		from = open + unit
	}
	return 0, false
}

// pickFromPeriod returns the first time that is not before wall of those that BYSETPOS picks from the period
// that a day lies in, and the first day after the period.
func (r *recur) pickFromPeriod(day, wall int64, l *looks) (at, behind int64, ok bool) {
	var months [12]month
	var sets [12]uint64
	var n, size int
	add := func(m month, days uint64) {
		l.n++
		months[n], sets[n] = m, days
		size += bits.OnesCount64(days)
		n++
	}
	m := monthAt(day)
	switch r.freq {
	case weekly:
		from := r.weekOf(day)
		behind = from + 7
		for m = monthAt(from); m.first < behind; m = m.nextMonth() {
			days := r.days.ruleDays(m)
			if m.first < from {
				days = days >> (from - m.first + 1) << (from - m.first + 1)
			}
			if last := behind - m.first; last < int64(m.length) {
				days &= 1<<(last+1) - 1
			}
			add(m, days)
		}
	case monthly:
		behind = m.first + int64(m.length)
		add(m, r.days.ruleDays(m))
	case yearly:
		behind = m.first - int64(m.before) + int64(yearLength(m.year))
		for m = monthOf(m.year, 1); n < 12; m = m.nextMonth() {
			add(m, r.days.ruleDays(m))
		}
	}
	l.n += len(r.positions) / 8
	each := r.times.timeCount()
	for _, p := range r.positions {
		if p < 0 {
			p += size*each + 1
		}
		if p < 1 || p > size*each {
			continue
		}
		i, time := (p-1)/each, r.times.timeAt((p-1)%each)
		for k := range n {
			if c := bits.OnesCount64(sets[k]); i >= c {
				i -= c
				continue
			}
			found := (months[k].first+int64(nthBit(sets[k], i))-1)*secondsADay + time
			if found >= wall && (!ok || found < at) {
				at, ok = found, true
			}
			break
		}
	}
	return at, behind, ok
}

// nthWall returns the n-th time of the rule that is not before from, from 1. If there are fewer, ok is false,
// and left is how many are missing.
func (r *recur) nthWall(n, from int64, l *looks) (wall, left int64, ok bool) {
	wall = max(from, r.begin)
	if r.positions != nil {
		for ; ; wall++ {
			if wall, ok = r.nextWall(wall, l); !ok {
				return 0, n, false
			}
			if n--; n == 0 {
				return wall, 0, true
			}
		}
	}
	day := floorDiv(wall, secondsADay)
	from = floorMod(wall, secondsADay) // only the first day is not whole
	for m := monthAt(day); ; m = m.nextMonth() {
		var days uint64
		if m, days, ok = r.nextDays(m, day, r.searchEnd(m.first*secondsADay), l); !ok {
			return 0, n, false
		}
		for ; days != 0; days &= days - 1 {
			d := m.first + int64(bits.TrailingZeros64(days)) - 1
			if d != day {
				from = 0
			}
			if all := int64(r.times.timeCount()); r.freq >= daily && from == 0 && n > all {
				n -= all
				continue
			}
			for at, ok := r.firstTimeOf(d, from, l); ok; at, ok = r.firstTimeOf(d, at+1, l) {
				if wall = d*secondsADay + at; wall > r.last {
					return 0, n, false
				}
				if n--; n == 0 {
					return wall, 0, true
				}
			}
		}
	}
}

// prepareWalk computes the first month, the phases and the cycle from the parts.
func (r *recur) prepareWalk(l *looks) {
	r.first = monthAt(floorDiv(r.begin, secondsADay))
	period, rounds := r.interval, int64(gregorian) // in days
	switch r.freq {
	case yearly:
		rounds = 400
	case monthly:
		rounds = 4800
	case weekly:
		period *= 7
	case daily:
	default:
		aDay := secondsADay / r.freq.unitSeconds()
		period = r.interval / gcd(r.interval, aDay)
		r.phases = make([]bool, period)
		for day := range period {
			_, r.phases[day] = r.firstTimeOf(day, 0, l)
		}
	}
	r.cycle = rounds / gcd(period, rounds) * period
	switch r.freq {
	case yearly:
		r.cycle = r.cycle / 400 * gregorian
	case monthly:
		r.cycle = r.cycle / 4800 * gregorian
	}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
