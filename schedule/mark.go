package schedule

import (
	"fmt"
	"math"

	"github.com/rousehq/rouse"
)

// Mark describes what a change of the clocks did to a due time; usually empty.
func (s *Schedule) Mark(due rouse.Instant) string {
	mark, _ := s.MarkSteps(due)
	return mark
}

// MarkSteps is Mark with the number of steps that it took.
func (s *Schedule) MarkSteps(due rouse.Instant) (mark string, steps int) {
	b := &budget{left: rouse.MaxScheduleSteps - 1}
	for _, src := range s.sources(zone{}) {
		if src.local == nil {
			continue
		}
		local := func(from int64) (int64, bool) { return src.local(from, b) }
		if _, text, ok := src.zone.explain(due, local); ok && text != "" {
			mark = text
			break
		}
	}
	return mark, rouse.MaxScheduleSteps - b.left
}

// Mark describes what a change of the clocks, or a calendar, did to a due time; usually empty.
func (c *composed) Mark(due rouse.Instant) string {
	mark, _ := c.MarkSteps(due)
	return mark
}

// MarkSteps is Mark with the number of steps that it took.
func (c *composed) MarkSteps(due rouse.Instant) (mark string, steps int) {
	b := &budget{left: rouse.MaxScheduleSteps - 1}
	mark = c.mark(due, b)
	if b.left < 0 {
		return "", rouse.MaxScheduleSteps
	}
	return mark, rouse.MaxScheduleSteps - b.left
}

func (c *composed) mark(due rouse.Instant, b *budget) string {
	var moved string
	unmoved := false
	for i := range c.sources {
		s := &c.sources[i]
		mark, ok := c.unmoved(s, due, b)
		if ok && mark != "" {
			return mark
		}
		unmoved = unmoved || ok
		if !ok && moved == "" && c.shifts() {
			moved = c.movedTo(s, due, b)
		}
	}
	if unmoved {
		return ""
	}
	return moved
}

// unmoved reports whether a source is due at a time on its planned day, and describes the effect of a clock
// change.
func (c *composed) unmoved(s *source, due rouse.Instant, b *budget) (mark string, ok bool) {
	if s.local == nil {
		at, ok := s.real.Next(due - 1)
		return "", ok && at == due && (c.days == nil || c.days.count(dateOf(c.zone.wall(due))))
	}
	planned := c.planned(s, math.MaxInt64, b)
	if c.shifts() {
		all, near := planned, midnight(dateOf(s.zone.wall(due))+3) // no change of the clocks reaches farther
		planned = func(from int64) (int64, bool) {
			for {
				wall, ok := all(from)
				if !ok || wall >= near {
					return 0, false
				}
				if c.days.count(dateOf(wall)) {
					return wall, true
				}
				from = midnight(dateOf(wall) + 1)
			}
		}
	}
	_, mark, ok = s.zone.explain(due, planned)
	return mark, ok
}

// movedTo describes from which days an occurrence was moved to a time; empty if it was not moved.
func (c *composed) movedTo(s *source, due rouse.Instant, b *budget) string {
	planned, z := c.shownOff(s.real, math.MaxInt64, b), c.zone
	if s.local != nil {
		planned, z = c.planned(s, math.MaxInt64, b), s.zone
	}
	wall, mark, ok := z.explain(due, c.moved(planned, b))
	if !ok {
		return ""
	}
	target := dateOf(wall)
	first, last := c.days.origins(target, b)
	var from []rouse.Date
	for d := first; d <= last && b.spend(); d++ {
		origin := midnight(d) + mod(wall, dayMillis)
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
	names, word := c.days.reasons(from[0]), "calendar"
	if len(names) > 1 {
		word = "calendars"
	}
	text := fmt.Sprintf("moved from %s by %s %s", listed(dates), word, listed(names))
	if mark != "" {
		text += "; " + mark
	}
	return text
}

// explain returns the local time of the set that is due at an instant, and the effect of a clock change on
// it; ok is false if no local time of the set is due at the instant.
func (z zone) explain(due rouse.Instant, from walls) (wall int64, mark string, ok bool) {
	s := z.span(floorDiv(int64(due), 1000))
	begin, end, offset := spanMillis(s.begin), spanMillis(s.end), s.offset*1000
	has := func(wall int64) bool {
		first, ok := from(wall)
		return ok && first == wall
	}
	wall = int64(due) + offset
	if s.begin != math.MinInt64 && int64(due)-begin < shiftMillis {
		before := z.span(s.begin-1).offset * 1000
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
			return skipped, fmt.Sprintf("%s does not exist on %v: the clocks go forward from %s to %s", formatClock(skipped), dateOf(skipped),
				formatChange(begin+before, begin+offset), formatChange(begin+offset, begin+before)), true
		}
		if z.rule.repeat != repeatFirst && wall < begin+before && has(wall) {
			return wall, fmt.Sprintf("%s comes twice on %v, this is the second", formatClock(wall), dateOf(wall)), true
		}
	}
	if z.rule.repeat != repeatSecond && s.end != math.MaxInt64 && end-int64(due) <= shiftMillis && wall >= end+z.span(s.end).offset*1000 && has(wall) {
		return wall, fmt.Sprintf("%s comes twice on %v, this is the first", formatClock(wall), dateOf(wall)), true
	}
	return wall, "", has(wall)
}

// formatClock formats a time of day, with as many parts as it has.
func formatClock(wall int64) string {
	text := fmt.Sprintf("%02d:%02d", mod(wall, dayMillis)/3_600_000, mod(wall, 3_600_000)/60_000)
	if wall%60_000 != 0 {
		text += fmt.Sprintf(":%02d", mod(wall, 60_000)/1000)
	}
	if wall%1000 != 0 {
		text += fmt.Sprintf(".%03d", mod(wall, 1000))
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
