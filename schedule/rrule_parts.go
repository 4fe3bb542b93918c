package schedule

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ruleParts is a rule of RFC 5545, taken apart into its parts, whose values have been read one by one.
type ruleParts struct {
	freq      freq
	given     []string // the names in their order
	interval  int64
	count     int64
	until     stamp
	weekStart int
	weekdays  uint64
	nth       []nthDay
	lists     [len(listParts)][]int
	steps     int // that it took to see whether the rule has times, and its last
}

// listParts are the parts that are lists of numbers.
var listParts = [...]struct {
	name     string
	min, max int
	negative bool // may be counted from the end
}{
	{"BYSECOND", 0, 59, false},
	{"BYMINUTE", 0, 59, false},
	{"BYHOUR", 0, 23, false},
	{"BYMONTHDAY", 1, 31, true},
	{"BYYEARDAY", 1, 366, true},
	{"BYWEEKNO", 1, 53, true},
	{"BYMONTH", 1, 12, false},
	{"BYSETPOS", 1, 366, true},
}

// The indexes of listParts.
const (
	bySecond = iota
	byMinute
	byHour
	byMonthDay
	byYearDay
	byWeekNo
	byMonth
	bySetPos
)

var weekdayCodes = [...]string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}

func (p *ruleParts) hasPart(name string) bool { return slices.Contains(p.given, name) }

// splitRule reads the parts of a rule: "FREQ=WEEKLY;BYDAY=MO".
func splitRule(text string) (ruleParts, *fault) {
	p := ruleParts{interval: 1, weekStart: 1}
	for part := range strings.SplitSeq(text, ";") {
		name, value, ok := strings.Cut(part, "=")
		name = strings.ToUpper(name)
		switch {
		case part == "":
			return p, &fault{"has nothing before or after a semicolon",
				"write a part such as INTERVAL=2 there, or leave the semicolon out"}
		case !ok || value == "":
			return p, &fault{"the part " + quotePart(part) + " has no value", "write a name, '=' and a value, as in INTERVAL=2"}
		case p.hasPart(name):
			return p, &fault{"has the part " + quotePart(name) + " twice", "give it once; a list has commas, as in BYDAY=MO,WE"}
		}
		p.given = append(p.given, name)
		if f := p.readPart(name, strings.ToUpper(value)); f != nil {
			return p, f
		}
	}
	if !p.hasPart("FREQ") {
		return p, &fault{"has no FREQ", "begin with FREQ=DAILY, or another of " + strings.Join(freqNames[:], ", ")}
	}
	return p, p.refuseClashes()
}

// readPart reads the value of a part.
func (p *ruleParts) readPart(name, value string) *fault {
	for i, l := range listParts {
		if name == l.name {
			return p.readList(i, value)
		}
	}
	switch name {
	case "FREQ":
		i := slices.Index(freqNames[:], value)
		if i < 0 {
			return &fault{"FREQ " + quotePart(value) + " is not known", "give one of " + strings.Join(freqNames[:], ", ")}
		}
		p.freq = freq(i)
	case "INTERVAL":
		n, ok := parseInteger(value)
		if !ok || n == 0 {
			return &fault{"INTERVAL " + quotePart(value) + " is no number from 1 to 999999999", "give one such as 2"}
		}
		p.interval = n
	case "COUNT":
		n, ok := parseInteger(value)
		if !ok || n == 0 || n > maxCount {
			return &fault{"COUNT " + quotePart(value) + " is no number from 1 to " + strconv.Itoa(maxCount),
				"give one such as 10, or an end with UNTIL"}
		}
		p.count = n
	case "UNTIL":
		s, ok := parseStamp(value)
		if !ok {
			return &fault{"UNTIL " + quotePart(value) + " is no date and time that exists",
				"write one such as 20271231, 20271231T235959 or 20271231T225959Z"}
		}
		p.until = s
	case "WKST":
		i := slices.Index(weekdayCodes[:], value)
		if i < 0 {
			return &fault{"WKST " + quotePart(value) + " is no day of the week",
				"give one of " + strings.Join(weekdayCodes[:], ", ")}
		}
		p.weekStart = i
	case "BYDAY":
		return p.readDays(value)
	case "RSCALE", "SKIP":
		return &fault{"the part " + quotePart(name) + " is not offered",
			"leave it out: rules are of the Gregorian calendar, and days that do not exist are left out"}
	case "TZID", "DTSTART", "RDATE", "EXDATE", "DTEND", "DURATION":
		return &fault{"the part " + quotePart(name) + " does not belong into a rule",
			"write it as a line of its own, as in DTSTART;TZID=Europe/Berlin:20270101T090000 RRULE:FREQ=DAILY"}
	default:
		return &fault{"the part " + quotePart(name) + " is not known",
			"the parts are FREQ, INTERVAL, COUNT, UNTIL, WKST, BYDAY, BYMONTH, BYMONTHDAY, " +
				"BYYEARDAY, BYWEEKNO, BYHOUR, BYMINUTE, BYSECOND and BYSETPOS"}
	}
	return nil
}

