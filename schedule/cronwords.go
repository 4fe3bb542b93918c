package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// describeInEnglish describes the schedule in English. Expressions without a short form are described field
// by field, so that the text is never wrong.
func (c *cron) describeInEnglish() string {
	at, whole := c.describeTimes()
	days, every := c.describeDays()
	if every && whole { // "every 15 minutes", not "every 15 minutes every day"
		days = ""
	}
	return strings.Join(nonEmpty(at, days, c.describeMonths(), c.describeYears()), " ")
}

// describeTimes describes the times of day. whole means that they continue over midnight, so that no day is
// named.
func (c *cron) describeTimes() (words string, whole bool) {
	const day = 24 * 60 * 60
	times := bits.OnesCount64(c.seconds) * bits.OnesCount64(c.minutes) * bits.OnesCount64(c.hours)
	start := c.timeFrom(0)
	if times == 1 {
		return "at " + formatTime(start, c.seconds), false
	}
	step := c.timeFrom(start+1) - start
	last := start
	steady := true
	for n := 1; n < times && steady; n++ {
		next := c.timeFrom(last + 1)
		steady = next-last == step
		last = next
	}
	switch {
	case steady && step*int64(times) == day && c.wild:
		switch {
		case start == 0:
			return "every " + formatStep(step), true
		case step == 60:
			return fmt.Sprintf("at second %d of every minute", start), true
		case step == 3600 && start%60 == 0:
			return fmt.Sprintf("at minute %d of every hour", start/60), true
		}
	case times <= 3, !steady && times <= 6:
		var list []string
		for at := start; len(list) < times; at = c.timeFrom(at + 1) {
			list = append(list, formatTime(at, c.seconds))
		}
		return "at " + joinWithAnd(list), false
	}
	if steady {
		return "every " + formatStep(step) + " from " + formatTime(start, c.seconds) + " to " +
			formatTime(last, c.seconds), false
	}
	return c.describeFields(), c.hours == 1<<24-1
}

// timeFrom returns the first time of day that is not before the given one, in seconds.
func (c *cron) timeFrom(at int64) int64 {
	at, _ = c.matchClock(int(at/3600), int(at/60%60), int(at%60))
	return at
}

// describeFields describes the times of day field by field.
func (c *cron) describeFields() string {
	var parts []string
	part := func(set uint64, n int, unit string, link string) {
		step := bits.TrailingZeros64(set&(set-1)) - bits.TrailingZeros64(set)
		switch size := bits.OnesCount64(set); {
		case size == n:
			parts = append(parts, link+"every "+unit)
		case size > 3 && set&1 != 0 && size*step == n && set == stepSet(0, n, step):
			parts = append(parts, link+"every "+formatOrdinal(step)+" "+unit)
		default:
			if size > 1 {
				unit += "s"
			}
			parts = append(parts, link+unit+" "+formatNumbers(set))
		}
	}
	if c.seconds != 1 {
		part(c.seconds, 60, "second", "")
		part(c.minutes, 60, "minute", "of ")
	} else {
		part(c.minutes, 60, "minute", "")
	}
	part(c.hours, 24, "hour", "of ")
	return "at " + strings.Join(parts, " ")
}

// stepSet returns the set of from, from+step, … below n.
func stepSet(from, n, step int) uint64 {
	var set uint64
	for v := from; v < n && step > 0; v += step {
		set |= 1 << v
	}
	return set
}

// describeDays describes the days; every means that all days match.
func (c *cron) describeDays() (words string, every bool) {
	month := "the month"
	if bits.OnesCount64(c.months) == 1 {
		month = time.Month(nextBit(c.months, 1)).String()
	}
	monthdays := c.describeMonthdays(month)
	weekdays := c.describeWeekdays(month)
	allDays, allWeekdays := c.days == 1<<32-2, c.weekdays == 1<<7-1
	switch {
	case allDays && allWeekdays, !c.both && (allDays || allWeekdays):
		return "every day", true
	case allWeekdays:
		return "on " + monthdays, false
	case allDays:
		return "on " + weekdays, false
	case c.both:
		return "on " + monthdays + " if that is " + weekdays, false
	}
	return "on " + monthdays + " or on " + weekdays, false
}

// describeMonthdays describes the day-of-month field.
func (c *cron) describeMonthdays(month string) string {
	var list []string
	if c.days != 0 {
		size := bits.OnesCount64(c.days)
		first := bits.TrailingZeros64(c.days)
		step := bits.TrailingZeros64(c.days&(c.days-1)) - first
		switch {
		case size == 1:
			list = append(list, fmt.Sprintf("day %d of %s", first, month))
		case size > 4 && step > 1 && c.days == stepSet(first, 64-bits.LeadingZeros64(c.days), step):
			list = append(list, fmt.Sprintf("every %s day from day %d to day %d of %s", formatOrdinal(step), first,
				63-bits.LeadingZeros64(c.days), month))
		default:
			list = append(list, "days "+formatNumbers(c.days)+" of "+month)
		}
	}
	if o := c.odd; o != nil {
		for back := range 31 {
			last := "the last day of " + month
			switch {
			case back == 1:
				last = "the day before " + last
			case back > 1:
				last = "the " + formatOrdinal(back) + " day before " + last
			}
			if o.fromLast>>back&1 != 0 {
				list = append(list, last)
			}
			if o.lastWork>>back&1 != 0 {
				list = append(list, "the weekday nearest to "+last)
			}
		}
		for day := range 32 {
			if o.work>>day&1 != 0 {
				list = append(list, fmt.Sprintf("the weekday nearest to day %d of %s", day, month))
			}
		}
	}
	return joinWithAnd(list)
}

