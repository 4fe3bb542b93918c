package schedule

import (
	"math"
	"time"

	"github.com/rousehq/rouse"
)

// budget is the rest of rouse.MaxScheduleSteps for one search, and a cache of the search.
type budget struct {
	left  int
	looks int // that do not add up to a step yet

	on     minutes // the excluded minutes of the date day, if worked is set
	day    rouse.Date
	worked bool
}

// spendStep takes a step, and reports whether there was one left.
func (b *budget) spendStep() bool {
	b.left--
	return b.left >= 0
}

// spendLooks takes the steps for checking a month, a day of a calendar or a period of a rule, which are
// cheaper.
func (b *budget) spendLooks(n int) {
	b.looks += n
	b.left -= b.looks / looksPerStep
	b.looks %= looksPerStep
}

// looksPerStep is the number of looks that cost about as much as a step.
const looksPerStep = 16

// composed is a schedule of several parts, with exceptions, calendars and bounds.
//
// An occurrence planned for a local time passes these steps. An exception that contains the local time
// removes it. The calendar rule keeps it, removes it, or moves it to another date. The zone converts it to an
// instant, by the rule for clock changes. An exception or the bounds may remove the instant. So nothing is
// ever due at an excluded time, moved or not. An occurrence planned for an instant stays one, unless its day
// does not count: then the calendar rule moves its local time.
type composed struct {
	parts   []*Schedule
	sources []source
	zone    zone // of the exceptions, the calendars, and moved occurrences
	named   bool // the zone decides something
	except  exceptions
	days    *days         // nil: every day counts
	start   rouse.Instant // nothing is due before
	end     rouse.Instant // nothing is due at it or after
	ttl     time.Duration // end was given so; for words
}

// Next returns the first due time strictly after the given one. ok is false when none exists, or when Look
// does not find it.
func (c *composed) Next(after rouse.Instant) (next rouse.Instant, ok bool) {
	next, ok, _ = c.Look(after, rouse.MaxScheduleSteps)
	return next, ok
}

// Look is Next with the number of steps that it took: checked candidates, excluded ranges, days that do not
// count. It gives up after most.
func (c *composed) Look(after rouse.Instant, most int) (next rouse.Instant, ok bool, steps int) {
	after = max(after, c.start-1, 0)
	if after >= rouse.MaxInstant {
		return 0, false, 0
	}
	next = c.end
	b := budget{left: most}
	var late []int // the sources that have no time soon
	share := most / 2 / len(c.sources)
	for i := range c.sources {
		rest := b.left - share
		b.left = share
		if at, found := c.firstOfSource(&c.sources[i], after, next, &b); b.left < 0 {
			late = append(late, i)
		} else if found {
			next, ok = at, true
		}
		b.left = rest + max(b.left, 0)
	}
	for _, i := range late { // now they need to be searched only up to the time of another one
		at, found := c.firstOfSource(&c.sources[i], after, next, &b)
		switch {
		case b.left < 0:
			return 0, false, most + 1
		case found:
			next, ok = at, true
		}
	}
	if !ok {
		next = 0
	}
	return next, ok, most - b.left
}

// firstOfSource returns the first time of one source after the given one, if it lies before the bound.
func (c *composed) firstOfSource(s *source, after, bound rouse.Instant, b *budget) (rouse.Instant, bool) {
	for b.spendStep() {
		at, ok := c.nextCandidate(s, after, bound, b)
		if !ok || at >= bound || at > rouse.MaxInstant {
			return 0, false
		}
		end := c.except.excludedUntil(at, c.zone, b)
		if end == at {
			return at, true
		}
		after = end - 1
	}
	return 0, false
}

// nextCandidate returns the first time of a source after the given one that passes everything but the
// exceptions for instants. It may ignore times at or after the bound.
func (c *composed) nextCandidate(s *source, after, bound rouse.Instant, b *budget) (rouse.Instant, bool) {
	last := c.lastWall(bound)
	if s.local != nil {
		return s.zone.firstDueAfter(after, c.movedTimes(c.plannedTimes(s, last, b), b))
	}
	at, ok := c.nextCounting(s.real, after, bound, b)
	if c.shiftsDays() {
		others := c.movedTimes(c.shownOff(s.real, last, b), b)
		if moved, found := c.zone.firstDueAfter(after, others); found && (!ok || moved < at) {
			return moved, true
		}
	}
	return at, ok
}

// EveryDay returns the schedule without its calendar rule; nil if it has none.
func (c *composed) EveryDay() rouse.Schedule {
	if c.days == nil {
		return nil
	}
	all := *c
	all.days = nil
	return &all
}

func (c *composed) shiftsDays() bool { return c.days != nil && c.days.shift != rouse.ShiftSkip }

// lastWall returns a local time after which nothing is planned that is due before the bound.
func (c *composed) lastWall(bound rouse.Instant) int64 {
	if bound > rouse.MaxInstant {
		return math.MaxInt64
	}
	const slack = 3 // days: zones differ by less, and so do times before and after a change of the clocks
	last := int64(bound) + slack*dayMillis
	if c.days != nil && c.days.shift == rouse.ShiftPrevious {
		last += maxMove * dayMillis
	}
	return last
}

// plannedTimes returns the local times of a source, up to last, that exceptions leave and that no calendar
// takes out.
func (c *composed) plannedTimes(s *source, last int64, b *budget) walls {
	return func(from int64) (int64, bool) {
		for b.spendStep() {
			wall, ok := s.local(from, b)
			if !ok || wall > last {
				return 0, false
			}
			if from = c.except.wallEnd(wall, s.clock, b); from > wall {
				continue
			}
			if c.days != nil && c.days.shift == rouse.ShiftSkip {
				d := dateOf(wall)
				next, ok := c.days.nextCounted(d, b)
				if !ok {
					return 0, false
				}
				if next > d {
					from = midnightOf(next)
					continue
				}
			}
			if from = c.plannedIn(s.zone, wall); from > wall {
				continue
			}
			return wall, true
		}
		return 0, false
	}
}

