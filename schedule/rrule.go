package schedule

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// rrule is a recurrence set of RFC 5545: a rule and further times, less some, on the wall of a zone.
//
// It is written in one line, or as the RFC's own lines with spaces or line ends between; upper and lower case
// are the same but for the word in front:
//
//	rrule:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;BYHOUR=9;BYMINUTE=0
//	rrule:DTSTART=20270101T090000;FREQ=MONTHLY;BYDAY=-1FR;COUNT=10
//	rrule:DTSTART;TZID=Europe/Berlin:20270101T090000 RRULE:FREQ=DAILY EXDATE:20270106 RDATE:20270110T120000
//
// All frequencies and parts of the RFC are supported, and combinations that the RFC forbids are refused.
// Where the RFC leaves something open:
//
//   - Times without Z are of the zone of the options, or of DTSTART's TZID; both may be given if they are the
//     same.
//   - Without DTSTART the rule begins at the start of the options or, if there is none, at the first whole
//     minute after the anchor (FREQ=SECONDLY: the first whole second), so that COUNT counts nothing that was
//     over when the timer was created.
//   - The begin is due only if the rule falls on it, and COUNT counts the times of the rule. (The RFC leaves
//     undefined the meaning of a rule that does not fall on its DTSTART.) With RDATE and no RRULE, DTSTART is
//     due.
//   - UNTIL is the last time that may be due; as a date it is the whole of that day.
//   - EXDATE takes out the local time that it names; as a date it takes out the whole day. It does not change
//     COUNT.
//   - FREQ=YEARLY;BYWEEKNO=20 without a day is due on DTSTART's day of the week. The days around New Year
//     belong to the calendar year that they lie in, and to the week that they lie in: with BYWEEKNO=1
//     December 30 can be due.
//   - BYSECOND=60 is refused, as no clock of rouse shows leap seconds.
//
// The times are local, and become instants as the RFC has it: one that a change of the clocks skips is due
// later by the gap's length, which is dst "shift", and one that is shown twice in the first pass. Rules of
// hours, minutes and seconds count elapsed time instead, unless dst is set: by the letter of the RFC
// they would be silent for an hour each autumn. Give dst "first" to have that.
type rrule struct {
	text   string // that follows "rrule:"
	rule   *recur // nil: only dates
	until  int64  // UNTIL, if it was given in UTC, else 0
	dates  []int64
	except []int64 // taken out of rule and dates
	days   []int64 // whole days taken out
	zone   zone

	elapsed *elapsed // rule as elapsed time, if it follows that

	real instants // further times that were given in UTC or in the time of another zone
}

// instants is a schedule of given times, ascending.
type instants []rouse.Instant

// Next returns the first of them that is later.
func (t instants) Next(after rouse.Instant) (rouse.Instant, bool) {
	i, found := slices.BinarySearch(t, after)
	if found {
		i++
	}
	if i == len(t) {
		return 0, false
	}
	return t[i], true
}

// parseRRule reads a recurrence set. The text begins with "rrule:".
func parseRRule(expr string, o Options) (rouse.Schedule, error) {
	text := expr[len("rrule:"):]
	set, f := splitSet(text)
	if f != nil {
		return nil, refuseExpr(expr, f.wrong, f.cure)
	}
	r := &rrule{text: strings.Clone(text)}
	var err error
	if r.zone, err = o.zoneWithRule(); err != nil {
		return nil, err
	}
	var parts ruleParts
	if set.rule != "" {
		if parts, f = splitRule(set.rule); f != nil {
			return nil, refuseExpr(expr, f.wrong, f.cure)
		}
	}
	if o.DST == "" { // RFC 5545, section 3.3.5
		r.zone.rule = dstRule{gapShift, repeatFirst}
	}
	begin, err := r.readBegin(expr, set.start, parts.freq, o)
	if err != nil {
		return nil, err
	}
	switch {
	case set.rule != "":
		if r.rule, f = parts.buildRecur(begin, r.zone); f != nil {
			return nil, refuseExpr(expr, f.wrong, f.cure)
		}
		if parts.freq < daily && r.zone.loc != time.UTC && (o.DST == "" || o.DST == "vixie") {
			if r.elapsed, f = parts.elapsedRule(r.rule, r.zone); f != nil {
				return nil, refuseExpr(expr, f.wrong, f.cure)
			}
		}
		if parts.until.utc {
			r.until = parts.until.wall
		}
	case set.start.name != "":
		r.dates = append(r.dates, begin.wall)
	}
	if err := r.readDates(expr, set, begin.date); err != nil {
		return nil, err
	}
	if _, ok := r.Next(0); !ok {
		return nil, refuseExpr(expr, "never fires: "+r.neverReason(), "give a later end, or take out less")
	}
	return r, nil
}

