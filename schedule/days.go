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
	if d.off, err = calendars("calendar.off", rule.Off, lookup); err != nil {
		return nil, err
	}
	if d.only, err = calendars("calendar.only", rule.Only, lookup); err != nil {
		return nil, err
	}
	return d, nil
}

func calendars(field string, names []string, lookup func(string) ([]rouse.Date, bool)) ([]calendar, error) {
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

func (c *calendar) has(d rouse.Date) bool {
	if c.name == rouse.Weekends {
		w := d.Weekday()
		return w == time.Saturday || w == time.Sunday
	}
	_, found := slices.BinarySearch(c.dates, d)
	return found
}

// from returns the first date of the calendar at or after d; ok is false if none exists.
func (c *calendar) from(d rouse.Date) (rouse.Date, bool) {
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

// behind returns the first date after d that the calendar does not contain; it contains d.
func (c *calendar) behind(d rouse.Date) rouse.Date {
	if c.name == rouse.Weekends {
		if d.Weekday() == time.Saturday {
			return d + 2
		}
		return d + 1
	}
	i, _ := slices.BinarySearch(c.dates, d)
	return d + rouse.Date(sort.Search(len(c.dates)-i, func(n int) bool { return c.dates[i+n] != d+rouse.Date(n) }))
}

// behind returns the end of the longest run of dates from d in one of the calendars; d itself if no calendar
// contains d.
func behind(list []calendar, d rouse.Date) rouse.Date {
	end := d
	for i := range list {
		if list[i].has(d) {
			end = max(end, list[i].behind(d))
		}
	}
	return end
}

func in(list []calendar, d rouse.Date) bool {
	return slices.ContainsFunc(list, func(c calendar) bool { return c.has(d) })
}

// looks takes the steps of one check of the calendars.
func (r *days) looks(b *budget) { b.spendLooks(len(r.off) + len(r.only)) }

// count reports whether a date counts.
func (r *days) count(d rouse.Date) bool {
	return !in(r.off, d) && (len(r.only) == 0 || in(r.only, d))
}

// next returns the first date that counts and is not before d.
func (r *days) next(d rouse.Date, b *budget) (rouse.Date, bool) {
	for b.spend() {
		if len(r.only) > 0 {
			first, ok := rouse.Date(0), false
			for i := range r.only {
				if f, found := r.only[i].from(d); found && (!ok || f < first) {
					first, ok = f, true
				}
			}
			if d = first; !ok {
				return 0, false
			}
		}
		end := behind(r.off, d)
		if end == d {
			return d, true
		}
		d = end
	}
	return 0, false
}

// away returns the first date that does not count and is not before d.
func (r *days) away(d rouse.Date, b *budget) (rouse.Date, bool) {
	off, ok := rouse.Date(math.MaxInt32), false
	for i := range r.off {
		if f, found := r.off[i].from(d); found && f < off {
			off, ok = f, true
		}
	}
	if len(r.only) == 0 {
		return off, ok
	}
	for d < off && b.spend() {
		end := behind(r.only, d)
		if end == d {
			return d, true
		}
		d = end
	}
	return off, ok
}

// target returns the date to which the shift moves an occurrence on the date d; ok is false if the occurrence
// is skipped.
func (r *days) target(d rouse.Date, b *budget) (rouse.Date, bool) {
	step := rouse.Date(1)
	if r.shift == rouse.ShiftPrevious {
		step = -1
	}
	for range maxMove + 1 {
		if r.looks(b); r.count(d) {
			return d, true
		}
		if d += step; r.shift == rouse.ShiftSkip {
			break
		}
	}
	return 0, false
}

// origins returns the first and the last of the dates whose occurrences are due on the date d, which counts:
// d itself and the adjacent days that do not count.
func (r *days) origins(d rouse.Date, b *budget) (first, last rouse.Date) {
	first, last = d, d
	for range maxMove {
		r.looks(b)
		switch {
		case r.shift == rouse.ShiftNext && !r.count(first-1):
			first--
		case r.shift == rouse.ShiftPrevious && !r.count(last+1):
			last++
		default:
			return first, last
		}
	}
	return first, last
}

// reasons returns the names of the calendars by which a date does not count.
func (r *days) reasons(d rouse.Date) (names []string) {
	for i := range r.off {
		if r.off[i].has(d) {
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
