package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/rousehq/rouse"
)

// Limits on the result of an iCalendar file.
const (
	icalYears    = 30        // years that a rule without end continues after the latest date of its file
	icalTouched  = 400_000   // days that all events touch together
	icalSteps    = 4_000_000 // steps of all rules together
	icalWarnings = 50
)

// ParseICalendar reads an iCalendar file (RFC 5545) of at most 4 MiB, and returns the days that its events
// touch, ascending, each once, with the summaries of its events as text. It is pure.
//
// An event touches every day from its DTSTART to the moment before its DTEND, which is not part of it;
// without DTEND and DURATION, the day of its DTSTART. The days are those of the event's own time zone; times
// in UTC are read in the zone that the calendar names as X-WR-TIMEZONE, if it does. RRULE, RDATE and EXDATE
// are followed as in "rrule:" schedules, but for DTSTART, which is a time of the event whatever its rule is.
// A rule without end goes on for 30 years after the latest date that the file names. An event with
// RECURRENCE-ID takes the place of that time of the event with the same UID. Events that are cancelled are
// left out, and so is everything that is no VEVENT; VTIMEZONE is not read, as zones are known by name.
//
// These are omitted with a warning: days outside the years 1970 to 9998, days beyond rouse.MaxDays, rules
// that cannot be read, unknown zones. A file that is no iCalendar file is refused with a *rouse.Invalid that
// names the line.
func ParseICalendar(data []byte) (days []rouse.Day, warnings []string, err error) {
	events, zoneName, others, err := readICalendar(data)
	if err != nil {
		return nil, nil, err
	}
	c := icalendar{zones: make(map[string]zone), texts: make(map[int64]string), utc: zone{loc: time.UTC}}
	if zoneName != "" {
		c.utc = c.zoneOf(zoneName)
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		if name != "VTIMEZONE" {
			c.addWarning("%d %s left out: only events have days", others[name], name)
		}
	}
	if err := c.readEvents(events); err != nil {
		return nil, nil, err
	}
	for i := range c.events {
		c.expandEvent(&c.events[i])
	}
	days = c.collectDays()
	c.addSummary()
	return days, c.warnings, nil
}

// icalendar is a file that is being converted to days.
type icalendar struct {
	events   []event
	replaced map[string][]property // by UID: the times in place of which there are other events
	utc      zone                  // in which times in UTC are read
	zones    map[string]zone       // by the names that the file gives
	latest   int64                 // of the dates that the file names
	texts    map[int64]string      // by day
	touched  int
	steps    int
	outside  int // times with days outside the range of calendars
	endless  int // rules that continue after the horizon
	stopped  int // the line at which the file had had its share of work
	warnings []string
	more     int // warnings
}

// event is a VEVENT.
type event struct {
	begin   stamp
	length  int64 // seconds
	zone    zone
	uid     string
	text    string
	rules   []property
	dates   []span // of RDATE: begin and end on the wall
	except  []int64
	days    []int64 // of EXDATE
	instead bool    // of a time of the event with its UID
	line    int     // of its DTSTART
}

func (c *icalendar) addWarning(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	switch {
	case slices.Contains(c.warnings, text):
	case len(c.warnings) == icalWarnings:
		c.more++
	default:
		c.warnings = append(c.warnings, text)
	}
}

// warnOfFile adds a warning about the whole of the file.
func (c *icalendar) warnOfFile(format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, args...))
}

// addSummary adds warnings for the counted problems.
func (c *icalendar) addSummary() {
	if c.endless > 0 {
		c.warnOfFile("%d rules without end are followed until the end of %d", c.endless, c.horizonYear())
	}
	if c.stopped > 0 {
		c.warnOfFile("what begins at line %d and later is not followed to its end, as the events have too many days",
			c.stopped)
	}
	if c.outside > 0 {
		c.warnOfFile("days outside the years 1970 to 9998 are left out, of %d times", c.outside)
	}
	if c.more > 0 {
		c.warnOfFile("%d further warnings", c.more)
	}
}

// horizonYear is the last year that rules are followed to.
func (c *icalendar) horizonYear() int { return time.Unix(c.latest, 0).UTC().Year() + icalYears }

// readEvents takes the events apart.
func (c *icalendar) readEvents(all []component) error {
	c.replaced = make(map[string][]property)
	for i := range all {
		e, cancelled, err := c.readEvent(&all[i])
		if err != nil {
			return err
		}
		if p := all[i].firstProperty("RECURRENCE-ID"); p.name != "" {
			if _, ok := c.readWall(p, p.value, e.zone); !ok {
				return refuseLine(p.line, p.value, "is no date and time that exists", "fix the line, or take it out")
			}
			if p.paramValue("RANGE") != "" {
				c.addWarning("line %d: RANGE=%s is read as this time only", p.line, rouse.Shorten(p.paramValue("RANGE"), 32))
			}
			e.instead = true
			c.replaced[e.uid] = append(c.replaced[e.uid], p)
		}
		if !cancelled {
			c.events = append(c.events, e)
		}
	}
	return nil
}

