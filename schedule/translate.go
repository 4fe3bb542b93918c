package schedule

import (
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// Translate writes a cron expression in another dialect, which is named by its prefix: "cron6:", "quartz:",
// "aws:" or "spring:", or nothing for five fields. It has the same days and times of day; H has become
// numbers. A schedule without a form in the dialect is refused. Same reports whether a target reads the
// result as rouse does.
func (s *Schedule) Translate(prefix string) (string, error) {
	c, ok := s.times.(*cron)
	if !ok {
		return "", refuseExpr(s.text, "is no cron expression", `give one, such as "*/5 * * * *"`)
	}
	to := cron5
	for _, d := range dialects {
		if d.prefix == prefix {
			to = d
		}
	}
	from, texts := s.writtenFields()
	switch {
	case to == cron5 && s.text[0] == '@', from == to && to != cron5 && !strings.Contains(s.text, "("):
		return s.Resolved(), nil
	case to.first == 1 && c.seconds != 1:
		return "", refuseExpr(s.text, "has seconds", "give minutes only")
	case !to.year && c.years != nil:
		return "", refuseExpr(s.text, "has years", "leave them out, or give an end")
	}
	for i := range texts {
		var err *fault
		if texts[i], err = fieldIn(from, i).translateField(texts[i], from, to); err != nil {
			return "", refuseExpr(s.text, err.wrong, err.cure)
		}
	}
	if err := c.translateDays(s.text, texts, to); err != nil {
		return "", err
	}
	if to == quartz && texts[6] == "*" || !to.year {
		texts = texts[:6]
	}
	return to.prefix + strings.Join(texts[to.first:], " "), nil
}

// writtenFields returns the dialect and all fields of a cron expression, from the second to the year.
func (s *Schedule) writtenFields() (*dialect, []string) {
	from, text := cron5, s.Resolved()
	for _, d := range dialects {
		if rest, ok := strings.CutPrefix(text, d.prefix); ok {
			from, text = d, strings.TrimSuffix(strings.TrimPrefix(rest, "cron("), ")")
			if from == aws && !strings.HasPrefix(rest, "cron(") {
				text = rest // its last bracket is no function's
			}
		}
	}
	if macro, ok := macros[text]; ok {
		from, text = cron5, macro
	}
	texts := strings.Fields(text)
	if from.first == 1 {
		texts = append([]string{"0"}, texts...)
	}
	if len(texts) == 6 {
		texts = append(texts, "*")
	}
	return from, texts
}

func fieldIn(d *dialect, place int) *field {
	if fields[place] == &weekday0 {
		return d.weekday
	}
	return fields[place]
}

// translateDays makes the two day fields those of a dialect.
func (c *cron) translateDays(expr string, texts []string, to *dialect) error {
	p := c.normalForm()
	day, weekday := &texts[3], &texts[5]
	if p.days == everyDay {
		*day = "*"
	}
	if p.weekdays == everyWeekday {
		*weekday = "*"
	}
	one := *day == "*" || *weekday == "*"
	switch {
	case one && to.unless && *weekday == "*":
		*weekday = "?"
	case one && to.unless:
		*day = "?"
	case one:
	case to.unless:
		return refuseExpr(expr, "has both day fields, of which this scheduler takes one",
			"give one of them, or make two timers")
	case to.and && !p.both:
		return refuseExpr(expr, "has two day fields, of which one has to match", "make two timers")
	case !to.and && p.both && (*day)[0] != '*' && (*weekday)[0] != '*':
		return refuseExpr(expr, "has two day fields that have to match both", "give one of them")
	}
	return nil
}

// translateField writes a field of a dialect in that of another one.
func (f *field) translateField(text string, from, to *dialect) (string, *fault) {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		base, _, stepped := strings.Cut(item, "/")
		if base == "?" {
			item, base = "*", "*"
		}
		if base == "*" && !(stepped && from.monday != to.monday && f.isWeekdayField()) {
			items = append(items, item)
			continue
		}
		if from.odd && f.isDayField() {
			var v values
			if odd, err := f.parseOdd(item, from, &v); err != nil {
				return "", err
			} else if odd {
				if item = f.nameOdd(strings.ToUpper(item), &v); strings.ContainsAny(item, "LW#") && !to.odd {
					return "", f.newFault(item, "has L, W or #", "give days or days of the week")
				}
				items = append(items, item)
				continue
			}
		}
		lo, hi, step, err := f.parseItem(item, from)
		if err != nil {
			return "", err
		}
		items = append(items, f.formatSpan(lo, hi, step, func(v int) string {
			v = (v-f.min)%f.valueCount() + f.min
			switch named := base[0] > '9'; {
			case f.isWeekdayField() && (named || from.weekday != to.weekday):
				return strings.ToUpper(weekdayNames[v-f.bitBase()])
			case named && step == 1:
				return strings.ToUpper(f.names[v-f.min])
			}
			return strconv.Itoa(v)
		}))
	}
	return strings.Join(items, ","), nil
}

