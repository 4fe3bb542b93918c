package job

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// cronField is one of the six fields of a cron expression.
type cronField struct {
	name  string
	least uint
	most  uint
	words string // names of values, starting at least
}

var cronFields = [6]cronField{
	{name: "second", most: 59}, {name: "minute", most: 59}, {name: "hour", most: 23},
	{name: "day of month", least: 1, most: 31},
	{name: "month", least: 1, most: 12, words: "jan feb mar apr may jun jul aug sep oct nov dec"},
	{name: "day of week", most: 6, words: "sun mon tue wed thu fri sat"},
}

// cronWords maps words such as @daily to cron expressions.
var cronWords = map[string]string{
	"@yearly": "0 0 0 1 1 *", "@annually": "0 0 0 1 1 *", "@monthly": "0 0 0 1 * *", "@weekly": "0 0 0 * * 0",
	"@daily": "0 0 0 * * *", "@midnight": "0 0 0 * * *", "@hourly": "0 0 * * * *",
}

// translateCron translates six fields into a rouse schedule. The dialects differ in the fields they accept,
// and in when a day must match both of its fields: in Dapr's, if one of the two contains '*' or '?' without a
// step greater than 1; in rouse's, if one begins with '*'.
func translateCron(fields []string) (schedule, wrong string) {
	if len(fields) != len(cronFields) {
		return "", fmt.Sprintf("has %d fields, and cron has 6 here: second, minute, hour, day of month, month, day of week",
			len(fields))
	}
	out := make([]string, len(fields))
	for i, text := range fields {
		f := &cronFields[i]
		values, star, wrong := f.parseCronField(text)
		if wrong != "" {
			return "", fmt.Sprintf("has the %s %q, which %s", f.name, text, wrong)
		}
		if values == 0 {
			return "", fmt.Sprintf("never fires: its %s %q has no value", f.name, text)
		}
		if out[i] = f.formatCronValues(values); star {
			out[i] = "*"
		}
	}
	return "cron6:" + strings.Join(out, " "), ""
}

// parseCronField reads a comma-separated list of ranges with steps.
func (f *cronField) parseCronField(text string) (values uint64, star bool, wrong string) {
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		v, s, wrong := f.parseRange(part)
		if wrong != "" {
			return 0, false, wrong
		}
		values, star = values|v, star || s
	}
	return values, star, ""
}

func (f *cronField) parseRange(text string) (values uint64, star bool, wrong string) {
	span, by, stepped := strings.Cut(text, "/")
	ends := strings.Split(span, "-")
	from, to := f.least, f.most
	if star = ends[0] == "*" || ends[0] == "?"; !star {
		var ok bool
		if from, ok = f.cronFieldValue(ends[0]); !ok || len(ends) > 2 {
			return 0, false, "is no value, list or range"
		}
		switch {
		case len(ends) == 2:
			if to, ok = f.cronFieldValue(ends[1]); !ok {
				return 0, false, "is no value, list or range"
			}
		case !stepped:
			to = from
		}
	}
	step := uint(1)
	if stepped {
		n, err := strconv.Atoi(by)
		if err != nil || n <= 0 {
			return 0, false, "has a step that is no number of 1 or more"
		}
		step, star = uint(n), star && n == 1
	}
	if from < f.least || to > f.most || from > to {
		return 0, false, fmt.Sprintf("is not within %d to %d, from the lower to the higher", f.least, f.most)
	}
	for v := from; v <= to; v += min(step, 64) {
		values |= 1 << v
	}
	return values, star, ""
}

// cronFieldValue reads a number or a name.
func (f *cronField) cronFieldValue(text string) (uint, bool) {
	for i, word := range strings.Fields(f.words) {
		if strings.EqualFold(text, word) {
			return f.least + uint(i), true
		}
	}
	n, err := strconv.Atoi(text)
	return uint(n), err == nil && n >= 0
}

// formatCronValues writes values with commas and hyphens, never as '*'.
func (f *cronField) formatCronValues(values uint64) string {
	var parts []string
	for values != 0 {
		from := bits.TrailingZeros64(values)
		n := bits.TrailingZeros64(^(values >> from))
		if part := strconv.Itoa(from); n == 1 {
			parts = append(parts, part)
		} else {
			parts = append(parts, part+"-"+strconv.Itoa(from+n-1))
		}
		values &^= (1<<n - 1) << from
	}
	return strings.Join(parts, ",")
}