// readEvent reads a VEVENT.
func (c *icalendar) readEvent(v *component) (e event, cancelled bool, err error) {
	start := v.firstProperty("DTSTART")
	if start.name == "" {
		return e, false, refuseLine(v.line, "BEGIN:VEVENT", "begins an event without DTSTART", "give each event a DTSTART")
	}
	e.zone, e.line = c.zoneFor(start), start.line
	var ok bool
	if e.begin, ok = c.readWall(start, start.value, e.zone); !ok {
		return e, false, refuseLine(start.line, start.value, "is no date and time that exists",
			"write one such as 20271224 or 20271224T090000")
	}
	e.uid, e.text = v.firstProperty("UID").value, plainText(v.firstProperty("SUMMARY").value)
	c.latest = max(c.latest, e.begin.wall)
	if s, ok := parseStamp(v.firstProperty("DTSTAMP").value); ok {
		c.latest = max(c.latest, s.wall)
	}
	if err := c.readLength(v, &e); err != nil {
		return e, false, err
	}
	e.rules = v.allProperties("RRULE")
	for _, p := range v.allProperties("RDATE") {
		for text := range strings.SplitSeq(p.value, ",") {
			from, end, period := strings.Cut(text, "/")
			at, ok := c.readWall(p, from, e.zone)
			if !ok {
				return e, false, refuseLine(p.line, text, "has no date and time that exists", "fix the line, or take it out")
			}
			length := e.length
			if period {
				if to, ok := c.readWall(p, end, e.zone); ok {
					length = to.wall - at.wall
				} else if d, ok := icalDuration(end); ok {
					length = d
				}
			}
			e.dates = append(e.dates, span{begin: at.wall, end: at.wall + length})
			c.latest = max(c.latest, at.wall)
		}
	}
	for _, p := range v.allProperties("EXDATE") {
		for text := range strings.SplitSeq(p.value, ",") {
			at, ok := c.readWall(p, text, e.zone)
			switch {
			case !ok:
				return e, false, refuseLine(p.line, text, "has no date and time that exists", "fix the line, or take it out")
			case at.date:
				e.days = append(e.days, floorDiv(at.wall, secondsADay))
			default:
				e.except = append(e.except, at.wall)
			}
		}
	}
	if p := v.firstProperty("EXRULE"); p.name != "" {
		c.addWarning("line %d: EXRULE is not followed, as RFC 5545 withdrew it", p.line)
	}
	return e, strings.EqualFold(strings.TrimSpace(v.firstProperty("STATUS").value), "CANCELLED"), nil
}

// readLength works out how long an event is.
func (c *icalendar) readLength(v *component, e *event) error {
	if e.begin.date {
		e.length = secondsADay
	}
	end, duration := v.firstProperty("DTEND"), v.firstProperty("DURATION")
	length := e.length
	switch {
	case end.name != "":
		to, ok := c.readWall(end, end.value, e.zone)
		if !ok {
			return refuseLine(end.line, end.value, "is no date and time that exists",
				"write one such as 20271224 or 20271224T090000")
		}
		length = to.wall - e.begin.wall
		if length < 0 {
			c.addWarning("line %d: DTEND lies before DTSTART, so only the first day is taken", end.line)
		}
		c.latest = max(c.latest, to.wall)
	case duration.name != "":
		var ok bool
		if length, ok = icalDuration(duration.value); !ok {
			c.addWarning("line %d: DURATION %s is not understood, so only the first day is taken", duration.line,
				quotePart(duration.value))
		}
	}
	e.length = max(e.length, length)
	return nil
}

// icalDuration reads a duration of weeks, days, hours, minutes and seconds.
func icalDuration(text string) (seconds int64, ok bool) {
	text = strings.TrimPrefix(strings.ToUpper(text), "+")
	if strings.HasPrefix(text, "P") && strings.Trim(text, "PTWDHMS0") == "" {
		return 0, true
	}
	p, fault := parsePeriod(text)
	return p.days*secondsADay + p.millis/1000, fault == nil && p.months == 0
}

// zoneFor returns the zone of the local time of a property.
func (c *icalendar) zoneFor(p property) zone {
	if name := p.paramValue("TZID"); name != "" {
		return c.zoneOf(name)
	}
	return c.utc
}

// zoneOf returns the zone of a name; unknown names become UTC.
func (c *icalendar) zoneOf(name string) zone {
	if z, ok := c.zones[name]; ok {
		return z
	}
	known := name
	if strings.HasPrefix(name, "/") { // "/example.org/20270101/Europe/Berlin"
		if parts := strings.Split(name, "/"); len(parts) > 2 {
			known = strings.Join(parts[len(parts)-2:], "/")
		}
	}
	z, err := loadZone(known)
	if err != nil {
		z = zone{loc: time.UTC}
		c.addWarning("the zone %s is not known, so its times are compared with others as if they were in UTC",
			quotePart(name))
	}
	if len(c.zones) < 10_000 {
		c.zones[name] = z
	}
	return z
}

