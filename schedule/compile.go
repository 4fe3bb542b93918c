package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rousehq/rouse"
)

// Compile reads all parts of a spec that decide when it is due. Its errors are of type *rouse.Invalid and
// name the part: "schedule", "also[2]", "except[0]", "calendar.off[1]", "timezone", "dst". The result is a
// rouse.Described. If the spec has only a schedule, a time zone and a rule for clock changes, the result is a
// *Schedule, the same as from Parse.
//
// All times are at or after spec.Start, before spec.End, and before the anchor plus the TTL. Intervals
// without their own start begin at spec.Start, which is their first time. Compile refuses a one-shot schedule
// that has no time. For other schedules the caller checks: Next returns whether there is a time, and Look
// whether the search costs too much.
func Compile(spec *rouse.Spec, in rouse.ScheduleInput) (rouse.Schedule, error) {
	// most timers
	if instantLike(spec.Schedule) && len(spec.Schedule) <= rouse.MaxSchedule && spec.Timezone == "" && spec.Plain() {
		return instantOf(spec.Schedule)
	}
	o := Options{
		Timezone: spec.Timezone, DST: spec.DST, Anchor: in.Anchor, Start: spec.Start,
		Seed: in.Key.Namespace + "/" + in.Key.Name,
	}
	if isBareSpec(spec) {
		s, err := Parse(spec.Schedule, o)
		if err != nil {
			return nil, err // not s: a nil *Schedule in an interface is not nil
		}
		return s, nil
	}
	c := &composed{start: spec.Start, end: rouse.Never}
	switch {
	case spec.End != 0:
		c.end = spec.End
	case spec.TTL != 0:
		c.end, c.ttl = in.Anchor.Add(spec.TTL), spec.TTL
	}
	var err error
	if c.zone, err = o.zoneWithRule(); err != nil {
		return nil, err
	}
	if c.except, err = parseExcept(spec.Except); err != nil {
		return nil, err
	}
	if c.days, err = parseDays(&spec.Calendar, in.Calendar); err != nil {
		return nil, err
	}
	if err := c.parseParts(spec, o); err != nil {
		return nil, err
	}
	if err := c.checkOneShots(); err != nil {
		return nil, err
	}
	return c, nil
}

// isBareSpec reports whether nothing but Schedule, Timezone and DST decides.
func isBareSpec(spec *rouse.Spec) bool {
	other := *spec
	other.DST = ""
	return other.Plain()
}

// parseParts reads the schedules. A time zone, or a rule for its changes, that one of them has no use for is
// left out there, if another part of the spec has one.
func (c *composed) parseParts(spec *rouse.Spec, o Options) error {
	var noZone, noDST error // the refusals of parts that have no use
	zoneUsed, dstUsed := c.except.localTime() || c.days != nil, c.shiftsDays()
	for i, text := range append([]string{spec.Schedule}, spec.Also...) {
		part := o
		var s *Schedule
		for {
			var err error
			s, err = Parse(text, part)
			if err == nil {
				break
			}
			err = withPartName(i, err)
			switch field := fieldOf(err); {
			case field == "timezone" && part.Timezone != "": // zoneWithRule took it, so it is not wrong in itself
				part.Timezone, noZone = "", cmp.Or(noZone, err)
			case field == "dst" && part.DST != "":
				part.DST, noDST = "", cmp.Or(noDST, err)
			default:
				return err
			}
		}
		sources := s.sourcesIn(c.zone)
		if part.Timezone != o.Timezone && slices.ContainsFunc(sources, func(s source) bool { return s.local != nil }) {
			return noZone // it has local times, of another zone
		}
		zoneUsed, dstUsed = zoneUsed || part.Timezone != "", dstUsed || part.DST != ""
		c.parts = append(c.parts, s)
		c.sources = append(c.sources, sources...)
	}
	c.named = zoneUsed
	if err := c.settleZone(spec); err != nil {
		return err
	}
	switch {
	case spec.Timezone != "" && !zoneUsed:
		return noZone
	case spec.DST != "" && !dstUsed:
		return noDST
	}
	return nil
}

