package schedule

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// describeInEnglish describes the set in English, such as "every 2 weeks on Monday and Wednesday at 09:00, 10
// times". Parts that have no short form are named as they were written.
func (r *rrule) describeInEnglish() string {
	set, _ := splitSet(r.text) // they were read before
	var text string
	switch dates := r.describeDates(); {
	case r.rule == nil:
		return "on " + dates + r.describeExcept()
	case dates != "":
		text = ", and on " + dates
	}
	parts, _ := splitRule(set.rule)
	s := ruleWords{recur: r.rule, parts: &parts}
	days, months, times := s.describeRuleDays(), s.describeRuleMonths(), s.describeRuleTimes()
	words := strings.Join(nonEmpty("every "+formatUnits(int(parts.interval), freqUnits[parts.freq]), days, months, times),
		" ")
	if raw := s.undescribedParts(set.rule); len(raw) > 0 {
		words += ", with " + joinList(raw)
	}
	if set.start.name != "" {
		words += ", from " + formatDay(r.rule.begin)
	}
	switch {
	case parts.count == 1:
		words += ", once"
	case parts.count > 1:
		words += fmt.Sprintf(", %d times", parts.count)
	case parts.until.date:
		words += ", until " + formatDay(r.rule.last)
	case r.rule.bounded:
		words += ", until " + formatWall(r.rule.last)
	}
	return words + text + r.describeExcept()
}

// describeDates describes the dates in addition to the rule.
func (r *rrule) describeDates() string {
	n := len(r.dates) + len(r.real)
	if n > maxListed {
		return fmt.Sprintf("%d given times", n)
	}
	var list []string
	for _, wall := range r.dates {
		list = append(list, formatWall(wall))
	}
	for _, at := range r.real {
		list = append(list, formatInstant(at, time.UTC))
	}
	return joinList(list)
}

// describeExcept describes the times that EXDATE removes.
func (r *rrule) describeExcept() string {
	n := len(r.days) + len(r.except)
	switch {
	case n == 0:
		return ""
	case n > maxListed:
		return fmt.Sprintf(", except %d given times", n)
	}
	var list []string
	for _, day := range r.days {
		list = append(list, formatDay(day*secondsADay))
	}
	for _, wall := range r.except {
		list = append(list, formatWall(wall))
	}
	return ", except " + joinList(list)
}

func formatDay(wall int64) string { return time.Unix(wall, 0).UTC().Format("2 January 2006") }

func formatWall(wall int64) string {
	if wall%60 != 0 {
		return time.Unix(wall, 0).UTC().Format("2 January 2006 15:04:05")
	}
	return time.Unix(wall, 0).UTC().Format("2 January 2006 15:04")
}

// ruleWords describes a rule part by part.
type ruleWords struct {
	*recur
	parts     *ruleParts
	described []string // parts that are described already
}

// describeRuleDays describes which days of its periods, and for a single month of a year the month as well.
func (s *ruleWords) describeRuleDays() string {
	d := &s.recur.days
	monthDays := d.monthDays|d.monthEnds != 0 && d.yearDays == nil && d.weeks|d.weekEnds == 0
	weekdays := (d.weekdays != 0 || d.nth != nil) && d.yearDays == nil && d.weeks|d.weekEnds == 0
	switch {
	case monthDays && weekdays && d.nth == nil:
		s.described = append(s.described, "BYMONTHDAY", "BYDAY")
		return "on " + s.monthDays() + " if that is " + formatWeek(d.weekdays)
	case monthDays && !weekdays:
		s.described = append(s.described, "BYMONTHDAY")
		return "on " + s.monthDays()
	case !weekdays || monthDays:
		return ""
	}
	positions := s.parts.lists[bySetPos]
	switch {
	case positions == nil || s.freq <= daily:
	case len(positions) == 1 && d.nth == nil && s.recur.times.timeCount() == 1 && s.freq == monthly:
		s.described = append(s.described, "BYDAY", "BYSETPOS")
		return "on the " + formatPlace(positions[0]) + " of " + formatWeek(d.weekdays)
	}
	s.described = append(s.described, "BYDAY")
	var list []string
	if d.weekdays != 0 {
		list = append(list, formatWeek(d.weekdays))
		if s.freq >= monthly {
			list[0] = "every " + list[0]
		}
	}
	for _, n := range d.nth {
		list = append(list, "the "+formatPlace(n.n)+" "+weekdayName(n.weekday))
	}
	text := "on " + joinList(list)
	if d.nthOfYear && d.nth != nil {
		text += " of the year"
	}
	return text
}

