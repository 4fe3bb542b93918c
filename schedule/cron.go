package schedule

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rousehq/rouse"
)

// cron holds the matching values of each field as bits, so that the next one is found in one step.
type cron struct {
	seconds, minutes, hours uint64
	days, months, weekdays  uint64

	odd   *oddDays // days named by L, W and # in addition to days and weekdays; nil mostly
	years *bitset  // from firstYear on; nil is every year

	both bool // a day must match both day fields, not one of them
	wild bool // follows real time, not the wall
	zone zone // its rule is realTime if wild

	resolved string // the expression with each H replaced by its value; empty without H
}

// dialect is a way to write cron.
type dialect struct {
	prefix  string
	first   int    // the place of the first field: 0 is second, 1 is minute
	fields  string // description of its fields, for errors
	example string

	year    bool // a year may follow the day of the week
	odd     bool // has L, W and #
	weekday *field
	wraps   bool // ranges may run past the end of their field
	and     bool // a day must match both day fields, whatever they are
	unless  bool // one of the two day fields must be '?', and only one
	blank   bool // '?' means '*' in a day field
	monday  bool // '*' as day of the week counts from Monday, which matters with a step
	lastDay bool // L alone as day of the week is Saturday
}

// The dialects.
var (
	cron5 = &dialect{
		first: 1, fields: "cron has 5: minute, hour, day of month, month, day of week", example: "30 2 * * MON-FRI",
		weekday: &weekday0,
	}
	cron6 = &dialect{
		prefix: "cron6:", fields: "cron6 has 6: second, minute, hour, day of month, month, day of week",
		example: "cron6:*/10 30 2 * * MON-FRI", weekday: &weekday0,
	}
	quartz = &dialect{
		prefix:  "quartz:",
		fields:  "quartz has 6 or 7: second, minute, hour, day of month, month, day of week, and perhaps year",
		example: "quartz:0 30 2 ? * MON-FRI", weekday: &weekday1, year: true, odd: true, wraps: true, unless: true,
		lastDay: true,
	}
	aws = &dialect{
		prefix: "aws:", first: 1, fields: "aws has 6: minute, hour, day of month, month, day of week, year",
		example: "aws:cron(30 2 ? * MON-FRI *)", weekday: &weekday1, year: true, odd: true, wraps: true, unless: true,
		lastDay: true,
	}
	spring = &dialect{
		prefix: "spring:", fields: "spring has 6: second, minute, hour, day of month, month, day of week",
		example: "spring:0 30 2 * * MON-FRI", weekday: &weekday0, odd: true, and: true, blank: true, monday: true,
	}
)

// dialects are the dialects that have a prefix.
var dialects = [...]*dialect{cron6, quartz, aws, spring}

// acceptsFields reports whether an expression of the dialect may have n fields.
func (d *dialect) acceptsFields(n int) bool {
	most := 6 - d.first
	if d.year {
		most++
	}
	return n == most || n == 6 && d == quartz
}

// parseCron reads a schedule that has no other form.
func parseCron(expr string, o Options) (rouse.Schedule, error) {
	if err := checkCharacters(expr); err != nil {
		return nil, err
	}
	for _, d := range dialects {
		if text, ok := strings.CutPrefix(expr, d.prefix); ok {
			return parseDialect(expr, text, d, o)
		}
	}
	texts := strings.Fields(expr)
	if len(texts) == 0 {
		return nil, refuseExpr(expr, "is empty", offered)
	}
	if len(texts) == 5 && !strings.ContainsAny(texts[0], "=:") {
		return newCron(expr, texts, cron5, o)
	}
	return nil, refuseCron(expr, texts)
}

// parseDialect reads an expression without its dialect's prefix.
func parseDialect(expr, text string, d *dialect, o Options) (rouse.Schedule, error) {
	if name, _, ok := strings.Cut(text, "("); ok && d == aws && startsWithLetter(name) && name != "H" &&
		!strings.ContainsAny(name, " \t") {
		return parseAWS(expr, text, o)
	}
	if fields, ok := macros[text]; ok && d == spring {
		return newCron(expr, strings.Fields(fields), cron5, o)
	}
	return parseFields(expr, text, d, o)
}

