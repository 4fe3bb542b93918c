package schedule

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// words says the set in English, such as "every 2 weeks on Monday and Wednesday at 09:00, 10 times". Parts that have no
// short form are named as they were written.
func (r *rrule) words() string {
	set, _ := splitSet(r.text) // they were read before
	var text string
	switch dates := r.sayDates(); {
	case r.rule == nil:
		return "on " + dates + r.sayExcept()
	case dates != "":
		text = ", and on " + dates
	}
	parts, _ := splitRule(set.rule)
	s := sayRule{recur: r.rule, parts: &parts}
	days, months, times := s.days(), s.months(), s.times()
	words := strings.Join(nonEmpty("every "+each(int(parts.interval), freqUnits[parts.freq]), days, months, times), " ")
	if raw := s.unsaid(set.rule); len(raw) > 0 {
		words += ", with " + listed(raw)
	}
	if set.start.name != "" {
		words += ", from " + sayDay(r.rule.begin)
	}
	switch {
	case parts.count == 1:
		words += ", once"
	case parts.count > 1:
		words += fmt.Sprintf(", %d times", parts.count)
	case parts.until.date:
		words += ", until " + sayDay(r.rule.last)
	case r.rule.bounded:
		words += ", until " + sayWall(r.rule.last)
	}
	return words + text + r.sayExcept()
}

// sayDates says the dates beside the rule.
func (r *rrule) sayDates() string {
	n := len(r.dates) + len(r.real)
	if n > maxSaid {
		return fmt.Sprintf("%d given times", n)
	}
	var list []string
	for _, wall := range r.dates {
		list = append(list, sayWall(wall))
	}
	for _, at := range r.real {
		list = append(list, sayInstant(at, time.UTC))
	}
	return listed(list)
}

// sayExcept says what EXDATE takes out.
func (r *rrule) sayExcept() string {
	n := len(r.days) + len(r.except)
	switch {
	case n == 0:
		return ""
	case n > maxSaid:
		return fmt.Sprintf(", except %d given times", n)
	}
	var list []string
	for _, day := range r.days {
		list = append(list, sayDay(day*secondsADay))
	}
	for _, wall := range r.except {
		list = append(list, sayWall(wall))
	}
	return ", except " + listed(list)
}

func sayDay(wall int64) string { return time.Unix(wall, 0).UTC().Format("2 January 2006") }

func sayWall(wall int64) string {
	if wall%60 != 0 {
		return time.Unix(wall, 0).UTC().Format("2 January 2006 15:04:05")
	}
	return time.Unix(wall, 0).UTC().Format("2 January 2006 15:04")
}

// sayRule says a rule part by part.
type sayRule struct {
	*recur
	parts *ruleParts
	said  []string // parts that need not be named any more
}

// days says which days of its periods, and for a single month of a year the month as well.
func (s *sayRule) days() string {
	d := &s.recur.days
	monthDays := d.monthDays|d.monthEnds != 0 && d.yearDays == nil && d.weeks|d.weekEnds == 0
	weekdays := (d.weekdays != 0 || d.nth != nil) && d.yearDays == nil && d.weeks|d.weekEnds == 0
	switch {
	case monthDays && weekdays && d.nth == nil:
		s.said = append(s.said, "BYMONTHDAY", "BYDAY")
		return "on " + s.monthDays() + " if that is " + sayWeek(d.weekdays)
	case monthDays && !weekdays:
		s.said = append(s.said, "BYMONTHDAY")
		return "on " + s.monthDays()
	case !weekdays || monthDays:
		return ""
	}
	positions := s.parts.lists[bySetPos]
	switch {
	case positions == nil || s.freq <= daily:
	case len(positions) == 1 && d.nth == nil && s.recur.times.size() == 1 && s.freq == monthly:
		s.said = append(s.said, "BYDAY", "BYSETPOS")
		return "on the " + sayPlace(positions[0]) + " of " + sayWeek(d.weekdays)
	}
	s.said = append(s.said, "BYDAY")
	var list []string
	if d.weekdays != 0 {
		list = append(list, sayWeek(d.weekdays))
		if s.freq >= monthly {
			list[0] = "every " + list[0]
		}
	}
	for _, n := range d.nth {
		list = append(list, "the "+sayPlace(n.n)+" "+weekday(n.weekday))
	}
	text := "on " + listed(list)
	if d.nthOfYear && d.nth != nil {
		text += " of the year"
	}
	return text
}