// settleZone takes over a zone that a schedule names itself, where the spec names none. Days and minutes are
// of one zone.
func (c *composed) settleZone(spec *rouse.Spec) error {
	var own *time.Location
	for _, s := range c.sources {
		switch {
		case s.local == nil || own != nil && s.zone.loc.String() == own.String():
		case own == nil:
			own = s.zone.loc
		case c.except.localTime() || c.days != nil:
			return rouse.Refuse("timezone", spec.Timezone,
				"leaves open whose days are meant, as there are schedules in "+own.String()+" and in "+s.zone.loc.String(),
				"give all of them in one time zone")
		default:
			return nil
		}
	}
	if spec.Timezone == "" && own != nil && own != time.UTC {
		c.zone.loc, c.named = own, true
	}
	return nil
}

// withPartName names the part that an error about a schedule is about.
func withPartName(part int, err error) error {
	if part > 0 && fieldOf(err) == "schedule" {
		return renameField(err, partName(part))
	}
	return err
}

func partName(part int) string {
	if part == 0 {
		return "schedule"
	}
	return fmt.Sprintf("also[%d]", part-1)
}

// fieldOf returns the field that a refusal of one problem names.
func fieldOf(err error) string {
	var inv *rouse.Invalid
	if errors.As(err, &inv) && len(inv.Problems) == 1 {
		return inv.Problems[0].Field
	}
	return ""
}

// renameField returns err with the field of its problems replaced, if it is a refusal.
func renameField(err error, field string) error {
	var inv *rouse.Invalid
	if !errors.As(err, &inv) {
		return err
	}
	out := &rouse.Invalid{Problems: slices.Clone(inv.Problems)}
	for i := range out.Problems {
		out.Problems[i].Field = field
	}
	return out
}

// checkOneShots refuses a one-shot schedule that has no time, with the reason.
func (c *composed) checkOneShots() error {
	for i, s := range c.parts {
		if !s.OneShot() {
			continue
		}
		alone := *c
		alone.sources = s.sourcesIn(c.zone)
		if _, ok := alone.Next(0); ok {
			continue
		}
		at, _ := s.Next(0)
		wrong, cure := c.whyNot(at)
		return rouse.Refuse(partName(i), rouse.Shorten(s.String(), 128), "never fires: "+wrong, cure)
	}
	return nil
}

// whyNot returns why a single time is never due.
func (c *composed) whyNot(at rouse.Instant) (wrong, cure string) {
	const out, other = " is taken out by except", "give another time, or leave the exception out"
	b := &budget{left: rouse.MaxScheduleSteps}
	if c.except.excludedUntil(at, c.zone, b) > at {
		return at.String() + out, other
	}
	moved := ""
	if d := dateOf(c.zone.wallAt(at)); c.days != nil && !c.days.dateCounts(d) {
		target, ok := c.days.shiftTarget(d, b)
		if !ok {
			wrong := d.String() + " does not count by calendar " + joinList(c.days.calendarReasons(d))
			if c.shiftsDays() {
				wrong += fmt.Sprintf(", nor does any day up to %d days away", maxMove)
			}
			return wrong, "give a day that counts, or another calendar.shift"
		}
		due, n := c.zone.dueInstants(floorDiv(c.zone.wallAt(at), 1000) + int64(target-d)*86400)
		if n == 0 {
			return "it is moved to " + target.String() + ", when the clocks skip its local time",
				"give another time, or the dst next or shift"
		}
		at, moved = rouse.Instant(due[0]*1000)+at%1000, ", where the calendar moves it,"
	}
	switch {
	case at < c.start:
		return at.String() + moved + " is before start, " + c.start.String(), "give a later time, or an earlier start"
	case at >= c.end && c.ttl != 0:
		return at.String() + moved + " is not before the end by ttl, " + c.end.String(),
			"give an earlier time, or a longer ttl"
	case at >= c.end:
		return at.String() + moved + " is not before end, " + c.end.String(), "give an earlier time, or a later end"
	}
	return at.String() + moved + out, other
}