// describeWeekdays describes the day-of-week field.
func (c *cron) describeWeekdays(month string) string {
	var list []string
	week := c.weekdays>>1 | c.weekdays&1<<6 // from Monday on
	for w := 0; w < 7; w++ {
		if week>>w&1 == 0 {
			continue
		}
		run := bits.TrailingZeros64(^(week >> w))
		if run > 2 {
			list = append(list, weekdayName(w+1)+" to "+weekdayName(w+run))
			w += run - 1
		} else {
			list = append(list, weekdayName(w+1))
		}
	}
	if o := c.odd; o != nil {
		for i := range 35 {
			if o.nth>>i&1 != 0 {
				list = append(list, fmt.Sprintf("the %s %s of %s", nthNames[i/7], weekdayName(i), month))
			}
		}
		for w := 1; w <= 7; w++ {
			if o.last>>(w%7)&1 != 0 {
				list = append(list, "the last "+weekdayName(w)+" of "+month)
			}
		}
	}
	return joinWithAnd(list)
}

var nthNames = [...]string{"first", "second", "third", "fourth", "fifth"}

// weekdayName names a day of the week, Sunday being 0, 7 and so on.
func weekdayName(n int) string { return time.Weekday(n % 7).String() }

// describeMonths describes the months, unless it is every one, or a single one, which the days contain.
func (c *cron) describeMonths() string {
	switch bits.OnesCount64(c.months) {
	case 12:
		return ""
	case 1:
		if days, _ := c.describeDays(); strings.Contains(days, " of ") {
			return ""
		}
	}
	return "in " + formatRuns(c.months, func(m int) string { return time.Month(m).String() })
}

// describeYears describes the years, unless it is every one.
func (c *cron) describeYears() string {
	if c.years == nil {
		return ""
	}
	var list []string
	for y := c.years.nextMember(0); y >= 0; {
		end := y
		for c.years.nextMember(end+1) == end+1 {
			end++
		}
		next := c.years.nextMember(end + 1)
		switch {
		case end > y+1:
			list = append(list, fmt.Sprintf("%d to %d", firstYear+y, firstYear+end))
		case end == y+1:
			list = append(list, strconv.Itoa(firstYear+y), strconv.Itoa(firstYear+end))
		default:
			list = append(list, strconv.Itoa(firstYear+y))
		}
		y = next
	}
	if n := len(list); n > 8 {
		first, second := c.years.nextMember(0), c.years.nextMember(c.years.nextMember(0)+1)
		if c.years.isSteady(first, second-first) {
			return fmt.Sprintf("in every %s year from %s to %s", formatOrdinal(second-first), list[0], list[n-1])
		}
	}
	return "in " + joinWithAnd(list)
}

// isSteady reports whether a set is first, first+step, … without a gap.
func (b *bitset) isSteady(first, step int) bool {
	for v := first; ; v += step {
		next := b.nextMember(v + 1)
		if next < 0 {
			return true
		}
		if next != v+step {
			return false
		}
	}
}

// formatTime shows a time of day, with seconds if they matter.
func formatTime(at int64, seconds uint64) string {
	if seconds == 1 {
		return fmt.Sprintf("%02d:%02d", at/3600, at/60%60)
	}
	return fmt.Sprintf("%02d:%02d:%02d", at/3600, at/60%60, at%60)
}

// formatStep describes the time between two due times.
func formatStep(step int64) string {
	switch {
	case step%3600 == 0:
		return formatUnits(int(step/3600), "hour")
	case step%60 == 0:
		return formatUnits(int(step/60), "minute")
	}
	return formatUnits(int(step), "second")
}

// formatUnits returns the words after "every".
func formatUnits(n int, unit string) string {
	if n == 1 {
		return unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

// formatOrdinal returns 1st, 2nd, 3rd, 4th, …
func formatOrdinal(n int) string {
	suffix := "th"
	if n/10%10 != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}

// formatNumbers lists the numbers of a set.
func formatNumbers(set uint64) string { return formatRuns(set, strconv.Itoa) }

// formatRuns lists the names of a set, runs of three and more as ranges.
func formatRuns(set uint64, name func(int) string) string {
	var list []string
	for set != 0 {
		first := bits.TrailingZeros64(set)
		run := bits.TrailingZeros64(^(set >> first))
		if run < 3 {
			run = 1
			list = append(list, name(first))
		} else {
			list = append(list, name(first)+" to "+name(first+run-1))
		}
		set &^= 1<<(first+run) - 1<<first
	}
	return joinWithAnd(list)
}

// joinWithAnd joins a list with commas and "and".
func joinWithAnd(list []string) string { return joinList(list) }

// nonEmpty returns the texts that are not empty.
func nonEmpty(texts ...string) []string {
	var all []string
	for _, t := range texts {
		if t != "" {
			all = append(all, t)
		}
	}
	return all
}