// monthDays says days of the month.
func (s *sayRule) monthDays() string {
	d := &s.recur.days
	if s.freq == yearly && bits.OnesCount64(d.months) == 1 && bits.OnesCount64(d.monthDays) == 1 && d.monthEnds == 0 {
		s.said = append(s.said, "BYMONTH")
		return fmt.Sprintf("%d %s", bits.TrailingZeros64(d.monthDays), time.Month(bits.TrailingZeros64(d.months)))
	}
	var list []string
	if d.monthDays != 0 {
		name := "day "
		if bits.OnesCount64(d.monthDays) > 1 {
			name = "days "
		}
		list = append(list, name+sayNumbers(d.monthDays, 3))
	}
	for n := 1; n <= 31; n++ {
		if d.monthEnds>>n&1 != 0 {
			list = append(list, "the "+sayPlace(-n)+" day")
		}
	}
	return listed(list)
}

// months says the months, if that has not been done.
func (s *sayRule) months() string {
	if s.parts.lists[byMonth] == nil || slices.Contains(s.said, "BYMONTH") {
		return ""
	}
	s.said = append(s.said, "BYMONTH")
	return "in " + sayRuns(s.recur.days.months, func(m int) string { return time.Month(m).String() }, 3)
}

// times says the times of a day, hour or minute.
func (s *sayRule) times() string {
	t := &s.recur.times
	var hours string
	if s.freq < daily && s.parts.lists[byHour] != nil {
		s.said = append(s.said, "BYHOUR")
		hours = "of hour "
		if bits.OnesCount64(s.limits.hours) > 1 {
			hours = "of hours "
		}
		hours += sayNumbers(s.limits.hours, 3)
	}
	var text string
	switch {
	case t.picked != nil:
	case s.freq >= daily && t.size() <= maxSaid:
		s.said = append(s.said, "BYHOUR", "BYMINUTE", "BYSECOND")
		var list []string
		for i := range t.size() {
			list = append(list, sayTime(t.at(i), t.seconds))
		}
		text = "at " + listed(list)
	case s.freq == hourly && t.seconds == 1:
		s.said = append(s.said, "BYMINUTE", "BYSECOND")
		switch n := bits.OnesCount64(t.minutes); {
		case n > 1:
			text = "at minutes " + sayNumbers(t.minutes, 3)
		case t.minutes != 1:
			text = "at minute " + sayNumbers(t.minutes, 3)
		}
	case s.freq == minutely && t.seconds == 1:
		s.said = append(s.said, "BYSECOND")
	}
	return strings.Join(nonEmpty(text, hours), " ")
}

// unsaid returns the parts that have not been said, as they were written.
func (s *sayRule) unsaid(rule string) (raw []string) {
	for part := range strings.SplitSeq(strings.ToUpper(rule), ";") {
		if name, _, _ := strings.Cut(part, "="); strings.HasPrefix(name, "BY") && !slices.Contains(s.said, name) {
			raw = append(raw, part)
		}
	}
	return raw
}

// sayWeek says days of the week, from Monday on.
func sayWeek(set uint64) string {
	return sayRuns(set>>1|set&1<<6, func(n int) string { return weekday(n + 1) }, 3)
}

// sayPlace says a place in a period: first, second, …, or last, second last, … from its end.
func sayPlace(n int) string {
	switch {
	case n == -1:
		return "last"
	case n < 0:
		return sayPlace(-n) + " last"
	case n <= len(nthNames):
		return nthNames[n-1]
	}
	return ordinal(n)
}
