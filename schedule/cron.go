package schedule

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rousehq/rouse"
)

// cron holds the matching values of each field as bits, so that the next one is found in one step.
type cron struct {
	seconds, minutes, hours uint64
	days, months, weekdays  uint64

	both bool // a day must match days and weekdays, not one of them
	wild bool // follows real time, not the wall
	zone zone
}

// The two shapes of a cron expression, as indexes of the first field.
const (
	cron6 = iota
	cron5
)

// parseCron reads what is no other form.
func parseCron(expr string, o Options) (rouse.Schedule, error) {
	if err := checkCharacters(expr); err != nil {
		return nil, err
	}
	if text, ok := strings.CutPrefix(expr, "cron6:"); ok {
		return parseCron6(expr, strings.Fields(text), o)
	}
	fields := strings.Fields(expr)
	if len(fields) == 0 {
		return nil, refuse(expr, "is empty", offered)
	}
	if len(fields) == 5 && !strings.Contains(fields[0], "=") && !strings.Contains(fields[0], ":") {
		return newCron(expr, fields, cron5, o)
	}
	return nil, refuseCron(expr, fields)
}

func parseCron6(expr string, fields []string, o Options) (rouse.Schedule, error) {
	const names = ", cron6 has 6: second, minute, hour, day of month, month, day of week"
	switch len(fields) {
	case 6:
		return newCron(expr, fields, cron6, o)
	case 5:
		return nil, refuse(expr, "has 5 fields"+names, "write "+quote("cron6:0 "+strings.Join(fields, " "))+", or the five without cron6:")
	}
	return nil, refuse(expr, "has "+count(fields)+names, `write one such as "cron6:*/10 30 2 * * MON-FRI"`)
}

// refuseCron guesses what a text was meant to be that has not the shape of a cron expression.
func refuseCron(expr string, fields []string) error {
	if text := strings.TrimSpace(expr); text != expr && (instantLike(text) || strings.ContainsRune("@PRc", rune(text[0]))) {
		return refuse(expr, "begins with a space", "write "+quote(text))
	}
	for _, prefix := range [...]string{"TZ=", "CRON_TZ="} {
		if name, ok := strings.CutPrefix(fields[0], prefix); ok {
			return refuse(expr, "begins with "+prefix, fmt.Sprintf("give %s as the timezone and %s as the schedule",
				quote(name), quote(strings.Join(fields[1:], " "))))
		}
	}
	if word, _, ok := strings.Cut(fields[0], ":"); ok && letter(word) && !strings.Contains(word, "(") {
		return refuse(expr, "the word "+quote(word+":")+" is not offered", offered)
	}
	if letter(fields[0]) {
		return refuse(expr, "is no schedule", offered)
	}
	const names = ", cron has 5: minute, hour, day of month, month, day of week"
	if len(fields) == 6 {
		return refuse(expr, "has 6 fields"+names, "if the first is the second, write "+quote("cron6:"+strings.Join(fields, " ")))
	}
	return refuse(expr, "has "+count(fields)+names, offered)
}

// letter says whether a text begins with one.
func letter(s string) bool {
	return s != "" && 'a' <= s[0]|0x20 && s[0]|0x20 <= 'z'
}

func count(fields []string) string {
	if len(fields) == 1 {
		return "1 field"
	}
	return fmt.Sprint(len(fields), " fields")
}

// checkCharacters refuses what merely looks like a digit, a hyphen or a space.
func checkCharacters(expr string) error {
	for i, r := range expr {
		if r < ' ' && r != '\t' || r >= 0x7f {
			if r == utf8.RuneError {
				return refuse(expr, fmt.Sprintf("has no UTF-8 at byte %d", i), "write it with ASCII letters, digits and spaces")
			}
			return refuse(expr, fmt.Sprintf("has the character %U at byte %d", r, i), "write it with ASCII letters, digits and spaces")
		}
	}
	return nil
}

// newCron reads the fields of an expression, first being the shape.
func newCron(expr string, texts []string, first int, o Options) (rouse.Schedule, error) {
	sets := [6]uint64{1} // without seconds: second 0
	for i, text := range texts {
		set, err := fields[first+i].parse(text)
		if err != nil {
			return nil, refuse(expr, err.wrong, err.cure)
		}
		sets[first+i] = set
	}
	texts = texts[1-first:]
	star := func(i int) bool { return texts[i][0] == '*' }
	c := &cron{
		seconds: sets[0], minutes: sets[1], hours: sets[2], days: sets[3], months: sets[4], weekdays: sets[5],
		both: star(2) || star(4),
		wild: star(0) || star(1),
	}
	if c.both && !c.dateExists() {
		return nil, refuse(expr, "never fires: no month of those given has such a day",
			"February has 29 days at most; April, June, September and November have 30")
	}
	z, err := loadZone(o.Timezone)
	c.zone = z
	return c, err
}

// dateExists says whether there is a day of those given in a month of those given. Every such day, February 29 as well, falls
// on each day of the week in some year of the 400 that the calendar takes to repeat.
func (c *cron) dateExists() bool {
	const long, short = 1<<1 | 1<<3 | 1<<5 | 1<<7 | 1<<8 | 1<<10 | 1<<12, 1<<4 | 1<<6 | 1<<9 | 1<<11
	first := nextBit(c.days, 1)
	return first <= 29 || first == 30 && c.months&(long|short) != 0 || first == 31 && c.months&long != 0
}