// readList reads a list of numbers.
func (p *ruleParts) readList(i int, value string) *fault {
	l := listParts[i]
	bounds := fmt.Sprintf("%d to %d", l.min, l.max)
	if l.negative {
		bounds += fmt.Sprintf(", or -%d to -%d counted from the end", l.max, l.min)
	}
	if strings.Count(value, ",") >= maxValues {
		return tooMany(l.name)
	}
	for text := range strings.SplitSeq(value, ",") {
		sign, number := 1, text
		if l.negative && text != "" && (text[0] == '-' || text[0] == '+') {
			if number = text[1:]; text[0] == '-' {
				sign = -1
			}
		}
		n, ok := parseInteger(number)
		switch {
		case ok && i == bySecond && n == 60:
			return &fault{"BYSECOND 60 is a leap second, which no clock here shows", "use 59"}
		case ok && i == byHour && n == 24:
			return &fault{"BYHOUR 24 is out of bounds", "use 0, of the day after"}
		case !ok || n < int64(l.min) || n > int64(l.max):
			return &fault{l.name + " " + quotePart(text) + " is out of bounds", "use " + bounds}
		}
		p.lists[i] = append(p.lists[i], sign*int(n))
	}
	return nil
}

// maxValues bounds the lists of a rule; no part has so many different values.
const maxValues = 1000

func tooMany(part string) *fault {
	return &fault{part + " has more than " + strconv.Itoa(maxValues) + " values", "give each value once"}
}

// readDays reads BYDAY.
func (p *ruleParts) readDays(value string) *fault {
	if strings.Count(value, ",") >= maxValues {
		return tooMany("BYDAY")
	}
	for text := range strings.SplitSeq(value, ",") {
		wrong := &fault{"BYDAY " + quotePart(text) + " is no day",
			"give MO, TU, WE, TH, FR, SA or SU, in months and years perhaps with a number in front, as in 2MO or -1FR"}
		if len(text) < 2 {
			return wrong
		}
		weekday := slices.Index(weekdayCodes[:], text[len(text)-2:])
		number := text[:len(text)-2]
		if weekday < 0 {
			return wrong
		}
		if number == "" {
			p.weekdays |= 1 << weekday
			continue
		}
		sign := 1
		if number[0] == '-' || number[0] == '+' {
			if number[0] == '-' {
				sign = -1
			}
			number = number[1:]
		}
		n, ok := parseInteger(number)
		if !ok || n < 1 || n > 53 {
			return wrong
		}
		p.nth = append(p.nth, nthDay{sign * int(n), weekday})
	}
	return nil
}

