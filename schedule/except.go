package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rousehq/rouse"
)

// exceptions are times that are taken out: dates and minutes of the zone, and stretches of time.
type exceptions struct {
	dates    []dateRange    // ascending, apart
	instants []instantRange // ascending, apart
	minutes  []dayMinutes   // each of other days
	items    []string       // as given, for words
}

type dateRange struct{ first, last rouse.Date }

type instantRange struct{ begin, end rouse.Instant } // without end

// parseExcept reads the exceptions of a spec. An error names the item: "except[2]".
func parseExcept(items []string) (exceptions, error) {
	e := exceptions{items: items}
	for i, item := range items {
		if err := e.parseException(item); err != nil {
			return exceptions{}, renameField(err, fmt.Sprintf("except[%d]", i))
		}
	}
	e.dates = mergeRanges(e.dates, func(r dateRange) (int64, int64) { return int64(r.first), int64(r.last) + 1 },
		func(first, end int64) dateRange { return dateRange{rouse.Date(first), rouse.Date(end - 1)} })
	e.instants = mergeRanges(e.instants, func(r instantRange) (int64, int64) { return int64(r.begin), int64(r.end) },
		func(begin, end int64) instantRange { return instantRange{rouse.Instant(begin), rouse.Instant(end)} })
	return e, nil
}

func (e *exceptions) parseException(item string) error {
	const cure = `give a date such as 2027-12-24, two dates or two RFC 3339 instants with "/" between, or five cron fields such as "* 12-13 * * *"`
	first, last, ranged := strings.Cut(item, "/")
	switch {
	case item == "":
		return refuseExpr(item, "is missing", cure)
	case len(item) > rouse.MaxSchedule:
		return refuseExpr(item, fmt.Sprintf("has %d bytes", len(item)), fmt.Sprintf("use at most %d", rouse.MaxSchedule))
	case !instantLike(item):
		return e.parseMinutes(item, cure)
	case !ranged:
		if len(item) > len("2027-12-24") {
			return refuseExpr(item, "is a single instant, or no date", cure)
		}
		return e.parseDates(item, item, item)
	case strings.Contains(first, "T") != strings.Contains(last, "T"):
		return refuseExpr(item, "has a date on one side and an instant on the other", cure)
	case strings.Contains(first, "T"):
		return e.parseInstants(item, first, last)
	}
	return e.parseDates(item, first, last)
}

func (e *exceptions) parseDates(item, first, last string) error {
	var r dateRange
	var err error
	if r.first, err = rouse.ParseDate(first); err == nil {
		r.last, err = rouse.ParseDate(last)
	}
	switch {
	case err != nil:
		return refuseExpr(item, err.Error(), "give dates that exist, of the years 1970 to 9998")
	case r.last < r.first:
		return refuseExpr(item, "runs backwards", "write "+last+"/"+first)
	}
	e.dates = append(e.dates, r)
	return nil
}

func (e *exceptions) parseInstants(item, begin, end string) error {
	var r instantRange
	var err error
	if r.begin, err = readInstant(begin, item); err != nil {
		return err
	}
	if r.end, err = readInstant(end, item); err != nil {
		return err
	}
	switch {
	case r.end < r.begin:
		return refuseExpr(item, "runs backwards", "write "+end+"/"+begin)
	case r.end == r.begin:
		return refuseExpr(item, "is empty, as the end is not part of it", "give a later end")
	}
	e.instants = append(e.instants, r)
	return nil
}

// parseMinutes reads five cron fields. The zone does not matter: they are compared with local times.
func (e *exceptions) parseMinutes(item, cure string) error {
	if len(strings.Fields(item)) != 5 {
		return refuseExpr(item, "is no exception", cure)
	}
	times, err := parseCron(item, Options{})
	if err != nil {
		return err
	}
	c, ok := times.(*cron)
	if !ok {
		return refuseExpr(item, "is no exception", cure)
	}
	if c.minutes == allMinutes && c.hours == allHours && wholeWeeks(c) {
		return refuseExpr(item, "takes out all times", "leave it out, or name an hour, a day or a month")
	}
	e.takeOut(c)
	return nil
}

// The bits of fields that match everything.
const (
	allMinutes = 1<<60 - 1
	allHours   = 1<<24 - 1
)

// wholeWeeks reports whether a cron expression matches every day, by checking the days of a leap year.
func wholeWeeks(c *cron) bool {
	for m := 1; m <= 12; m++ {
		if c.months>>m&1 == 0 {
			return false
		}
	}
	return c.days == 1<<32-2 && c.weekdays == 1<<7-1
}

// localTime reports whether some exception is about local times of the zone.
func (e *exceptions) localTime() bool { return len(e.dates) > 0 || len(e.minutes) > 0 }

// wallEnd returns until when, by the clocks on the wall, everything from the local time on is taken out; the
// local time itself if it is not. Later times may be taken out as well. Of a source whose times lie in the
// minutes of clock, if that is not nil, times between those minutes count as taken out, too.
func (e *exceptions) wallEnd(wall int64, clock *minutes, b *budget) int64 {
	end := wall
	d := dateOf(wall)
	if len(e.dates) > 0 {
		i, found := slices.BinarySearchFunc(e.dates, d, func(r dateRange,
			d rouse.Date) int {
			return cmp.Compare(r.first, d)
		})
		if !found {
			i--
		}
		if i >= 0 && d <= e.dates[i].last {
			return midnightOf(e.dates[i].last + 1)
		}
	}
	if len(e.minutes) > 0 {
		out, now := e.minutesOn(d, b), int(floorMod(wall, dayMillis)/minuteMillis)
		if next := out.nextOpen(now, clock); next > now {
			end = midnightOf(d) + int64(next)*minuteMillis
		}
	}
	return end
}

// instantEnd returns the end of the stretch of time, given as one, that an instant lies in; the instant
// itself if in none.
func (e *exceptions) instantEnd(at rouse.Instant) rouse.Instant {
	i, found := slices.BinarySearchFunc(e.instants, at,
		func(r instantRange, at rouse.Instant) int { return cmp.Compare(r.begin, at) })
	if !found {
		i--
	}
	if i >= 0 && at < e.instants[i].end {
		return e.instants[i].end
	}
	return at
}

// excludedUntil returns until when everything from the instant on is taken out; the instant itself if it is
// not.
func (e *exceptions) excludedUntil(at rouse.Instant, z zone, b *budget) rouse.Instant {
	end := e.instantEnd(at)
	if e.localTime() {
		wall := z.wallAt(at)
		if wallEnd := e.wallEnd(wall, nil, b); wallEnd > wall {
			end = max(end, z.untilWall(at, wallEnd))
		}
	}
	return end
}

// mergeRanges sorts ranges and joins those that touch.
func mergeRanges[R any](ranges []R, bounds func(R) (begin, end int64), make func(begin, end int64) R) []R {
	slices.SortFunc(ranges, func(a, b R) int {
		x, _ := bounds(a)
		y, _ := bounds(b)
		return cmp.Compare(x, y)
	})
	out := ranges[:0]
	for _, r := range ranges {
		begin, end := bounds(r)
		if n := len(out); n > 0 {
			if b, e := bounds(out[n-1]); begin <= e {
				out[n-1] = make(b, max(e, end))
				continue
			}
		}
		out = append(out, r)
	}
	return out
}
