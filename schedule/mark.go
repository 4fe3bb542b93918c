package schedule

import (
	"fmt"
	"math"

	"github.com/rousehq/rouse"
)

// Mark describes the effect of a change of the clocks on a due time; usually empty.
func (s *Schedule) Mark(due rouse.Instant) string {
	mark, _ := s.MarkSteps(due)
	return mark
}

// MarkSteps is Mark with the number of steps that it took.
func (s *Schedule) MarkSteps(due rouse.Instant) (mark string, steps int) {
	b := &budget{left: rouse.MaxScheduleSteps - 1}
	for _, src := range s.sourcesIn(zone{}) {
		if src.local == nil {
			continue
		}
		local := func(from int64) (int64, bool) { return src.local(from, b) }
		if _, text, ok := src.zone.explainDue(due, local); ok && text != "" {
			mark = text
			break
		}
	}
	return mark, rouse.MaxScheduleSteps - b.left
}

// Mark describes the effect of a change of the clocks, or of a calendar, on a due time; usually empty.
func (c *composed) Mark(due rouse.Instant) string {
	mark, _ := c.MarkSteps(due)
	return mark
}

// MarkSteps is Mark with the number of steps that it took.
func (c *composed) MarkSteps(due rouse.Instant) (mark string, steps int) {
	b := &budget{left: rouse.MaxScheduleSteps - 1}
	mark = c.describeMark(due, b)
	if b.left < 0 {
		return "", rouse.MaxScheduleSteps
	}
	return mark, rouse.MaxScheduleSteps - b.left
}

func (c *composed) describeMark(due rouse.Instant, b *budget) string {
	var moved string
	unmoved := false
	for i := range c.sources {
		s := &c.sources[i]
		mark, ok := c.markUnmoved(s, due, b)
		if ok && mark != "" {
			return mark
		}
		unmoved = unmoved || ok
		if !ok && moved == "" && c.shiftsDays() {
			moved = c.movedTo(s, due, b)
		}
	}
	if unmoved {
		return ""
	}
	return moved
}

// markUnmoved reports whether a source is due at a time on its planned day, and describes the effect of a
// clock change.
func (c *composed) markUnmoved(s *source, due rouse.Instant, b *budget) (mark string, ok bool) {
	if s.local == nil {
		at, ok := s.real.Next(due - 1)
		return "", ok && at == due && (c.days == nil || c.days.dateCounts(dateOf(c.zone.wallAt(due))))
	}
	planned := c.plannedTimes(s, math.MaxInt64, b)
	if c.shiftsDays() {
		all, near := planned, midnightOf(dateOf(s.zone.wallAt(due))+3) // no change of the clocks reaches farther
		planned = func(from int64) (int64, bool) {
			for {
				wall, ok := all(from)
				if !ok || wall >= near {
					return 0, false
				}
				if c.days.dateCounts(dateOf(wall)) {
					return wall, true
				}
				from = midnightOf(dateOf(wall) + 1)
			}
		}
	}
	_, mark, ok = s.zone.explainDue(due, planned)
	return mark, ok
}

// movedTo describes from which days an occurrence was moved to a time; empty if it was not moved.
func (c *composed) movedTo(s *source, due rouse.Instant, b *budget) string {
	planned, z := c.shownOff(s.real, math.MaxInt64, b), c.zone
	if s.local != nil {
		planned, z = c.plannedTimes(s, math.MaxInt64, b), s.zone
	}
	wall, mark, ok := z.explainDue(due, c.movedTimes(planned, b))
	if !ok {
		return ""
	}
	target := dateOf(wall)
	first, last := c.days.shiftOrigins(target, b)
	var from []rouse.Date
	for d := first; d <= last && b.spendStep(); d++ {
		origin := midnightOf(d) + floorMod(wall, dayMillis)
		if w, ok := planned(origin); ok && w == origin && d != target {
			from = append(from, d)
		}
	}
	if len(from) == 0 {
		return mark
	}
	var dates []string
	for _, d := range from[:min(len(from), maxListed)] {
		dates = append(dates, d.String())
	}
	if more := len(from) - maxListed; more > 0 {
		dates = append(dates, fmt.Sprint(more, " more"))
	}
	names, word := c.days.calendarReasons(from[0]), "calendar"
	if len(names) > 1 {
		word = "calendars"
	}
	text := fmt.Sprintf("moved from %s by %s %s", joinList(dates), word, joinList(names))
	if mark != "" {
		text += "; " + mark
	}
	return text
}

// explainDue returns the local time of the set that is due at an instant, and the effect of a clock change on
// it; ok is false if no local time of the set is due at the instant.
func (z zone) explainDue(due rouse.Instant, from walls) (wall int64, mark string, ok bool) {
	s := z.spanAt(floorDiv(int64(due), 1000))
	begin, end, offset := spanMillis(s.begin), spanMillis(s.end), s.offset*1000
	has := func(wall int64) bool {
		first, ok := from(wall)
		return ok && first == wall
	}
	wall = int64(due) + offset
	if s.begin != math.MinInt64 && int64(due)-begin < shiftMillis {
		before := z.spanAt(s.begin-1).offset * 1000
		skipped, found := int64(0), false
		switch z.rule.gap {
		case gapNext:
			if int64(due) == begin {
				skipped, found = from(begin + before)
			}
		case gapShift:
			skipped = int64(due) + before
			found = skipped >= begin+before && has(skipped)
		}
		if found && skipped < begin+offset {
			return skipped, fmt.Sprintf("%s does not exist on %v: the clocks go forward from %s to %s", formatClock(skipped),
				dateOf(skipped),
				formatChange(begin+before, begin+offset), formatChange(begin+offset, begin+before)), true
		}
		if z.rule.repeat != repeatFirst && wall < begin+before && has(wall) {
			return wall, fmt.Sprintf("%s comes twice on %v, this is the second", formatClock(wall), dateOf(wall)), true
		}
	}
	if z.rule.repeat != repeatSecond && s.end != math.MaxInt64 && end-int64(due) <= shiftMillis &&
		wall >= end+z.spanAt(s.end).offset*1000 && has(wall) {
		return wall, fmt.Sprintf("%s comes twice on %v, this is the first", formatClock(wall), dateOf(wall)), true
	}
	return wall, "", has(wall)
}

// formatClock formats a time of day, with as many parts as it has.
func formatClock(wall int64) string {
	text := fmt.Sprintf("%02d:%02d", floorMod(wall, dayMillis)/3_600_000, floorMod(wall, 3_600_000)/60_000)
	if wall%60_000 != 0 {
		text += fmt.Sprintf(":%02d", floorMod(wall, 60_000)/1000)
	}
	if wall%1000 != 0 {
		text += fmt.Sprintf(".%03d", floorMod(wall, 1000))
	}
	return text
}

// formatChange formats one side of a change of the clocks, with the date if the other side has another.
func formatChange(wall, other int64) string {
	if dateOf(wall) == dateOf(other) {
		return formatClock(wall)
	}
	return dateOf(wall).String() + " " + formatClock(wall)
}
