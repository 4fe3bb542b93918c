package foreign

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// field is a place of a source's expressions: its values, and how they are written.
type field struct {
	name   string
	lo, hi int
	to     string           // between the ends of a range
	word   func(int) string // the English name of a value; the first three letters of it are enough
	wraps  bool             // a range may run over the end
	open   bool             // a/n runs from a to the end
}

func weekdayWord(n int) string { return time.Weekday(n % 7).String() }
func monthWord(n int) string   { return time.Month(n).String() }

// cronFields are minutes, hours, days of a month, months, and days of a week from Sunday = 0 on.
func cronFields(to string, wraps, open bool) [5]field {
	return [5]field{
		{"minute", 0, 59, to, nil, wraps, open}, {"hour", 0, 23, to, nil, wraps, open},
		{"day of month", 1, 31, to, nil, wraps, open},
		{"month", 1, 12, to, monthWord, wraps, open}, {"day of week", 0, 6, to, weekdayWord, wraps, open},
	}
}

// parseSet reads a list of values, ranges and steps as a set.
func (f *field) parseSet(text string) (set uint64, err error) {
	for item := range strings.SplitSeq(text, ",") {
		base, step, stepped := strings.Cut(item, "/")
		lo, hi := f.lo, f.hi
		from, to, ranged := strings.Cut(base, f.to)
		if base != "*" {
			if lo, err = f.parseFieldValue(from); err != nil {
				return 0, err
			}
			if hi = lo; ranged {
				if hi, err = f.parseFieldValue(to); err != nil {
					return 0, err
				}
			} else if stepped && f.open {
				hi = f.lo + f.countValues() - 1
			}
		}
		n := 1
		if stepped {
			if n, err = strconv.Atoi(step); err != nil || n < 1 || base != "*" && !ranged && !f.open {
				return 0, f.refuseStep(item)
			}
			n = min(n, 64) // more is no other set
		}
		if hi < lo {
			if hi += f.countValues(); !f.wraps {
				return 0, f.refuseBackwards(item, lo, hi, n)
			}
		}
		for v := lo; v <= hi; v += n {
			set |= 1 << ((v-f.lo)%f.countValues() + f.lo)
		}
	}
	if f.hi == 7 { // a day of the week, which is Sunday
		set = (set | set>>7) & 0x7f
	}
	if f.hi == 24 { // an hour, which is that of midnight
		set = (set | set>>24) & (1<<24 - 1)
	}
	return set, nil
}

func (f *field) parseFieldValue(text string) (int, error) {
	n, err := strconv.Atoi(text)
	for v := f.lo; f.word != nil && v <= f.hi; v++ {
		if name := f.word(v); strings.EqualFold(text, name) || strings.EqualFold(text, name[:3]) {
			return v, nil
		}
	}
	if err != nil || n < f.lo || n > f.hi {
		return 0, f.refuseValue(text, "is out of bounds")
	}
	return n, nil
}

func (f *field) refuseValue(text, wrong string) error {
	cure := fmt.Sprintf("use %d to %d", f.lo, f.hi)
	if f.word != nil {
		cure += ", or names"
	}
	return rouse.Refuse("schedule", text, "as "+f.name+" "+wrong, cure)
}

// refuseStep refuses an item whose step is no number from 1 on, or comes after a single value.
func (f *field) refuseStep(item string) error {
	base, step, _ := strings.Cut(item, "/")
	if n, err := strconv.Atoi(step); err != nil || n < 1 {
		return rouse.Refuse("schedule", item, "as "+f.name+" has a wrong step",
			fmt.Sprintf("use a step of 1 to %d", f.countValues()-1))
	}
	return rouse.Refuse("schedule", item, "as "+f.name+" has a step after a single value",
		fmt.Sprintf("write %s, or %s%s%d/%s", base, base, f.to, f.hi, step))
}

// refuseBackwards refuses a range over the end of its field, where none may be, with the values from lo to
// hi.
func (f *field) refuseBackwards(item string, lo, hi, step int) error {
	var values []string
	for v := lo; v <= hi; v += step {
		at := (v-f.lo)%f.countValues() + f.lo
		if f.word != nil && item[0] > '9' {
			values = append(values, f.word(at)[:3])
		} else {
			values = append(values, strconv.Itoa(at))
		}
	}
	return rouse.Refuse("schedule", item, "as "+f.name+" runs backwards", "write "+strings.Join(values, ","))
}

// countValues is how many values there are. Of the days of the week, 7 is another name of 0, and 24 of the
// hours.
func (f *field) countValues() int {
	if f.hi == 7 || f.hi == 24 {
		return f.hi
	}
	return f.hi - f.lo + 1
}

// fullSet returns the set of all values.
func (f *field) fullSet() uint64 { return 1<<(f.hi+1) - 1<<f.lo }

