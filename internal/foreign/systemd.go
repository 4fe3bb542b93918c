package foreign

import (
	"cmp"
	"maps"
	"math"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

var systemdNotes = []string{
	"systemd starts a unit; rouse calls a target, which gets it as JSON: {\"unit\": …, \"timer\": …, \"description\": …, \"exec_start\": […], \"user\": …}. The last two are there if the file has the unit, too: systemctl cat '*.timer' '*.service'.",
	"systemd does not start a unit that still runs, and so do these timers: overlap is skip.",
	"A timer without Persistent=yes does not start what it missed while the machine was off: misfire is skip. With it, misfire is latest.",
	"systemd waits up to AccuracySec, a minute by default; rouse fires within milliseconds. Retries are those of rouse; Restart= of the unit stays with it.",
}

// unit is a unit file with its drop-ins.
type unit struct {
	name string
	line int
	text map[string][]string // the assignments of each directive, as "Section.Name"
	when [][2]string         // the assignments of OnCalendar= and its relatives, which reset each other
}

// systemdPath is the comment that systemctl cat prints before each file: a unit, or a drop-in of it.
var systemdPath = regexp.MustCompile(`^# /\S*?/([^/\s]+\.(?:timer|service|target|socket|path|mount))(\.d/\S+\.conf)?$`)

// readSystemd reads the output of systemctl cat for timers, or a single file of one.
func readSystemd(in []byte, o *Options) (entries []Entry, err error) {
	var units []*unit
	named := map[string]*unit{}
	section := ""
	begin := func(line int, name string) *unit {
		u := &unit{name: name, line: line, text: map[string][]string{}}
		units, named[name] = append(units, u), u
		return u
	}
	var u *unit
	text := strings.ReplaceAll(strings.ReplaceAll(string(in), "\r\n", "\n"), "\\\n", " \x00")
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		at := number + 1
		number = at + strings.Count(line, "\x00")
		line = strings.TrimSpace(strings.ReplaceAll(line, "\x00", ""))
		if m := systemdPath.FindStringSubmatch(line); m != nil {
			section = ""
			switch first := named[m[1]]; {
			case m[2] == "": // of a unit
				u = begin(at, m[1])
			case u != nil && m[1] == templateOf(u.name): // whose instance may have been named before
			case first != nil:
				u = first
			case u != nil && u.name == templateOf(m[1]): // names the instance that is printed
				named[u.name] = &unit{name: u.name, line: u.line, text: maps.Clone(u.text)}
				u.name, named[m[1]] = m[1], u
			case u != nil && path.Ext(u.name) == path.Ext(m[1]): // of a prefix or an alias of the unit before it
			default:
				u = begin(at, m[1])
			}
			continue
		}
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if line[0] == '[' {
			next := strings.Trim(line, "[]")
			if u == nil || u.name == "" && next == "Unit" && section != "" { // files one after the other, without their names
				u = begin(at, "")
			}
			section = next
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if u == nil {
			return nil, rouse.Refuse("file", line, "is no line of a unit file", "give what systemctl cat '*.timer' prints")
		}
		if !ok { // systemd passes over it, too
			name, value = "a line", line
		}
		u.setDirective(section, strings.TrimSpace(name), strings.TrimSpace(value))
	}
	units = slices.DeleteFunc(units, func(u *unit) bool {
		return !strings.HasSuffix(u.name, ".timer") && (u.name != "" || len(u.when) == 0)
	})
	for _, u := range units {
		if base := filepath.Base(o.File); len(units) == 1 && u.name == "" && strings.HasSuffix(base, ".timer") {
			u.name = base
		}
		entries = append(entries, u.newSystemdEntry(named, o))
	}
	if len(entries) == 0 {
		return nil, rouse.Refuse("file", "", "has no timer", "give what systemctl cat '*.timer' prints")
	}
	return entries, nil
}

// templateOf returns the name of the template of an instance; of another unit its own.
func templateOf(name string) string {
	template, instance, ok := strings.Cut(name, "@")
	if !ok {
		return name
	}
	return template + "@" + path.Ext(instance)
}

// setDirective takes an assignment. An empty one resets a list, and that of any time all of them.
func (u *unit) setDirective(section, name, value string) {
	switch key := section + "." + name; {
	case section == "Timer" && strings.HasPrefix(name, "On") && name != "OnClockChange" && name != "OnTimezoneChange":
		if u.when = append(u.when, [2]string{name, value}); value == "" {
			u.when = nil
		}
	case value == "":
		delete(u.text, key)
	default:
		u.text[key] = append(u.text[key], value)
	}
}

// lastOf returns the assignment of a directive that is in force.
func (u *unit) lastOf(key string) string {
	if list := u.text[key]; len(list) > 0 {
		return list[len(list)-1]
	}
	return ""
}

func (u *unit) isOn(key string) bool {
	return slices.Contains([]string{"1", "yes", "y", "true", "t", "on"}, strings.ToLower(u.lastOf(key)))
}

// directives are those of [Timer] that are read, or have no meaning here.
var directives = []string{"Timer.Unit", "Timer.Persistent", "Timer.RandomizedDelaySec", "Timer.FixedRandomDelay",
	"Timer.AccuracySec", "Timer.RemainAfterElapse"}

func (u *unit) newSystemdEntry(units map[string]*unit, o *Options) Entry {
	e, starts := Entry{Line: u.line}, u.lastOf("Timer.Unit")
	if u.name == "" {
		if starts == "" {
			e.Err = rouse.Refuse("name", "", "is missing: the file does not name its timer",
				"give what systemctl cat prints, or the file under its own name, such as backup.timer")
			return e
		}
		u.name = strings.TrimSuffix(starts, ".service") + ".timer"
		e.noteDifference("the file does not name it: it is named after its unit.")
	}
	name := strings.TrimSuffix(u.name, ".timer")
	e.Name, starts = name, cmp.Or(starts, name+".service")
	if prefix, instance, ok := strings.Cut(name, "@"); ok && instance != "" {
		starts = strings.NewReplacer("%%", "%", "%p", prefix, "%i", instance).Replace(starts)
	}
	if strings.HasSuffix(name, "@") {
		e.noteDifference("it is a template, whose instances the file does not name.")
	}
	run := struct {
		Unit        string   `json:"unit"`
		Timer       string   `json:"timer"`
		Description string   `json:"description,omitempty"`
		ExecStart   []string `json:"exec_start,omitempty"`
		User        string   `json:"user,omitempty"`
	}{Unit: starts, Timer: u.name, Description: u.lastOf("Unit.Description")}
	if service := cmp.Or(units[starts], units[templateOf(starts)]); service != nil {
		run.ExecStart, run.User = service.text["Service.ExecStart"], service.lastOf("Service.User")
	}
	s := &e.Spec
	s.Overlap = rouse.OverlapSkip
	e.setPayload(run, o)
	if e.Err = u.setUnitTimes(&e, o); e.Err != nil {
		return e
	}
	if !s.Recurring() {
		s.Overlap = rouse.OverlapDefault
	}
	if !u.isOn("Timer.Persistent") {
		s.Misfire = rouse.MisfireSkip
	}
	if delay := u.lastOf("Timer.RandomizedDelaySec"); delay != "" {
		if s.Jitter, e.Err = systemdSpan(delay); s.Jitter > 0 && !u.isOn("Timer.FixedRandomDelay") {
			e.noteDifference("its random delay became jitter: each occurrence has always the same delay.")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(u.text)) {
		section, directive, _ := strings.Cut(key, ".")
		if section == "Timer" && !slices.Contains(directives, key) ||
			section == "Unit" && (strings.HasPrefix(directive, "Condition") || strings.HasPrefix(directive, "Assert")) {
			e.noteDifference("%s=%s is left out.", directive, u.lastOf(key))
		}
	}
	return e
}

// setUnitTimes sets when the timer is due.
func (u *unit) setUnitTimes(e *Entry, o *Options) error {
	s := &e.Spec
	var once []string
	zones := map[string]bool{}
	for _, w := range u.when {
		name, value := w[0], w[1]
		switch seconds, single := strings.CutPrefix(value, "@"); {
		case name == "OnCalendar" && single:
			n, err := strconv.ParseInt(seconds, 10, 40)
			if err != nil {
				return rouse.Refuse(name, value, "is no time", "give seconds since 1970, such as @1900000000")
			}
			addSchedule(s, max(rouse.MinInstant, rouse.Instant(n*1000)).String())
		case name == "OnCalendar":
			l, zone, err := onCalendar(value)
			if err == nil {
				err = l.putTimes(s)
			}
			if err != nil {
				return err
			}
			s.Timezone, s.DST = cmp.Or(zone, o.Timezone), "skip,first"
			zones[s.Timezone] = true
		case name == "OnUnitActiveSec", name == "OnUnitInactiveSec":
			span, err := systemdSpan(value)
			if err != nil {
				return err
			}
			addSchedule(s, "@every "+span.String())
			e.noteDifference(
				"%s=%s is an interval that is counted from the creation of this timer, not from when the unit was last active.",
				name, value)
		default: // OnActiveSec, OnBootSec, OnStartupSec
			once = append(once, name+"="+value)
		}
	}
	switch left := strings.Join(once, ", "); {
	case s.Schedule == "" && left != "":
		return rouse.Refuse("times", left, "is counted from the start of a machine", "leave the timer there")
	case s.Schedule == "":
		return rouse.Refuse("OnCalendar", "", "is missing", "give a timer with OnCalendar= or OnUnitActiveSec=")
	case len(zones) > 1:
		return rouse.Refuse("OnCalendar", s.Timezone, "is not the time zone of all its lines", "write a timer for each zone")
	case left != "":
		e.noteDifference("%s is left out: rouse does not know when a machine starts.", left)
	}
	if zones[""] {
		e.noteDifference("systemd uses the local time of its machine, this timer UTC: give --timezone.")
	}
	return nil
}

// systemdUnits are the units of systemd.time(7), but for the plural.
var systemdUnits = map[string]time.Duration{
	"": time.Second, "us": time.Microsecond, "usec": time.Microsecond, "µs": time.Microsecond, "ms": time.Millisecond,
	"msec": time.Millisecond,
	"s":    time.Second, "sec": time.Second, "second": time.Second, "m": time.Minute, "min": time.Minute,
	"minute": time.Minute,
	"h":      time.Hour, "hr": time.Hour, "hour": time.Hour, "d": 24 * time.Hour, "day": 24 * time.Hour,
	"w":    168 * time.Hour,
	"week": 168 * time.Hour,
	"M":    2629800 * time.Second, "month": 2629800 * time.Second, "y": 31557600 * time.Second,
	"year": 31557600 * time.Second,
}

var systemdPart = regexp.MustCompile(`^\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([a-zA-Zµ]*)`)

// systemdSpan reads a time span such as "1h 30min".
func systemdSpan(text string) (span time.Duration, err error) {
	for rest := text; strings.TrimSpace(rest) != "" || rest == text; {
		m := systemdPart.FindStringSubmatch(rest)
		if m == nil {
			m = make([]string, 3)
		}
		n, err := strconv.ParseFloat(m[1], 64)
		unit := cmp.Or(systemdUnits[m[2]], systemdUnits[strings.TrimSuffix(m[2], "s")])
		if n *= float64(unit); err != nil || unit == 0 || n+float64(span) > float64(clampSeconds(math.MaxInt64)) {
			return 0, rouse.Refuse("span", text, "is no time span of systemd, or too long", "give one such as 1h 30min")
		}
		span, rest = span+time.Duration(n).Round(time.Microsecond), rest[len(m[0]):]
	}
	return span, nil
}

// calendarWords are the short forms of OnCalendar=.
var calendarWords = map[string]string{
	"minutely": "*:*", "hourly": "*:0", "daily": "*-*-*", "weekly": "Mon", "monthly": "*-*-1", "quarterly": "*-1,4,7,10-1",
	"semiannually": "*-1,7-1", "semi-annually": "*-1,7-1", "biannually": "*-1,7-1", "bi-annually": "*-1,7-1",
	"yearly": "*-1-1", "annually": "*-1-1",
}

// onCalendar reads a calendar event of systemd.time(7). The zone is empty if it names none.
func onCalendar(text string) (l localTimes, zone string, err error) {
	const shape = "write weekdays, a date, a time and a zone, as in Mon..Fri *-*-1..7 09:00 Europe/Stockholm"
	words := strings.Fields(text)
	if n := len(words); n > 1 && !strings.ContainsAny(words[n-1], ":*~") &&
		(words[n-1] == "UTC" || strings.Contains(words[n-1], "/") || words[n-1][0] > '9') {
		zone, words = words[n-1], words[:n-1]
	}
	if len(words) == 1 && calendarWords[strings.ToLower(words[0])] != "" {
		words[0] = calendarWords[strings.ToLower(words[0])]
	}
	fields := cronFields("..", false, true)
	l = localTimes{seconds: 1, set: [5]uint64{1, 1, fields[2].fullSet(), fields[3].fullSet(), fields[4].fullSet()}}
	if len(words) > 0 && words[0][0] > '9' {
		days := strings.TrimSuffix(words[0], ",")
		if !strings.Contains(days, "..") {
			days = strings.ReplaceAll(days, "-", "..")
		}
		week := field{"day of week", 1, 7, "..", weekdayWord, false, false}
		if l.set[4], err = week.parseSet(days); err != nil {
			return l, "", err
		}
		words = words[1:]
	}
	if len(words) > 0 && strings.ContainsAny(words[0], "-~") {
		if err := l.parseDate(words[0], &fields); err != nil {
			return l, "", err
		}
		words = words[1:]
	}
	if len(words) == 1 {
		parts := append(strings.Split(words[0], ":"), "0")
		switch {
		case len(parts) != 3 && len(parts) != 4:
		case strings.Contains(strings.ReplaceAll(words[0], "..", ""), "."):
			return l, "", rouse.Refuse("OnCalendar", text, "has parts of a second",
				"give whole seconds, or an interval in OnUnitActiveSec")
		default:
			second := field{"second", 0, 59, "..", nil, false, true}
			if l.set[1], err = fields[1].parseSet(parts[0]); err == nil {
				l.set[0], err = fields[0].parseSet(parts[1])
			}
			if err == nil {
				l.seconds, err = second.parseSet(parts[2])
			}
			words = nil
		}
	}
	if err == nil && (len(words) > 0 || text == "") {
		err = rouse.Refuse("OnCalendar", text, "is no calendar event", shape)
	}
	return l, zone, err
}

// parseDate reads a date: year-month-day or month-day, with a ~ before days that are counted from the end.
func (l *localTimes) parseDate(text string, fields *[5]field) (err error) {
	before, back, fromEnd := strings.Cut(text, "~")
	parts := strings.Split(before, "-")
	if fromEnd {
		parts = append(parts, "*")
	}
	if len(parts) == 3 {
		if l.year = strings.ReplaceAll(parts[0], "..", "-"); l.year == "*" {
			l.year = ""
		}
		parts = parts[1:]
	}
	if len(parts) != 2 {
		return rouse.Refuse("OnCalendar", text, "is no date", "write *-*-1..7, *-02~01, or 2027-12-24")
	}
	if l.set[3], err = fields[3].parseSet(parts[0]); err != nil || !fromEnd {
		if err == nil {
			l.set[2], err = fields[2].parseSet(parts[1])
		}
		return err
	}
	l.set[2] = 0
	for item := range strings.SplitSeq(back, ",") {
		set, err := fields[2].parseSet(item)
		// ~7/2 counts down to the last day
		if from, step, ok := strings.Cut(item, "/"); ok && err == nil && !strings.Contains(from, "..") {
			set = 0
			v, _ := strconv.Atoi(from)
			n, _ := strconv.Atoi(step)
			for ; v > 0; v -= n {
				set |= 1 << v
			}
		}
		if err != nil {
			return err
		}
		for v := range 32 {
			if set>>v&1 == 1 {
				l.addLastDay(v)
			}
		}
	}
	return nil
}

// addLastDay adds a day that is counted from the end of the month: 1 is the last.
func (l *localTimes) addLastDay(n int) {
	day := "L"
	if n > 1 {
		day = "L-" + strconv.Itoa(n-1)
	}
	l.odd[0] = strings.Trim(l.odd[0]+","+day, ",")
}
