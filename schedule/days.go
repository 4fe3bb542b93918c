package schedule

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/rousehq/rouse"
)

// maxMove bounds the days by which an occurrence is moved; if none of them counts, the occurrence is not due.
const maxMove = 366

// days are the days that count by a calendar rule.
type days struct {
	off, only []calendar
	shift     rouse.Shift
}

// calendar is a set of dates with a name.
type calendar struct {
	name  string
	dates []rouse.Date // ascending; nil for weekends
}

// parseDays looks up the calendars of a rule; nil if it names none.
func parseDays(rule *rouse.CalendarRule, lookup func(string) ([]rouse.Date, bool)) (*days, error) {
	if len(rule.Off) == 0 && len(rule.Only) == 0 {
		return nil, nil
	}
	d := &days{shift: rule.Shift}
	var err error
	if d.off, err = resolveCalendars("calendar.off", rule.Off, lookup); err != nil {
		return nil, err
	}
	if d.only, err = resolveCalendars("calendar.only", rule.Only, lookup); err != nil {
		return nil, err
	}
	return d, nil
}

func resolveCalendars(field string, names []string, lookup func(string) ([]rouse.Date, bool)) ([]calendar, error) {
	list := make([]calendar, len(names))
	for i, name := range names {
		list[i].name = name
		if name == rouse.Weekends {
			continue
		}
		var ok bool
		if lookup != nil {
			list[i].dates, ok = lookup(name)
		}
		if !ok {
			return nil, rouse.Refuse(fmt.Sprintf("%s[%d]", field, i), name, "is no calendar of this namespace",
				"create it with rouse calendar put "+name+", or PUT …/calendars/"+name+", or name another such as "+rouse.Weekends)
		}
	}
	return list, nil
}

func (c *calendar) hasDate(d rouse.Date) bool {
	if c.name == rouse.Weekends {
		w := d.Weekday()
		return w == time.Saturday || w == time.Sunday
	}
	_, found := slices.BinarySearch(c.dates, d)
	return found
}

// firstFrom returns the first date of the calendar at or after d; ok is false if none exists.
func (c *calendar) firstFrom(d rouse.Date) (rouse.Date, bool) {
	if c.name == rouse.Weekends {
		if w := d.Weekday(); w != time.Sunday {
			d += rouse.Date(time.Saturday - w)
		}
		return d, true
	}
	i, _ := slices.BinarySearch(c.dates, d)
	if i == len(c.dates) {
		return 0, false
	}
	return c.dates[i], true
}

// endOfRun returns the first date after d that the calendar does not contain; it contains d.
func (c *calendar) endOfRun(d rouse.Date) rouse.Date {
	if c.name == rouse.Weekends {
		if d.Weekday() == time.Saturday {
			return d + 2
		}
		return d + 1
	}
	i, _ := slices.BinarySearch(c.dates, d)
	return d + rouse.Date(sort.Search(len(c.dates)-i, func(n int) bool { return c.dates[i+n] != d+rouse.Date(n) }))
}

// endOfRuns returns the end of the longest run of dates from d in one of the calendars; d itself if no
// calendar contains d.
func endOfRuns(list []calendar, d rouse.Date) rouse.Date {
	end := d
	for i := range list {
		if list[i].hasDate(d) {
			end = max(end, list[i].endOfRun(d))
		}
	}
	return end
}

func inCalendars(list []calendar, d rouse.Date) bool {
	return slices.ContainsFunc(list, func(c calendar) bool { return c.hasDate(d) })
}

// spendChecks takes the steps of one check of the calendars.
func (r *days) spendChecks(b *budget) { b.spendLooks(len(r.off) + len(r.only)) }

// dateCounts reports whether a date counts.
func (r *days) dateCounts(d rouse.Date) bool {
	return !inCalendars(r.off, d) && (len(r.only) == 0 || inCalendars(r.only, d))
}

// nextCounted returns the first date that counts and is not before d.
func (r *days) nextCounted(d rouse.Date, b *budget) (rouse.Date, bool) {
	for b.spendStep() {
		if len(r.only) > 0 {
			first, ok := rouse.Date(0), false
			for i := range r.only {
				if f, found := r.only[i].firstFrom(d); found && (!ok || f < first) {
					first, ok = f, true
				}
			}
			if d = first; !ok {
				return 0, false
			}
		}
		end := endOfRuns(r.off, d)
		if end == d {
			return d, true
		}
		d = end
	}
	return 0, false
}

// nextUncounted returns the first date that does not count and is not before d.
func (r *days) nextUncounted(d rouse.Date, b *budget) (rouse.Date, bool) {
	off, ok := rouse.Date(math.MaxInt32), false
	for i := range r.off {
		if f, found := r.off[i].firstFrom(d); found && f < off {
			off, ok = f, true
		}
	}
	if len(r.only) == 0 {
		return off, ok
	}
	for d < off && b.spendStep() {
		end := endOfRuns(r.only, d)
		if end == d {
			return d, true
		}
		d = end
	}
	return off, ok
}

// shiftTarget returns the date to which the shift moves an occurrence on the date d; ok is false if the
// occurrence is skipped.
func (r *days) shiftTarget(d rouse.Date, b *budget) (rouse.Date, bool) {
	step := rouse.Date(1)
	if r.shift == rouse.ShiftPrevious {
		step = -1
	}
	for range maxMove + 1 {
		if r.spendChecks(b); r.dateCounts(d) {
			return d, true
		}
		if d += step; r.shift == rouse.ShiftSkip {
			break
		}
	}
	return 0, false
}

// shiftOrigins returns the first and the last of the dates whose occurrences are due on the date d, which
// counts: d itself and the adjacent days that do not count.
func (r *days) shiftOrigins(d rouse.Date, b *budget) (first, last rouse.Date) {
	first, last = d, d
	for range maxMove {
		r.spendChecks(b)
		switch {
		case r.shift == rouse.ShiftNext && !r.dateCounts(first-1):
			first--
		case r.shift == rouse.ShiftPrevious && !r.dateCounts(last+1):
			last++
		default:
			return first, last
		}
	}
	return first, last
}

// calendarReasons returns the names of the calendars by which a date does not count.
func (r *days) calendarReasons(d rouse.Date) (names []string) {
	for i := range r.off {
		if r.off[i].hasDate(d) {
			names = append(names, r.off[i].name)
		}
	}
	if len(names) == 0 {
		for i := range r.only {
			names = append(names, r.only[i].name)
		}
	}
	return names
}