// readWall reads a date or time of a property, on the wall of a zone.
func (c *icalendar) readWall(p property, text string, z zone) (stamp, bool) {
	s, ok := parseStamp(strings.TrimSpace(text))
	if !ok || s.date {
		return s, ok
	}
	at := s.wall
	switch own := p.paramValue("TZID"); {
	case s.utc:
	case own == "":
		return s, true // floating
	default:
		other := c.zoneOf(own)
		if other.loc == z.loc {
			return s, true
		}
		at, _ = other.firstInstant(s.wall)
	}
	s.utc, s.wall = false, at+z.spanAt(at).offset
	return s, true
}

// expandEvent adds the days of an event.
func (c *icalendar) expandEvent(e *event) {
	slices.Sort(e.except)
	slices.Sort(e.days)
	var replaced []int64
	if !e.instead && !c.isWorkSpent() {
		for _, p := range c.replaced[e.uid] {
			at, _ := c.readWall(p, p.value, e.zone)
			replaced = append(replaced, at.wall)
		}
		c.steps += len(replaced)
		slices.Sort(replaced)
	}
	taken := func(wall int64) bool {
		return containsSorted(e.except, wall) || containsSorted(e.days, floorDiv(wall, secondsADay)) ||
			containsSorted(replaced, wall)
	}
	add := func(begin, end int64) {
		if !taken(begin) {
			c.addDays(begin, end, e.text, e.line)
		}
	}
	add(e.begin.wall, e.begin.wall+e.length)
	for _, d := range e.dates {
		add(d.begin, d.end)
	}
	for _, p := range e.rules {
		if c.isWorkSpent() {
			c.markStopped(p.line)
			continue
		}
		parts, f := splitRule(strings.TrimSpace(p.value))
		if f != nil {
			c.addWarning("line %d: RRULE is not followed: %s; %s", p.line, f.wrong, f.cure)
			continue
		}
		rule, f := parts.buildRecur(e.begin, e.zone)
		c.steps += parts.steps
		if f != nil {
			c.addWarning("line %d: RRULE is not followed: %s; %s", p.line, f.wrong, f.cure)
			continue
		}
		c.followRule(rule, e, p.line, add)
	}
}

// markStopped keeps the first line that is not followed to its end, as the file has had its share of work.
func (c *icalendar) markStopped(line int) {
	c.stopped = cmp.Or(c.stopped, line)
}

// isWorkSpent reports whether the file has had its share of work.
func (c *icalendar) isWorkSpent() bool { return c.touched >= icalTouched || c.steps >= icalSteps }

// followRule adds the times of a rule.
func (c *icalendar) followRule(rule *recur, e *event, line int, add func(begin, end int64)) {
	horizon := time.Date(c.horizonYear()+1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	for wall := e.begin.wall + 1; ; wall++ {
		var ok bool
		l := looks{c.steps, icalSteps}
		wall, ok = rule.nextWall(wall, &l)
		if c.steps = l.n; !ok {
			return
		}
		switch {
		case wall >= horizon:
			c.endless++
			return
		case c.isWorkSpent():
			c.markStopped(line)
			return
		}
		add(wall, wall+e.length)
		c.touched++
	}
}

// addDays adds the days of a stretch of time.
func (c *icalendar) addDays(begin, end int64, text string, line int) {
	last := floorDiv(max(begin, end-1), secondsADay)
	for day := floorDiv(begin, secondsADay); day <= last; day++ {
		if day < 0 || day > lastDay {
			c.outside++
			if day > lastDay {
				return
			}
			day = min(last, -1) // those before 1970 all at once
			continue
		}
		if c.touched >= icalTouched {
			c.markStopped(line)
			return
		}
		c.touched++
		switch have, ok := c.texts[day]; {
		case !ok || have == "":
			c.texts[day] = text
		case text == "" || len(have) > rouse.MaxDayText || strings.Contains(", "+have+", ", ", "+text+", "):
		default:
			c.texts[day] = have + ", " + text
		}
	}
}

// collectDays returns the collected days.
func (c *icalendar) collectDays() []rouse.Day {
	numbers := slices.Sorted(maps.Keys(c.texts))
	if len(numbers) > rouse.MaxDays {
		c.warnOfFile("%d days from %s on are left out: a calendar has at most %d", len(numbers)-rouse.MaxDays,
			formatDay(numbers[rouse.MaxDays]*secondsADay), rouse.MaxDays)
		numbers = numbers[:rouse.MaxDays]
	}
	days := make([]rouse.Day, len(numbers))
	for i, n := range numbers {
		days[i] = rouse.Day{Date: rouse.Date(n), Text: rouse.Shorten(c.texts[n], rouse.MaxDayText)}
	}
	return days
}

// plainText turns a TEXT value into one line without characters that a calendar refuses.
func plainText(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
			if text[i] == 'n' || text[i] == 'N' {
				b.WriteByte(' ')
				continue
			}
		}
		b.WriteByte(text[i])
		if b.Len() > 4*rouse.MaxDayText {
			break
		}
	}
	clean := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r) || r == '\u2028' || r == '\u2029':
			return ' '
		case unicode.Is(unicode.Bidi_Control, r) || r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, b.String())
	return strings.Join(strings.Fields(clean), " ")
}
