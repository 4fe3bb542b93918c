package schedule

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

var _, _ rouse.Described = (*Schedule)(nil), (*composed)(nil)

// maxListed is how many items of a list are named one by one.
const maxListed = 4

// Describe describes the schedule in English, such as "at 02:30 on Monday to Friday, Europe/Berlin". A zone
// is named where it matters, and is not UTC.
func (s *Schedule) Describe() string {
	z := s.sourcesIn(zone{loc: time.UTC})[0].zone
	switch t := s.times.(type) {
	case *cron:
		if t.wild { // the rule is implied
			z.rule = dstRule{}
		}
	case *rrule:
		if t.elapsed != nil || z.rule == (dstRule{gapShift, repeatFirst}) { // the same for rules
			z.rule = dstRule{}
		}
	}
	return s.describeInEnglish() + z.describeInEnglish()
}

// Location is the zone that the schedule is read in; UTC if it has no local times.
func (s *Schedule) Location() *time.Location { return s.sourcesIn(zone{loc: time.UTC})[0].zone.loc }

func (s *Schedule) describeInEnglish() string {
	if t, ok := s.times.(interface{ describeInEnglish() string }); ok {
		return t.describeInEnglish()
	}
	return s.text
}

// describeInEnglish returns the zone and its rule after a comma, unless they are the defaults.
func (z zone) describeInEnglish() string {
	var text string
	if z.loc != time.UTC {
		text = ", " + z.loc.String()
	}
	if z.rule == (dstRule{}) {
		return text
	}
	var rules []string
	switch z.rule.gap {
	case gapShift:
		rules = append(rules, "local times that the clocks skip are due later by as much")
	case gapSkip:
		rules = append(rules, "local times that the clocks skip are left out")
	}
	switch z.rule.repeat {
	case repeatSecond:
		rules = append(rules, "those that come twice are due the second time")
	case repeatBoth:
		rules = append(rules, "those that come twice are due both times")
	}
	return text + " (" + strings.Join(rules, ", ") + ")"
}

// Location is the zone that the schedule is read in.
func (c *composed) Location() *time.Location { return c.zone.loc }

// Describe describes the schedule in English, such as "at 09:00 on Monday to Friday, Europe/Berlin, except 24
// December 2027".
func (c *composed) Describe() string {
	parts := make([]string, len(c.parts))
	for i, p := range c.parts {
		parts[i] = p.describeInEnglish()
	}
	text := strings.Join(parts, ", and ")
	if c.named {
		text += c.zone.describeInEnglish()
	}
	if items := c.except.describeItems(); len(items) > 0 {
		text += ", except " + joinList(items)
	}
	if c.days != nil {
		text += ", " + c.days.describeInEnglish()
	}
	if c.start != 0 {
		text += ", from " + formatInstant(c.start, c.zone.loc)
	}
	if c.end != rouse.Never {
		text += ", until " + formatInstant(c.end, c.zone.loc)
	}
	return text
}

// describeInEnglish describes what happens on days that do not count.
func (r *days) describeInEnglish() string {
	names := func(list []calendar) string {
		var s []string
		for _, c := range list {
			s = append(s, c.name)
		}
		return joinList(s)
	}
	has := "has"
	if len(r.only) > 1 {
		has = "have"
	}
	leaves := "leaves"
	if len(r.off) > 1 {
		leaves = "leave"
	}
	var which string // of the days that count
	switch {
	case len(r.only) == 0:
		which = names(r.off) + " " + leaves
	case len(r.off) == 0:
		which = names(r.only) + " " + has
	default:
		which = names(r.only) + " " + has + " and " + names(r.off) + " " + leaves
	}
	switch r.shift {
	case rouse.ShiftNext:
		return "moved to the next day that " + which
	case rouse.ShiftPrevious:
		return "moved to the day before that " + which
	}
	return "only on days that " + which
}

// describeItems describes each exception.
func (e *exceptions) describeItems() (items []string) {
	for i, item := range e.items {
		if i == maxListed && len(e.items) > maxListed+1 {
			return append(items, fmt.Sprintf("%d more", len(e.items)-maxListed))
		}
		var one exceptions
		_ = one.parseException(item) // it was read before
		switch {
		case len(one.dates) > 0:
			items = append(items, formatDates(one.dates[0]))
		case len(one.instants) > 0:
			items = append(items, formatInstant(one.instants[0].begin,
				time.UTC)+" to "+formatInstant(one.instants[0].end, time.UTC))
		case len(one.minutes) > 0:
			times, _ := parseCron(item, Options{})
			items = append(items, (&Schedule{text: item, times: times}).describeInEnglish())
		}
	}
	return items
}

func (at once) describeInEnglish() string {
	return "once, on " + formatInstant(rouse.Instant(at), time.UTC)
}

func (e every) describeInEnglish() string {
	return "every " + period{millis: int64(e.step)}.describeInEnglish()
}

func (r *repeat) describeInEnglish() string {
	text := "every " + r.period.describeInEnglish()
	if r.named {
		text += " from " + formatInstant(r.start, r.zone.loc)
	}
	switch times := r.last - r.first + 1; {
	case r.last == math.MaxInt64:
	case times == 1:
		text += ", once"
	default:
		text += fmt.Sprintf(", %d times", times)
	}
	return text
}

// describeInEnglish formats a period after "every": a single unit goes without its number.
func (p period) describeInEnglish() string {
	var parts []string
	add := func(n int64, unit string) {
		switch {
		case n == 1:
			parts = append(parts, "1 "+unit)
		case n > 1:
			parts = append(parts, fmt.Sprint(n, " ", unit, "s"))
		}
	}
	add(p.months/12, "year")
	add(p.months%12, "month")
	if p.days%7 == 0 {
		add(p.days/7, "week")
	} else {
		add(p.days, "day")
	}
	add(p.millis/3_600_000, "hour")
	add(p.millis/60_000%60, "minute")
	if ms := p.millis % 60_000; ms%1000 == 0 {
		add(ms/1000, "second")
	} else if ms > 1000 {
		parts = append(parts, fmt.Sprint(float64(ms)/1000, " seconds"))
	} else {
		add(ms, "millisecond")
	}
	if len(parts) == 1 {
		return strings.TrimPrefix(parts[0], "1 ")
	}
	return strings.Join(parts, " ")
}

// formatInstant formats an instant in a zone, as in "24 December 2027 09:00"; UTC is named, other zones are
// where it is used.
func formatInstant(at rouse.Instant, loc *time.Location) string {
	layout := "2 January 2006 15:04"
	if at%60_000 != 0 {
		layout += ":05"
	}
	if at%1000 != 0 {
		layout += ".000"
	}
	if loc == time.UTC {
		layout += " MST"
	}
	return at.Time().In(loc).Format(layout)
}

// formatDates formats a range of dates, as in "24 December 2027 to 31 December 2027".
func formatDates(r dateRange) string {
	say := func(d rouse.Date) string { return time.UnixMilli(midnightOf(d)).UTC().Format("2 January 2006") }
	if r.first == r.last {
		return say(r.first)
	}
	return say(r.first) + " to " + say(r.last)
}

// joinList joins items as in "a, b and c".
func joinList(items []string) string {
	if len(items) < 2 {
		return strings.Join(items, "")
	}
	items = slices.Clone(items)
	last := len(items) - 1
	return strings.Join(items[:last], ", ") + " and " + items[last]
}