// monthDays describes days of the month.
func (s *ruleWords) monthDays() string {
	d := &s.recur.days
	if s.freq == yearly && bits.OnesCount64(d.months) == 1 && bits.OnesCount64(d.monthDays) == 1 && d.monthEnds == 0 {
		s.described = append(s.described, "BYMONTH")
		return fmt.Sprintf("%d %s", bits.TrailingZeros64(d.monthDays), time.Month(bits.TrailingZeros64(d.months)))
	}
	var list []string
	if d.monthDays != 0 {
		name := "day "
		if bits.OnesCount64(d.monthDays) > 1 {
			name = "days "
		}
		list = append(list, name+formatNumbers(d.monthDays))
	}
	for n := 1; n <= 31; n++ {
		if d.monthEnds>>n&1 != 0 {
			list = append(list, "the "+formatPlace(-n)+" day")
		}
	}
	return joinList(list)
}

// describeRuleMonths describes the months, unless describeRuleDays did.
func (s *ruleWords) describeRuleMonths() string {
	if s.parts.lists[byMonth] == nil || slices.Contains(s.described, "BYMONTH") {
		return ""
	}
	s.described = append(s.described, "BYMONTH")
	return "in " + formatRuns(s.recur.days.months, func(m int) string { return time.Month(m).String() })
}

// describeRuleTimes describes the times of a day, hour or minute.
func (s *ruleWords) describeRuleTimes() string {
	t := &s.recur.times
	var hours string
	if s.freq < daily && s.parts.lists[byHour] != nil {
		s.described = append(s.described, "BYHOUR")
		hours = "of hour "
		if bits.OnesCount64(s.limits.hours) > 1 {
			hours = "of hours "
		}
		hours += formatNumbers(s.limits.hours)
	}
	var text string
	switch {
	case t.picked != nil:
	case s.freq >= daily && t.timeCount() <= maxListed:
		s.described = append(s.described, "BYHOUR", "BYMINUTE", "BYSECOND")
		var list []string
		for i := range t.timeCount() {
			list = append(list, formatTime(t.timeAt(i), t.seconds))
		}
		text = "at " + joinList(list)
	case s.freq == hourly && t.seconds == 1:
		s.described = append(s.described, "BYMINUTE", "BYSECOND")
		switch n := bits.OnesCount64(t.minutes); {
		case n > 1:
			text = "at minutes " + formatNumbers(t.minutes)
		case t.minutes != 1:
			text = "at minute " + formatNumbers(t.minutes)
		}
	case s.freq == minutely && t.seconds == 1:
		s.described = append(s.described, "BYSECOND")
	}
	return strings.Join(nonEmpty(text, hours), " ")
}

// undescribedParts returns the parts that have not been described, as they were written.
func (s *ruleWords) undescribedParts(rule string) (raw []string) {
	for part := range strings.SplitSeq(strings.ToUpper(rule), ";") {
		if name, _, _ := strings.Cut(part, "="); strings.HasPrefix(name, "BY") && !slices.Contains(s.described, name) {
			raw = append(raw, part)
		}
	}
	return raw
}

// formatWeek lists days of the week, from Monday on.
func formatWeek(set uint64) string {
	return formatRuns(set>>1|set&1<<6, func(n int) string { return weekdayName(n + 1) })
}

// formatPlace formats a place in a period: first, second, …, or last, second last, … from its end.
func formatPlace(n int) string {
	switch {
	case n == -1:
		return "last"
	case n < 0:
		return formatPlace(-n) + " last"
	case n <= len(nthNames):
		return nthNames[n-1]
	}
	return formatOrdinal(n)
}
