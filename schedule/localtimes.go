package schedule

import (
	"math"

	"github.com/rousehq/rouse"
)

// Wall times are counted in milliseconds here, as if the zone were UTC.
const (
	dayMillis   = 86_400_000
	shiftMillis = maxShift * 1000
)

// walls is an ordered set of local times: it returns the first that is not before the given one.
type walls func(from int64) (wall int64, ok bool)

// source generates due times: either local times, which are converted to instants by the zone's rule, or
// instants, which are the same in every zone.
type source struct {
	zone  zone
	local func(from int64, b *budget) (wall int64, ok bool) // as walls, with a budget
	// the minutes that local may lie in, if they are the same each day
	clock *minutes
	real  rouse.Schedule
}

// sourcesIn returns the sources of a parsed schedule. The zone and its rule are the defaults for schedules
// without them.
func (s *Schedule) sourcesIn(z zone) []source {
	switch t := s.times.(type) {
	case *cron:
		return []source{{zone: t.zone, local: t.wallFrom, clock: t.clockMinutes()}}
	case *repeat:
		if t.period.isLocal() {
			return t.ownSources()
		}
		return []source{{zone: t.zone, real: t}}
	}
	if t, ok := s.times.(interface{ ownSources() []source }); ok {
		return t.ownSources()
	}
	return []source{{zone: z, real: s.times}}
}

// wallFrom returns the first matching local time that is not before the given one.
func (c *cron) wallFrom(from int64, b *budget) (int64, bool) {
	var steps int
	wall, ok := c.matchWall(floorDiv(from+999, 1000), &steps)
	b.spendLooks(steps)
	return wall * 1000, ok
}

// firstDueAfter returns the first instant after the given one at which a local time of the set is due. It
// goes from one stretch of time with one offset to the next.
func (z zone) firstDueAfter(after rouse.Instant, from walls) (rouse.Instant, bool) {
	at := int64(after) + 1
	for first := true; ; first = false {
		s := z.spanAt(floorDiv(at, 1000))
		begin, end, offset := spanMillis(s.begin), spanMillis(s.end), s.offset*1000
		wall := at + offset
		found := int64(math.MaxInt64)
		if at-begin < shiftMillis && s.begin != math.MinInt64 {
			switch before := z.spanAt(s.begin-1).offset * 1000; {
			case before > offset && z.rule.repeat == repeatFirst:
				wall = max(wall, begin+before) // earlier local times were in the previous span
			case before < offset && z.rule.gap == gapNext && at == begin:
				if w, ok := from(begin + before); ok && w < begin+offset {
					return rouse.Instant(begin), true
				}
			case before < offset && z.rule.gap == gapShift && at+before < begin+offset:
				if w, ok := from(at + before); ok && w < begin+offset {
					found = w - before
				}
			}
		}
		w, ok := from(wall)
		if ok && w-offset < end && !z.comesAgain(w, s) {
			found = min(found, w-offset)
		}
		switch {
		case found != math.MaxInt64:
			return rouse.Instant(found), found <= int64(rouse.MaxInstant)
		case s.end == math.MaxInt64, !first && !ok, end > int64(rouse.MaxInstant):
			return 0, false
		}
		at = end
		if !first { // the set is empty up to w, and local times from before this span do not repeat
			at = max(at, w-2*shiftMillis)
		}
	}
}

// comesAgain reports whether the local time is not due in this span as it is shown again in the next, and due
// then.
func (z zone) comesAgain(wall int64, s span) bool {
	if z.rule.repeat != repeatSecond || s.end == math.MaxInt64 || wall < (s.end+s.offset)*1000-shiftMillis {
		return false
	}
	return wall >= (s.end+z.spanAt(s.end).offset)*1000
}

// spanMillis converts the end of a span to milliseconds; no end stays no end.
func spanMillis(second int64) int64 {
	switch second {
	case math.MinInt64:
		return math.MinInt64 / 4 // so that sums with it do not overflow
	case math.MaxInt64:
		return math.MaxInt64 / 4
	}
	return second * 1000
}

// wallAt returns the local time at an instant.
func (z zone) wallAt(at rouse.Instant) int64 {
	return int64(at) + z.spanAt(floorDiv(int64(at), 1000)).offset*1000
}

// untilWall returns the time from an instant until a clock change or until the local time is reached.
func (z zone) untilWall(at rouse.Instant, wall int64) rouse.Instant {
	s := z.spanAt(floorDiv(int64(at), 1000))
	return rouse.Instant(min(wall-s.offset*1000, spanMillis(s.end)))
}

// firstShown returns the first local time, at or after the given one, of a due time of the schedule.
func (z zone) firstShown(times rouse.Schedule, from int64) (int64, bool) {
	at, _ := z.firstInstant(floorDiv(from, 1000))
	next, ok := times.Next(rouse.Instant(at*1000 - 1))
	for ok {
		s := z.spanAt(floorDiv(int64(next), 1000))
		wall := int64(next) + s.offset*1000
		if wall < from { // within the second that from lies in, or in the second pass of a repeat
			next, ok = times.Next(rouse.Instant(from - s.offset*1000 - 1))
			continue
		}
		if s.end == math.MaxInt64 {
			return wall, true
		}
		if behind := z.spanAt(s.end).offset * 1000; wall >= s.end*1000+behind { // the next span shows earlier local times
			again, found := times.Next(rouse.Instant(max(s.end*1000, from-behind) - 1))
			if found && int64(again) < s.end*1000+shiftMillis {
				wall = min(wall, int64(again)+behind)
			}
		}
		return wall, true
	}
	return 0, false
}

// dateOf returns the date of a local time.
func dateOf(wall int64) rouse.Date { return rouse.Date(floorDiv(wall, dayMillis)) }

// lastDate is the last date that a schedule has.
var lastDate = dateOf(int64(rouse.MaxInstant))

// midnightOf returns the local time at which a date begins.
func midnightOf(d rouse.Date) int64 { return int64(d) * dayMillis }