// nameOdd writes an element with L, W or #, with the name of its day of the week.
func (f *field) nameOdd(item string, v *values) string {
	name := func(n int) string { return strings.ToUpper(weekdayNames[n%7]) }
	switch {
	case v.odd.last != 0:
		return name(bits.TrailingZeros64(v.odd.last)) + "L"
	case v.odd.nth != 0:
		n := bits.TrailingZeros64(v.odd.nth)
		return name(n) + "#" + strconv.Itoa(n/7+1)
	case f.isWeekdayField():
		return name(int(time.Saturday))
	}
	return item
}

// formatSpan writes an element so that every dialect has it: a range that does not pass the end of the field,
// or its values.
func (f *field) formatSpan(lo, hi, step int, show func(v int) string) string {
	switch {
	case lo == hi:
		return show(lo)
	case lo > hi:
		hi += f.valueCount()
	case f.isWeekdayField() && (step > 1 || hi-f.min >= f.valueCount()):
	case step > 1:
		return show(lo) + "-" + show(hi) + "/" + strconv.Itoa(step)
	default:
		return show(lo) + "-" + show(hi)
	}
	var list []string
	for v := lo; v <= hi; v += step {
		list = append(list, show(v))
	}
	return strings.Join(list, ",")
}

// All days of a month, and of a week.
const (
	everyDay     = 1<<32 - 1<<1
	everyWeekday = 1<<7 - 1
)

// normalForm returns the schedule with all that does not matter left out, so that two can be compared.
func (c *cron) normalForm() cron {
	p := *c
	p.resolved, p.wild = "", false // the rule of the zone has the effect of wild
	var odd oddDays
	if c.odd != nil {
		odd = *c.odd
	}
	if !p.both && (p.days == everyDay || p.weekdays == everyWeekday) {
		p.days, p.weekdays = everyDay, everyWeekday
	}
	if p.days == everyDay {
		odd.fromLast, odd.lastWork, odd.work, p.both = 0, 0, 0, true
	}
	if p.weekdays == everyWeekday {
		odd.last, odd.nth, p.both = 0, 0, true
	}
	p.odd = &odd
	return p
}

// Same reports whether two schedules have the same times from an instant on. It compares cron expressions
// (changes of the clocks up to the year 2100), intervals without an end, and single times, and returns false
// for all others.
func (s *Schedule) Same(other *Schedule, from rouse.Instant) bool {
	a, isCron := s.times.(*cron)
	b, areCron := other.times.(*cron)
	if isCron && areCron {
		return a.hasSameTimes(b, from)
	}
	next, ok := s.Next(from - 1)
	also, both := other.Next(from - 1)
	if s.oneShot && other.oneShot {
		return ok == both && next == also
	}
	step, isInterval := s.Interval()
	otherStep, areIntervals := other.Interval()
	return isInterval && areIntervals && step == otherStep && ok && both && next == also
}

func (c *cron) hasSameTimes(other *cron, from rouse.Instant) bool {
	a, b := c.normalForm(), other.normalForm()
	rules := a.zone.rule == b.zone.rule || !a.meetsChange(from)
	years := a.years == b.years || a.years != nil && b.years != nil && *a.years == *b.years
	zones := a.zone.loc.String() == b.zone.loc.String()
	odd := *a.odd == *b.odd
	a.zone, a.years, a.odd = b.zone, b.years, b.odd
	return a == b && rules && years && zones && odd
}

// meetsChange reports whether a change of the clocks, after an instant, skips or repeats a local time of the
// schedule.
func (c *cron) meetsChange(from rouse.Instant) bool {
	s := c.zone.spanAt(int64(from) / 1000)
	for s.end < lastRule {
		next := c.zone.spanAt(s.end)
		lo, hi := next.begin+min(s.offset, next.offset), next.begin+max(s.offset, next.offset)
		steps := 0
		if wall, ok := c.matchWall(lo, &steps); ok && wall < hi {
			return true
		}
		s = next
	}
	return false
}

// Interval returns the time between two occurrences of an interval without an end; ok is false for all other
// forms.
func (s *Schedule) Interval() (step time.Duration, ok bool) {
	e, ok := s.asInterval()
	return time.Duration(e.step) * time.Millisecond, ok
}
