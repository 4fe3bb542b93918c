package history

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the database that judges, wherever the checker runs
)

// cron is a parsed cron expression: sets of numbers that a wall time is compared with. It is written to be
// obviously correct, not fast: the times are found by walking every minute (walk.go).
type cron struct {
	second, minute, hour, day, month, weekday set
	bothDays                                  bool // day and weekday must match, not one of them
	wild                                      bool // * in minute or hour
	loc                                       *time.Location
}

type set [60]bool

var cronWords = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

const (
	monthNames = "jan feb mar apr may jun jul aug sep oct nov dec"
	dayNames   = "sun mon tue wed thu fri sat"
)

// parseCron reads five fields; six, or "cron6:" and six, with seconds first; or a word.
func parseCron(text, tz string) (*cron, error) {
	if known, ok := cronWords[text]; ok {
		text = known
	}
	for i := range len(text) {
		if c := text[i]; c >= 0x7f || c < ' ' && c != '\t' {
			return nil, fmt.Errorf("the character at byte %d is not printable ASCII", i)
		}
	}
	text, six := strings.CutPrefix(text, "cron6:")
	f := strings.Fields(text)
	switch {
	case len(f) == 5 && !six:
		f = append([]string{"0"}, f...)
	case len(f) != 6:
		return nil, fmt.Errorf("%d fields", len(f))
	}
	c := &cron{bothDays: f[3][0] == '*' || f[5][0] == '*', wild: f[1][0] == '*' || f[2][0] == '*'}
	for i, field := range []struct {
		set       *set
		low, high int
		names     string
	}{
		{&c.second, 0, 59, ""}, {&c.minute, 0, 59, ""}, {&c.hour, 0, 23, ""},
		{&c.day, 1, 31, ""}, {&c.month, 1, 12, monthNames}, {&c.weekday, 0, 6, dayNames},
	} {
		for part := range strings.SplitSeq(f[i], ",") {
			if err := field.set.addCronPart(part, field.low, field.high, strings.Fields(field.names)); err != nil {
				return nil, fmt.Errorf("field %q: %w", f[i], err)
			}
		}
	}
	switch tz {
	case "":
		tz = "UTC"
	case "Local":
		return nil, fmt.Errorf("the zone Local is another one everywhere")
	}
	var err error
	c.loc, err = time.LoadLocation(tz)
	return c, err
}

// addCronPart puts a part of a list into the set: *, a or a-b, each with or without a step.
func (s *set) addCronPart(part string, low, high int, names []string) error {
	weekday := high == 6
	span, stepText, stepped := strings.Cut(part, "/")
	step := 1
	if stepped {
		var err error
		if step, err = parseDigits(stepText); err != nil {
			return err
		}
		if step < 1 || step > high-low {
			return fmt.Errorf("the step %d", step)
		}
	}
	from, to := low, high
	if span != "*" {
		a, b, isRange := strings.Cut(span, "-")
		var err error
		if from, err = parseCronValue(a, low, high, names); err != nil {
			return err
		}
		switch {
		case isRange:
			if to, err = parseCronValue(b, low, high, names); err != nil {
				return err
			}
			if weekday && strings.EqualFold(b, names[0]) && from > 0 {
				to = 7 // FRI-SUN
			}
		case !stepped:
			to = from
		case weekday:
			to = 7 // the week of 5/2 runs to its second Sunday, as in crontab(5)
		}
	}
	if from > to {
		return fmt.Errorf("%d-%d runs backwards", from, to)
	}
	for v := from; v <= to; v += step {
		if weekday {
			s[v%7] = true
		} else {
			s[v] = true
		}
	}
	return nil
}

// parseCronValue reads a value: a name, or a number between low and high; 7 is Sunday as well.
func parseCronValue(text string, low, high int, names []string) (int, error) {
	for i, name := range names {
		if strings.EqualFold(text, name) {
			return low + i, nil
		}
	}
	n, err := parseDigits(text)
	if err != nil {
		return 0, err
	}
	if high == 6 {
		high = 7
	}
	if n < low || n > high {
		return 0, fmt.Errorf("%d is not between %d and %d", n, low, high)
	}
	return n, nil
}

// parseDigits reads digits and nothing else.
func parseDigits(text string) (int, error) {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, fmt.Errorf("%q is no number", text)
		}
	}
	return strconv.Atoi(text)
}