// formatSet writes a set as cron does. Only where star is allowed it begins with one if it has a step.
func (f *field) formatSet(set uint64, star bool) string {
	if set == f.fullSet() {
		return "*"
	}
	show := func(v int) string {
		if f.word != nil {
			return strings.ToUpper(f.word(v)[:3])
		}
		return strconv.Itoa(v)
	}
	first, last, n := bits.TrailingZeros64(set), 63-bits.LeadingZeros64(set), bits.OnesCount64(set)
	if n > 2 && (last-first)%(n-1) == 0 && last-first >= n {
		step := (last - first) / (n - 1)
		var steady uint64
		for v := first; v <= last; v += step {
			steady |= 1 << v
		}
		switch {
		case steady == set && star && first == f.lo && last+step > f.hi:
			return fmt.Sprintf("*/%d", step)
		case steady == set:
			return fmt.Sprintf("%s-%s/%d", show(first), show(last), step)
		}
	}
	var items []string
	for set != 0 {
		v := bits.TrailingZeros64(set)
		run := bits.TrailingZeros64(^(set >> v))
		if set &^= 1<<(v+run) - 1<<v; run > 2 {
			items = append(items, show(v)+"-"+show(v+run-1))
			continue
		}
		for i := range run {
			items = append(items, show(v+i))
		}
	}
	return strings.Join(items, ",")
}

// narrowSteps replaces steps that pass the end of their field by the only value that they match, as most
// crons take them: */60 by 0. Days keep a star at their beginning if it decides that both fields have to
// match.
func narrowSteps(expr string) string {
	f := strings.Fields(expr)
	if len(f) != 5 {
		return expr
	}
	was := [2]string{f[2], f[4]}
	fields := cronFields("-", false, true)
	fields[4].hi = 7
	for i := range fields {
		items := strings.Split(f[i], ",")
		for j, item := range items {
			items[j] = fields[i].narrowItem(item)
		}
		f[i] = strings.Join(items, ",")
	}
	if (was[0][0] == '*' || was[1][0] == '*') && f[2][0] != '*' && f[4][0] != '*' {
		f[2], f[4] = was[0], was[1]
	}
	return strings.Join(f, " ")
}

func (f *field) narrowItem(item string) string {
	base, step, _ := strings.Cut(item, "/")
	if n, err := strconv.ParseUint(step, 10, 31); err != nil || int(n) < f.countValues() {
		return item
	}
	if _, err := f.parseSet(item); err != nil {
		return item
	}
	if base == "*" {
		return strconv.Itoa(f.lo)
	}
	first, _, _ := strings.Cut(base, "-")
	return first
}

// localTimes are times as sources have them: the permitted seconds, minutes and so on.
type localTimes struct {
	seconds uint64
	set     [5]uint64 // as cronFields
	odd     [2]string // days of the month and of the week in addition, such as L-1 and MON#2
	year    string    // as quartz: has it; none is every year
	either  bool      // a day has to match one of the day fields, if both are given, instead of both
}

// putTimes adds the times to the schedules of a timer.
func (l *localTimes) putTimes(s *rouse.Spec) error {
	var texts [5]string
	fields := cronFields("-", false, true)
	for i := range fields {
		if l.set[i] != 0 {
			texts[i] = fields[i].formatSet(l.set[i], i < 2)
		}
	}
	day, week := strings.Trim(texts[2]+","+l.odd[0], ","), strings.Trim(texts[4]+","+l.odd[1], ",")
	seconds := (&field{lo: 0, hi: 59}).formatSet(l.seconds, true) + " "
	one := day == "*" || week == "*"
	write := func(prefix, day, week string) {
		addSchedule(s, strings.TrimSpace(prefix+strings.Join([]string{texts[0], texts[1], day, texts[3], week, l.year}, " ")))
	}
	switch {
	case l.odd == [2]string{} && l.year == "" && (one || l.either):
		if seconds == "0 " {
			write("", day, week)
		} else {
			write("cron6:"+seconds, day, week)
		}
	case !one && l.either:
		write("quartz:"+seconds, day, "?")
		write("quartz:"+seconds, "?", week)
	case l.year == "":
		write("spring:"+seconds, day, week)
	case week == "*":
		write("quartz:"+seconds, day, "?")
	case day == "*":
		write("quartz:"+seconds, "?", week)
	default:
		return rouse.Refuse("schedule", l.year, "are years, together with days of the month and of the week",
			"leave out the years, and give the timer a start and an end")
	}
	return nil
}

// addSchedule adds a schedule, which is the first one, or one of the others.
func addSchedule(s *rouse.Spec, text string) {
	if s.Schedule == "" {
		s.Schedule = text
	} else {
		s.Also = append(s.Also, text)
	}
}