// plannedIn returns the local end of the excluded range of instants that contains a planned local time; the
// local time itself if no range contains it.
func (c *composed) plannedIn(z zone, wall int64) int64 {
	if len(c.except.instants) == 0 || !c.shiftsDays() {
		return wall // a time that is not moved is checked later, as an instant
	}
	at, n := z.dueInstants(floorDiv(wall, 1000))
	var end rouse.Instant
	for _, second := range at[:n] {
		first := rouse.Instant(second*1000 + floorMod(wall, 1000))
		if end = c.except.instantEnd(first); end == first {
			return wall
		}
	}
	if n == 0 {
		return wall
	}
	// The following local times are in order and in the same range, until the clocks change or local times
	// repeat.
	s := z.spanAt(at[0])
	stop := spanMillis(s.end)
	if z.rule.repeat != repeatFirst && s.end != math.MaxInt64 {
		stop = min(stop, stop+(z.spanAt(s.end).offset-s.offset)*1000)
	}
	offset := s.offset * 1000
	if at[0]*1000+floorMod(wall, 1000)+offset == wall {
		return max(wall+1, min(int64(end), stop)+offset)
	}
	return wall + 1
}

// movedTimes returns local times at the dates that the calendar rule moves them to.
func (c *composed) movedTimes(planned walls, b *budget) walls {
	if !c.shiftsDays() {
		return planned
	}
	return func(from int64) (int64, bool) {
		clock := floorMod(from, dayMillis)
		target, ok := c.days.nextCounted(dateOf(from), b)
		if !ok {
			return 0, false
		}
		if target > dateOf(from) {
			clock = 0
		}
		for b.spendStep() {
			first, last := c.days.shiftOrigins(target, b)
			if wall, ok := earliestPlanned(planned, first, last, clock); ok {
				return midnightOf(target) + wall, true
			}
			clock = 0
			// The next target is the one of the next local time planned for a later day, if it has one.
			for day := last + 1; ; {
				wall, ok := planned(midnightOf(day))
				if !ok || !b.spendStep() {
					return 0, false
				}
				day = dateOf(wall)
				if target, ok = c.days.shiftTarget(day, b); ok {
					break
				}
				counts, ok := c.days.nextCounted(day, b)
				if !ok {
					return 0, false
				}
				if c.days.shift == rouse.ShiftNext {
					counts -= maxMove // the first day that reaches it
				}
				day = max(day+1, counts)
			}
		}
		return 0, false
	}
}

// earliestPlanned returns the earliest time of day, not before clock, that is planned for one of the dates
// from first to last.
func earliestPlanned(planned walls, first, last rouse.Date, clock int64) (int64, bool) {
	best := int64(dayMillis)
	for day := first; day <= last; { // planned takes the steps
		wall, ok := planned(midnightOf(day) + clock)
		if !ok {
			break
		}
		if d := dateOf(wall); d > day { // the days between have nothing
			day = d
			continue
		}
		best = min(best, floorMod(wall, dayMillis))
		day++
	}
	return best, best < dayMillis
}

// nextWithin is Next with a budget, if the schedule may need one.
func nextWithin(times rouse.Schedule, after rouse.Instant, b *budget) (rouse.Instant, bool) {
	if t, ok := times.(elapsedTimes); ok {
		return t.nextWithin(after, b)
	}
	return times.Next(after)
}

// nextCounting returns the first time after the given one of a schedule of instants, on days that count.
func (c *composed) nextCounting(times rouse.Schedule, after, bound rouse.Instant, b *budget) (rouse.Instant, bool) {
	for b.spendStep() {
		at, ok := nextWithin(times, after, b)
		if !ok || at >= bound {
			return 0, false
		}
		end := c.except.excludedUntil(at, c.zone, b)
		if end == at && c.days != nil {
			d := dateOf(c.zone.wallAt(at))
			next, ok := c.days.nextCounted(d, b)
			if !ok {
				return 0, false
			}
			if next > d {
				end = c.zone.untilWall(at, midnightOf(next))
			}
		}
		if end == at {
			return at, true
		}
		after = end - 1
	}
	return 0, false
}

// shownOff returns the local times, up to last and on days that do not count, that the clocks show at times
// of a schedule of instants.
func (c *composed) shownOff(times rouse.Schedule, last int64, b *budget) walls {
	outside := nextFunc(func(after rouse.Instant) (rouse.Instant, bool) {
		for b.spendStep() {
			at, ok := times.Next(after)
			if !ok {
				return 0, false
			}
			end := c.except.instantEnd(at)
			if end == at {
				return at, true
			}
			after = end - 1
		}
		return 0, false
	})
	return func(from int64) (int64, bool) {
		for b.spendStep() {
			wall, ok := c.zone.firstShown(outside, from)
			if !ok || wall > last {
				return 0, false
			}
			if from = c.except.wallEnd(wall, nil, b); from > wall {
				continue
			}
			d := dateOf(wall)
			away, ok := c.days.nextUncounted(d, b)
			if away == d || !ok {
				return wall, ok
			}
			from = midnightOf(away)
		}
		return 0, false
	}
}

// nextFunc is a schedule by its one method.
type nextFunc func(rouse.Instant) (rouse.Instant, bool)

func (f nextFunc) Next(after rouse.Instant) (rouse.Instant, bool) { return f(after) }