// refuseClashes refuses parts that do not go together, by the table of RFC 5545, 3.3.10.
func (p *ruleParts) refuseClashes() *fault {
	given := func(i int) bool { return p.lists[i] != nil }
	with := func(part, why, cure string) *fault {
		return &fault{part + " does not go with FREQ=" + p.freq.String() + why, cure}
	}
	nthOfYear := p.freq == yearly && !given(byMonth)
	switch {
	case p.count > maxPicked && given(bySetPos) && p.freq >= weekly:
		return &fault{fmt.Sprintf("COUNT %d is more than %d, the most together with BYSETPOS", p.count, maxPicked),
			"give a smaller one, or an end with UNTIL"}
	case p.count != 0 && p.hasPart("UNTIL"):
		return &fault{"has both COUNT and UNTIL", "give the one that is meant"}
	case given(byWeekNo) && p.freq != yearly:
		return with("BYWEEKNO", "", "use FREQ=YEARLY")
	case given(byYearDay) && (p.freq == daily || p.freq == weekly || p.freq == monthly):
		return with("BYYEARDAY", "", "use FREQ=YEARLY, or BYMONTH and BYMONTHDAY")
	case given(byMonthDay) && p.freq == weekly:
		return with("BYMONTHDAY", "", "use FREQ=MONTHLY, or FREQ=DAILY")
	case len(p.nth) > 0 && p.freq != monthly && p.freq != yearly:
		return with("a number in BYDAY", ", whose periods have each day once at most or no days at all",
			"use FREQ=MONTHLY, or leave the number out")
	case len(p.nth) > 0 && given(byWeekNo):
		return &fault{"a number in BYDAY does not go with BYWEEKNO, as a week has each day once", "leave the number out"}
	case given(bySetPos) && p.weekdays == 0 && len(p.nth) == 0 &&
		!slices.ContainsFunc([]int{bySecond, byMinute, byHour, byMonthDay, byYearDay, byWeekNo, byMonth}, given):
		return &fault{"BYSETPOS stands alone", "give a part that it can pick from, such as BYDAY=MO,TU,WE,TH,FR"}
	}
	for _, d := range p.nth {
		if !nthOfYear && (d.n > 5 || d.n < -5) {
			return &fault{fmt.Sprintf("BYDAY %d%s is no day: a month has each at most five times", d.n,
				weekdayCodes[d.weekday]), "use 1 to 5, or -5 to -1"}
		}
	}
	return nil
}

// buildRecur returns the rule that begins at a local time of a zone.
func (p *ruleParts) buildRecur(begin stamp, z zone) (*recur, *fault) {
	r := &recur{freq: p.freq, interval: p.interval, begin: begin.wall, last: math.MaxInt64, count: p.count,
		bounded: p.hasPart("UNTIL")}
	if begin.date && (p.freq < daily || p.lists[byHour] != nil || p.lists[byMinute] != nil || p.lists[bySecond] != nil) {
		return nil, &fault{"has times of day, and DTSTART is a date",
			"write DTSTART with a time, as in " + showStamp(begin.wall)}
	}
	if r.bounded {
		switch r.last = p.until.wall; {
		case p.until.date:
			r.last += secondsADay - 1
		case p.until.utc:
			r.last = z.latestWall(p.until.wall)
		}
		if r.last < r.begin {
			return nil, &fault{"never fires: UNTIL lies before the begin, " + showStamp(begin.wall),
				"give a later UNTIL, or an earlier DTSTART"}
		}
	}
	p.setDays(&r.days, begin.wall)
	p.setTimes(r)
	if p.freq < daily {
		aDay := secondsADay / p.freq.unitSeconds()
		if phases := p.interval / gcd(p.interval, aDay); phases > maxPhases {
			return nil, &fault{fmt.Sprintf("INTERVAL %d with FREQ=%s comes back to its time of day only after %d days",
				p.interval, p.freq, phases),
				fmt.Sprintf("give one that does so within %d days, such as a multiple of %d, or use FREQ=DAILY", maxPhases, aDay)}
		}
	}
	l := looks{most: maxRuleLooks}
	defer func() { p.steps = l.n }()
	r.prepareWalk(&l)
	f := p.refuseNever(r, &l)
	if p.count != 0 && f == nil {
		if last, _, ok := r.nthWall(p.count, r.begin, &l); ok {
			r.last = last
		}
	}
	switch {
	case l.isExhausted():
		return nil, tooManyLooks
	case f != nil:
		return nil, f
	}
	return r, nil
}

var tooManyLooks = &fault{fmt.Sprintf(
	"takes more than %d looks at months, days and periods to find its first and last time", maxRuleLooks),
	"use UNTIL instead of COUNT, a smaller COUNT, or parts that meet more often"}