// parseFields reads fields with spaces between.
func parseFields(expr, text string, d *dialect, o Options) (rouse.Schedule, error) {
	texts := strings.Fields(text)
	if d.acceptsFields(len(texts)) {
		return newCron(expr, texts, d, o)
	}
	cure := "write one such as " + quotePart(d.example)
	switch with := " " + strings.Join(texts, " "); {
	case len(texts) == 5 && d == cron6:
		cure = "write " + quotePart("cron6:0"+with) + ", or the five without cron6:"
	case len(texts) == 5 && d == spring:
		cure = "write " + quotePart("spring:0"+with)
	case len(texts) == 5 && d == aws:
		if cure = with[1:] + " *"; strings.HasPrefix(expr, "aws:cron(") {
			cure = "cron(" + cure + ")"
		}
		cure = "write " + quotePart("aws:"+cure) + " for every year"
	}
	return nil, refuseExpr(expr, "has "+fieldCount(texts)+", "+d.fields, cure)
}

// refuseCron guesses the intended form of a text that is no cron expression.
func refuseCron(expr string, texts []string) error {
	if text := strings.TrimSpace(expr); text != expr && hasKnownPrefix(text) {
		return refuseExpr(expr, "begins with a space", "write "+quotePart(text))
	}
	for _, prefix := range [...]string{"TZ=", "CRON_TZ="} {
		if name, ok := strings.CutPrefix(texts[0], prefix); ok {
			return refuseWithZone(expr, "begins with "+prefix, name, texts[1:])
		}
	}
	if word, rest, ok := strings.Cut(expr, ":"); ok && startsWithLetter(word) && !strings.ContainsAny(word, "( ") {
		return refuseWord(expr, word, rest)
	}
	for _, function := range [...]string{"cron(", "rate(", "at("} {
		if strings.HasPrefix(expr, function) {
			return refuseExpr(expr, "is of the aws dialect", "write "+quotePart("aws:"+expr))
		}
	}
	if startsWithLetter(texts[0]) && texts[0][0] != 'H' {
		return refuseExpr(expr, "is no schedule", offered)
	}
	unset := func(i int) bool { return i < len(texts) && texts[i] == "?" }
	cure, whole := offered, strings.Join(texts, " ")
	last := texts[len(texts)-1]
	if _, err := loadZone(last); err == nil && len(texts) > 5 {
		return refuseWithZone(expr, "ends with a time zone", last, texts[:len(texts)-1])
	}
	switch {
	case len(texts) > 5 && len(texts) < 8 && (unset(3) || unset(5)):
		cure = "if the first is the second, write " + quotePart("quartz:"+whole)
	case len(texts) == 6 && (unset(2) || unset(4)):
		cure = "if the last is the year, write " + quotePart("aws:"+whole)
	case len(texts) == 6:
		cure = "if the first is the second, write " + quotePart("cron6:"+whole)
	}
	return refuseExpr(expr, "has "+fieldCount(texts)+", "+cron5.fields, cure)
}

// refuseWithZone returns the error for a schedule that has its time zone before or after it, or for the fault
// of one of them.
func refuseWithZone(expr, wrong, zone string, texts []string) error {
	text := strings.Join(texts, " ")
	if zone == "" {
		return refuseExpr(expr, wrong+" and no time zone", offered)
	}
	_, err := parseForm(text, Options{Timezone: zone, Seed: "default/a"})
	// L, W and # are those of other dialects, of which aws has five fields and the year. It counts days of
	// the week from another one.
	if err != nil && len(texts) == 5 && !numberedDays.MatchString(texts[4]) {
		days := slices.Clone(texts)
		if days[2] == "*" {
			days[2] = "?"
		} else if days[4] == "*" {
			days[4] = "?"
		}
		other := aws.prefix + strings.Join(days, " ") + " *"
		if _, otherErr := parseForm(other, Options{Timezone: zone, Seed: "default/a"}); otherErr == nil {
			text, err = other, nil
		}
	}
	if err != nil {
		return err
	}
	return refuseExpr(expr, wrong, fmt.Sprintf("give %s as the timezone and %s as the schedule", quotePart(zone),
		quotePart(text)))
}

var numberedDays = regexp.MustCompile(`(?:^|[,-])[0-9]`)

// hasKnownPrefix reports whether a text begins as a form does that is not five fields.
func hasKnownPrefix(text string) bool {
	for _, d := range dialects {
		if strings.HasPrefix(text, d.prefix) {
			return true
		}
	}
	return instantLike(text) || text[0] == '@' || text[0] == 'P' || text[0] == 'R' || strings.HasPrefix(text, "rrule:")
}

