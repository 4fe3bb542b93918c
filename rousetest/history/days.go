package history

import (
	"slices"
	"strings"
	"time"
)

// weekdayNames are the days of the week as Spec.Off names them, in time's order.
var weekdayNames = strings.Fields(dayNames)

// days are those on which nothing is due.
type days struct {
	loc  *time.Location
	list []string // dates and days of the week
}

// isDayOff reports whether a time lies on such a day.
func (d *days) isDayOff(t Time) bool {
	local := t.Time().In(d.loc)
	return slices.Contains(d.list, local.Format(time.DateOnly)) || slices.Contains(d.list, weekdayNames[local.Weekday()])
}

// dayEnd returns when the day of a time ends: with the last minute that shows its date, as midnight may be
// skipped or come twice.
func (d *days) dayEnd(t Time) Time {
	local := t.Time().In(d.loc)
	for at := local.Truncate(time.Minute); ; at = at.Add(time.Minute) {
		if at.YearDay() != local.YearDay() {
			return At(at)
		}
	}
}

// working is an expectation without the occurrences on days that are off.
type working struct {
	expectation
	days days
}

// maxOff bounds the days in a row that are looked at: a schedule whose every day is off has no occurrences.
const maxOff = 2 * 366

func (e *working) matchDue(due Time) (occurrence, bool) {
	o, ok := e.expectation.matchDue(due)
	return o, ok && !e.days.isDayOff(o.lo)
}

func (e *working) widenStart() expectation { return &working{e.expectation.widenStart(), e.days} }

func (e *working) nextOccurrence(after Time) (o occurrence, ok bool) {
	for range maxOff {
		if o, ok = e.expectation.nextOccurrence(after); !ok || !e.days.isDayOff(o.lo) {
			return o, ok
		}
		after = e.days.dayEnd(o.lo) - 1
	}
	return o, false
}