// neverReason returns why a set whose rule has times has none left.
func (r *rrule) neverReason() string {
	if len(r.except)+len(r.days) > 0 {
		return "EXDATE takes out all of it"
	}
	return "it lies outside the years 1970 to 9998, or its local times do not exist and dst skips them"
}

// readBegin returns where the rule begins, and settles the zone.
func (r *rrule) readBegin(expr string, start property, f freq, o Options) (stamp, error) {
	if start.name == "" {
		at := int64(o.Anchor) / 1000
		switch {
		case o.Start > 0:
			at = int64(min(o.Start, rouse.MaxInstant)+999) / 1000
		case f == secondly:
			at++
		default:
			at += 60 - at%60
		}
		return stamp{wall: at + r.zone.spanAt(at).offset}, nil
	}
	if name := start.paramValue("TZID"); name != "" {
		z, err := loadZone(name)
		switch {
		case err != nil:
			return stamp{}, err
		case o.Timezone != "" && z.loc.String() != r.zone.loc.String():
			return stamp{}, rouse.Refuse("timezone", o.Timezone, "is not "+name+", the TZID of DTSTART", "leave one of them out")
		}
		r.zone.loc = z.loc
	}
	for _, q := range start.params {
		switch {
		case q.name == "TZID", q.name == "VALUE" && (strings.EqualFold(q.value, "DATE-TIME") ||
			strings.EqualFold(q.value, "DATE")):
		default:
			return stamp{}, refuseExpr(expr, "DTSTART has the parameter "+quotePart(q.name+"="+q.value),
				"write DTSTART;TZID=Europe/Berlin:20270101T090000")
		}
	}
	s, ok := parseStamp(start.value)
	if cut := strings.TrimRight(start.value, ";"); !ok && cut != start.value {
		if _, ok := parseStamp(cut); ok {
			return s, refuseExpr(expr, "DTSTART "+quotePart(start.value)+" ends with a semicolon", "write "+cut)
		}
	}
	switch {
	case !ok:
		return s, refuseExpr(expr, "DTSTART "+quotePart(start.value)+" is no date and time that exists",
			"write one such as 20270101T090000, 20270101T080000Z or 20270101")
	case s.wall < 0 || s.wall/secondsADay > lastDay:
		return s, refuseExpr(expr, "DTSTART "+quotePart(start.value)+" lies outside the years 1970 to 9998",
			"give a year between them")
	case s.date != strings.EqualFold(start.paramValue("VALUE"), "DATE") && start.paramValue("VALUE") != "":
		return s, refuseExpr(expr, "DTSTART "+quotePart(start.value)+" is not of its VALUE, "+start.paramValue("VALUE"),
			"leave VALUE out")
	case s.utc && start.paramValue("TZID") != "":
		return s, refuseExpr(expr, "DTSTART has both a TZID and a Z", "leave one of them out")
	case s.utc && r.zone.loc.String() != "UTC":
		local := s.wall + r.zone.spanAt(s.wall).offset
		return s, refuseExpr(expr, "DTSTART is in UTC, and the timezone "+r.zone.loc.String(),
			"write it in local time, "+showStamp(local)+", or leave the timezone empty for a rule in UTC")
	}
	return s, nil
}

// readDates reads RDATE and EXDATE. Of a set whose begin is a date, dates are at midnight.
func (r *rrule) readDates(expr string, set setText, date bool) error {
	for _, p := range set.except {
		stamps, at, err := r.readStamps(expr, p)
		if err != nil {
			return err
		}
		for _, s := range stamps {
			if s.date {
				r.days = append(r.days, s.wall/secondsADay)
			} else {
				r.except = append(r.except, s.wall)
			}
		}
		for _, at := range at {
			s := r.zone.spanAt(at)
			r.except = append(r.except, at+s.offset)
			if before := r.zone.spanAt(s.begin - 1); s.begin != math.MinInt64 && at+before.offset < s.begin+s.offset {
				r.except = append(r.except, at+before.offset) // a time that the clocks skip, and that is due then
			}
		}
	}
	slices.Sort(r.days)
	slices.Sort(r.except)
	for _, p := range set.dates {
		stamps, at, err := r.readStamps(expr, p)
		if err != nil {
			return err
		}
		for _, s := range stamps {
			if s.date && !date {
				return refuseExpr(expr, "RDATE "+showStamp(s.wall)[:8]+" has no time of day",
					"write "+showStamp(s.wall)[:8]+"T090000, or the time that is meant")
			}
			r.dates = append(r.dates, s.wall)
		}
		for _, at := range at {
			if !r.takenOut(at + r.zone.spanAt(at).offset) {
				r.real = append(r.real, rouse.Instant(at*1000))
			}
		}
	}
	slices.Sort(r.dates)
	slices.Sort(r.real)
	return nil
}