// refuseWord returns the error for a text that begins with a word and a colon, which is no dialect's prefix.
func refuseWord(expr, word, rest string) error {
	lower := strings.ToLower(word) + ":"
	if lower == "cron:" {
		return refuseExpr(expr, "the word "+quotePart(word+":")+" is not offered",
			"write "+quotePart(strings.TrimSpace(rest)))
	}
	for _, d := range dialects {
		if d.prefix == lower {
			return refuseExpr(expr, quotePart(word+":")+" is not in lower case", "write "+quotePart(lower+rest))
		}
	}
	return refuseExpr(expr, "the word "+quotePart(word+":")+" is not offered", offered)
}

// startsWithLetter reports whether a text begins with a letter.
func startsWithLetter(s string) bool {
	return s != "" && 'a' <= s[0]|0x20 && s[0]|0x20 <= 'z'
}

func fieldCount(texts []string) string {
	if len(texts) == 1 {
		return "1 field"
	}
	return fmt.Sprint(len(texts), " fields")
}

// checkCharacters refuses characters that merely look like a digit, a hyphen or a space.
func checkCharacters(expr string) error {
	for i, r := range expr {
		if r < ' ' && r != '\t' || r >= 0x7f {
			if r == utf8.RuneError {
				return refuseExpr(expr, fmt.Sprintf("has no UTF-8 at byte %d", i), "write it with ASCII letters, digits and spaces")
			}
			return refuseExpr(expr, fmt.Sprintf("has the character %U at byte %d", r, i),
				"write it with ASCII letters, digits and spaces")
		}
	}
	return nil
}

// newCron reads the fields of an expression, as many as its dialect takes.
func newCron(expr string, texts []string, d *dialect, o Options) (rouse.Schedule, error) {
	c := &cron{seconds: 1} // without seconds: second 0
	var resolved []string
	for i, text := range texts {
		f := fields[d.first+i]
		if f == &weekday0 {
			f = d.weekday
		}
		v, err := f.parseField(text, d, o.Seed)
		if err != nil {
			return nil, refuseExpr(expr, err.wrong, err.cure)
		}
		c.setField(d.first+i, text, &v)
		if v.resolved != text {
			if resolved == nil {
				resolved = slices.Clone(texts)
			}
			resolved[i] = v.resolved
		}
	}
	if resolved != nil {
		c.resolved = d.prefix + strings.Join(resolved, " ")
	}
	texts = texts[1-d.first:] // from the minute on
	day, weekday := texts[2], texts[4]
	if d.unless && (day == "?") == (weekday == "?") {
		return nil, refuseExpr(expr,
			"the day of month "+quotePart(day)+" and the day of week "+quotePart(weekday)+" do not go together",
			"give '?' for the one that does not matter, and only for that")
	}
	c.both = d.unless || d.and || day[0] == '*' || weekday[0] == '*'
	c.wild = texts[0][0] == '*' || texts[1][0] == '*'
	var err error
	if c.zone, err = o.zoneWithRule(); err != nil {
		return nil, err
	}
	if c.wild {
		c.zone.rule = realTime
	}
	if err := c.mayFire(expr); err != nil {
		return nil, err
	}
	return c, nil
}

// setField takes over the values of a field.
func (c *cron) setField(place int, text string, v *values) {
	switch place {
	case 0:
		c.seconds = v.bits[0]
	case 1:
		c.minutes = v.bits[0]
	case 2:
		c.hours = v.bits[0]
	case 3:
		c.days = v.bits[0]
	case 4:
		c.months = v.bits[0]
	case 5:
		c.weekdays = v.bits[0]
	case 6:
		if text != "*" {
			years := v.bits // not the rest of v
			c.years = &years
		}
	}
	if v.odd != (oddDays{}) {
		if c.odd == nil {
			c.odd = &oddDays{}
		}
		c.odd.addOddDays(v.odd)
	}
}

// mayFire refuses an expression that never fires.
func (c *cron) mayFire(expr string) error {
	if _, ok, _ := c.nextWithSteps(0); ok {
		return nil
	}
	steps := 0
	if _, ok := c.matchWall(0, &steps); ok {
		return refuseExpr(expr, "never fires: the clocks of "+c.zone.loc.String()+" skip each of its local times",
			"give another time of day, or the dst next or shift")
	}
	if c.odd != nil || c.years != nil {
		return refuseExpr(expr, "never fires: no year and month of those given have such a day",
			"look at the calendar of one of them")
	}
	return refuseExpr(expr, "never fires: no month of those given has such a day",
		"February has 29 days at most; April, June, September and November have 30. For a timer that is only run by hand, give any day, and pause it")
}