// setDays sets the parts that are about days, with the begin's values for those that are missing.
func (p *ruleParts) setDays(d *dayRule, begin int64) {
	day := floorDiv(begin, secondsADay)
	m := monthAt(day)
	of := int(day-m.first) + 1
	d.weekStart, d.weekdays, d.nth = p.weekStart, p.weekdays, p.nth
	d.nthOfYear = p.freq == yearly && p.lists[byMonth] == nil
	d.months, _ = bitsOf(p.lists[byMonth], 1<<13-2)
	d.monthDays, d.monthEnds = bitsOf(p.lists[byMonthDay], 0)
	d.weeks, d.weekEnds = bitsOf(p.lists[byWeekNo], 0)
	if list := p.lists[byYearDay]; list != nil {
		d.yearDays, d.leapDays = new(yearSet), new(yearSet)
		for _, n := range list {
			d.yearDays.addDay(n, 365)
			d.leapDays.addDay(n, 366)
		}
	}
	if p.lists[byMonthDay] != nil || p.lists[byYearDay] != nil || p.weekdays != 0 || p.nth != nil {
		return
	}
	switch {
	case p.freq == weekly, p.freq == yearly && p.lists[byWeekNo] != nil:
		d.weekdays = 1 << weekdayOf(day)
	case p.freq == monthly:
		d.monthDays = 1 << of
	case p.freq == yearly:
		d.monthDays = 1 << of
		if p.lists[byMonth] == nil {
			d.months = 1 << m.number
		}
	}
}

// setTimes sets the parts that are about times of day, with the begin's values for those that are missing.
func (p *ruleParts) setTimes(r *recur) {
	clock := floorMod(r.begin, secondsADay)
	own := [...]int64{clock % 60, clock / 60 % 60, clock / 3600}
	all := [...]uint64{1<<60 - 1, 1<<60 - 1, 1<<24 - 1}
	var times, limits [3]uint64
	for i := range times { // second, minute, hour: SECONDLY limits all of them, MINUTELY minutes and hours, …
		if i >= int(p.freq) {
			times[i] = 1
			limits[i], _ = bitsOf(p.lists[i], all[i])
		} else {
			times[i], _ = bitsOf(p.lists[i], 1<<own[i])
			limits[i] = 1
		}
	}
	r.times.seconds, r.times.minutes, r.times.hours = times[0], times[1], times[2]
	r.limits.seconds, r.limits.minutes, r.limits.hours = limits[0], limits[1], limits[2]
	switch positions := p.lists[bySetPos]; {
	case positions == nil:
	case p.freq <= daily:
		r.times.pickPositions(positions)
	default:
		r.positions = positions
	}
}

// bitsOf returns a list as bits, negative numbers apart; without a list, otherwise.
func bitsOf(list []int, otherwise uint64) (set, ends uint64) {
	if list == nil {
		return otherwise, 0
	}
	for _, n := range list {
		if n >= 0 {
			set |= 1 << n
		} else {
			ends |= 1 << -n
		}
	}
	return set, ends
}

// refuseNever refuses a rule that has no time at all.
func (p *ruleParts) refuseNever(r *recur, l *looks) *fault {
	if r.times.timeCount() == 0 || p.freq < daily && !slices.Contains(r.phases, true) {
		if r.times.timeCount() == 0 {
			return &fault{"never fires: BYSETPOS picks none of the times that a period of FREQ=" + p.freq.String() + " has",
				"use a smaller number"}
		}
		return &fault{fmt.Sprintf(
			"never fires: every %d periods of FREQ=%s from %s on never come to the times of BYHOUR, BYMINUTE and BYSECOND",
			p.interval, p.freq, showStamp(r.begin)), "change INTERVAL, or begin at such a time"}
	}
	if _, ok := r.nextWall(r.begin, l); ok {
		return nil
	}
	if r.bounded {
		unbounded := *r
		unbounded.last = math.MaxInt64
		if first, ok := unbounded.nextWall(r.begin, l); ok {
			return &fault{"never fires: the first time would be " + showStamp(first) + ", after UNTIL", "give a later UNTIL"}
		}
	}
	cure := "February has 29 days at most; April, June, September and November have 30; a fifth of a day of the week is in some months only"
	switch {
	case p.lists[bySetPos] != nil:
		cure = "BYSETPOS may pick a place that no period has, or the other parts leave no day"
	case p.interval > 1:
		cure = "INTERVAL may pass over all of them: begin in such a period, or change INTERVAL"
	}
	return &fault{"never fires: no date of the calendar has all that " + p.dayParts() + " ask for", cure}
}

// dayParts names the parts that a day needs to have, in their order.
func (p *ruleParts) dayParts() string {
	var names []string
	for _, name := range p.given {
		if name == "FREQ" || name == "INTERVAL" || strings.HasPrefix(name, "BY") && name != "BYHOUR" && name != "BYMINUTE" &&
			name != "BYSECOND" {
			names = append(names, name)
		}
	}
	return joinList(names)
}