// readStamps reads a list of dates and times. Those of the set's zone are returned as such, others as seconds
// in UTC.
func (r *rrule) readStamps(expr string, p property) (local []stamp, utc []int64, err error) {
	z := r.zone
	for _, q := range p.params {
		switch {
		case q.name == "TZID":
			if z, err = loadZone(q.value); err != nil {
				return nil, nil, err
			}
		case q.name == "VALUE" && (strings.EqualFold(q.value, "DATE-TIME") || strings.EqualFold(q.value, "DATE")):
		default:
			return nil, nil, refuseExpr(expr, p.name+" has the parameter "+quotePart(q.name+"="+q.value),
				"write "+p.name+":20270101T090000")
		}
	}
	for text := range strings.SplitSeq(p.value, ",") {
		s, ok := parseStamp(text)
		switch {
		case !ok:
			return nil, nil, refuseExpr(expr, p.name+" "+quotePart(text)+" is no date and time that exists",
				"write a list such as 20270101T090000,20270102T090000")
		case s.wall < 0:
			return nil, nil, refuseExpr(expr, p.name+" "+quotePart(text)+" lies before 1970", "give a later one")
		case s.date && p.paramValue("TZID") != "":
			return nil, nil, refuseExpr(expr, p.name+" "+quotePart(text)+" is a date and has a TZID", "leave TZID out")
		case s.utc && p.paramValue("TZID") != "":
			return nil, nil, refuseExpr(expr, p.name+" "+quotePart(text)+" has both a TZID and a Z", "leave one of them out")
		case s.utc:
			utc = append(utc, s.wall)
		case z.loc.String() != r.zone.loc.String():
			at, _ := z.firstInstant(s.wall)
			utc = append(utc, at)
		default:
			local = append(local, s)
		}
	}
	return local, utc, nil
}

// Next returns the first due time after the given one.
func (r *rrule) Next(after rouse.Instant) (rouse.Instant, bool) {
	next, ok, _ := r.nextWithLimit(after, rouse.MaxScheduleSteps)
	return next, ok
}

// nextWithLimit is Next with the number of its steps; it gives up after most.
func (r *rrule) nextWithLimit(after rouse.Instant, most int) (next rouse.Instant, ok bool, steps int) {
	after = max(after, 0)
	if after >= rouse.MaxInstant {
		return 0, false, 0
	}
	next, ok = r.real.Next(after)
	b := budget{left: most - 1}
	if r.elapsed != nil {
		if due, found := (elapsedTimes{r}).nextWithin(after, &b); found && (!ok || due < next) {
			next, ok = due, true
		}
	}
	if due, found := r.zone.firstDueAfter(after, func(from int64) (int64, bool) { return r.wallFrom(from, &b) }); found &&
		(!ok || due < next) {
		next, ok = due, true
	}
	if b.left < 0 {
		return 0, false, most + 1
	}
	return next, ok && next <= rouse.MaxInstant, most - b.left
}

// ownSources returns the sources of the set.
func (r *rrule) ownSources() []source {
	s := []source{{zone: r.zone, local: r.wallFrom}}
	if r.elapsed != nil {
		s = append(s, source{zone: r.zone, real: elapsedTimes{r}})
	}
	if len(r.real) > 0 {
		s = append(s, source{zone: r.zone, real: r.real})
	}
	return s
}

// wallFrom returns the first local time of the set that is not before the given one. Both are in
// milliseconds.
func (r *rrule) wallFrom(from int64, b *budget) (int64, bool) {
	l := looks{most: max(0, b.left) * looksPerStep}
	wall, ok := r.matchSet(floorDiv(from+999, 1000), &l)
	if b.spendLooks(l.n); l.isExhausted() {
		b.left, ok = -1, false
	}
	return wall * 1000, ok
}

// matchSet returns the first local time of the set that is not before wall.
func (r *rrule) matchSet(wall int64, l *looks) (next int64, ok bool) {
	for {
		l.n++ // it may be taken out, one after another
		if ok = false; r.rule != nil && r.elapsed == nil {
			next, ok = r.nextOfRule(wall, l)
		}
		if i, _ := slices.BinarySearch(r.dates, wall); i < len(r.dates) && (!ok || r.dates[i] < next) {
			next, ok = r.dates[i], true
		}
		switch {
		case !ok:
			return 0, false
		case len(r.except)+len(r.days) == 0 || !r.takenOut(next):
			return next, true
		}
		wall = next + 1
		if day := floorDiv(next, secondsADay); containsSorted(r.days, day) {
			wall = (day + 1) * secondsADay
		}
	}
}

// nextOfRule returns the first local time of the rule that is not before wall.
func (r *rrule) nextOfRule(wall int64, l *looks) (next int64, ok bool) {
	for {
		next, ok = r.rule.nextWall(wall, l)
		if !ok || r.until == 0 || next < r.rule.last-maxShift {
			return next, ok
		}
		if at, n := r.zone.dueInstants(next); n == 0 || at[0] <= r.until || !l.spendCheck() {
			return next, ok
		}
		wall = next + 1 // the clocks skip it, and it is due after UNTIL
	}
}

// takenOut reports whether EXDATE names the local time or its day.
func (r *rrule) takenOut(wall int64) bool {
	return containsSorted(r.except, wall) || containsSorted(r.days, floorDiv(wall, secondsADay))
}

func containsSorted(sorted []int64, v int64) bool {
	_, found := slices.BinarySearch(sorted, v)
	return found
}

// setText is a recurrence set, taken apart into its properties.
type setText struct {
	start         property // without name: not given
	rule          string   // the parts of RRULE; empty: not given
	dates, except []property
}

// splitSet splits the text after "rrule:".
func splitSet(text string) (setText, *fault) {
	const shape = `write "rrule:FREQ=WEEKLY;BYDAY=MO,WE", "rrule:DTSTART=20270101T090000;FREQ=DAILY", or the lines DTSTART, RRULE, RDATE and EXDATE of RFC 5545`
	var set setText
	for i, c := range text {
		if c < ' ' && c != '\t' && c != '\r' && c != '\n' || c >= 0x7f {
			return set, &fault{fmt.Sprintf("has the character %U at byte %d", c, len("rrule:")+i),
				"write it with ASCII letters, digits and spaces"}
		}
	}
	for token := range strings.FieldsSeq(text) {
		if i := strings.IndexAny(token, ":;="); i >= 0 && token[i] == '=' { // parts, without a name in front
			rest := make([]string, 0, 8)
			for part := range strings.SplitSeq(token, ";") {
				if name, value, _ := strings.Cut(part, "="); !strings.EqualFold(name, "DTSTART") {
					rest = append(rest, part)
				} else if set.start.name != "" {
					return set, &fault{"has two DTSTART", "give one"}
				} else {
					set.start = property{name: "DTSTART", value: value}
				}
			}
			if len(rest) == 0 {
				continue
			}
			if set.rule != "" {
				return set, secondRule
			}
			set.rule = strings.Join(rest, ";")
			continue
		}
		p, wrong := parseProperty(token)
		if wrong != "" {
			return set, &fault{"the line " + quotePart(token) + " " + wrong, shape}
		}
		switch p.name {
		case "DTSTART":
			if set.start.name != "" {
				return set, &fault{"has two DTSTART", "give one"}
			}
			set.start = p
		case "RRULE":
			if set.rule != "" {
				return set, secondRule
			}
			if p.value == "" || len(p.params) > 0 {
				return set, &fault{"the line " + quotePart(token) + " is no rule", "write RRULE:FREQ=DAILY"}
			}
			set.rule = p.value
		case "RDATE":
			set.dates = append(set.dates, p)
		case "EXDATE":
			set.except = append(set.except, p)
		case "EXRULE":
			return set, &fault{"EXRULE is not offered, as RFC 5545 withdrew it",
				"give the dates as EXDATE, or the times as the timer's exceptions"}
		default:
			return set, &fault{"the property " + quotePart(p.name) + " is not offered", shape}
		}
	}
	if set.rule == "" && len(set.dates) == 0 {
		return set, &fault{"has neither a rule nor RDATE", shape}
	}
	return set, nil
}

var secondRule = &fault{"has two rules", "give the second as a schedule of its own in addition to the first"}
