package schedule

import (
	"fmt"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// field is one place of a cron expression.
type field struct {
	place    int
	name     string
	min, max int
	names    []string // of the values from min on
}

var (
	monthNames   = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	weekdayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

	monthday = field{3, "day of month", 1, 31, nil}
	weekday0 = field{5, "day of week", 0, 7, weekdayNames} // Sunday is 0, and 7 too
	weekday1 = field{5, "day of week", 1, 7, weekdayNames} // Sunday is 1
	years    = field{6, "year", firstYear, lastYear, nil}
)

// fields are the places of an expression with seconds and years.
var fields = [...]*field{
	{0, "second", 0, 59, nil},
	{1, "minute", 0, 59, nil},
	{2, "hour", 0, 23, nil},
	&monthday,
	{4, "month", 1, 12, monthNames},
	&weekday0,
	&years,
}

// The range of a year field is that of EventBridge, which is larger than that of Quartz.
const firstYear, lastYear = 1970, 2199

// bitset is a set of small numbers.
type bitset [4]uint64

func (b *bitset) addBit(v int) { b[v/64] |= 1 << (v % 64) }

// nextMember returns the lowest number of the set that is not below from, or -1.
func (b *bitset) nextMember(from int) int {
	for i := from / 64; i < len(b); i++ {
		if word := b[i] >> (from % 64) << (from % 64); word != 0 {
			return i*64 + bits.TrailingZeros64(word)
		}
		from = 0
	}
	return -1
}

// values are the values that a field matches.
type values struct {
	bits     bitset // days of the week from Sunday = 0 on, years from firstYear on, all else as they are
	odd      oddDays
	resolved string // the field's text with H replaced by its value
}

// fault is an error in a field, with its correction.
type fault struct{ wrong, cure string }

// isDayField reports whether the field is one of the two for days.
func (f *field) isDayField() bool { return f == &monthday || f.isWeekdayField() }

func (f *field) isWeekdayField() bool { return f == &weekday0 || f == &weekday1 }

// valueCount is how many values there are.
func (f *field) valueCount() int {
	if f.isWeekdayField() {
		return 7
	}
	return f.max - f.min + 1
}

// bitBase is the value of bit 0.
func (f *field) bitBase() int {
	switch f {
	case &weekday1:
		return 1
	case &years:
		return firstYear
	}
	return 0
}

// parseField reads a list of values, ranges and steps in a dialect; H spreads by the seed.
func (f *field) parseField(text string, d *dialect, seed string) (v values, err *fault) {
	v.resolved = text
	if text == "?" {
		if err := f.unsetFault(d); err != nil {
			return v, err
		}
		f.addRange(&v.bits, f.min, f.min+f.valueCount()-1, 1)
		return v, nil
	}
	hashed := strings.Contains(text, "H") // or a name such as THU
	var resolved []string
	for item := range strings.SplitSeq(text, ",") {
		if item == "" {
			return v, f.newFault(text, "has nothing before or after a comma", "write a value on both sides of each comma")
		}
		if item[0] == 'H' {
			if item, err = f.resolveHash(item, d, seed); err != nil {
				return v, err
			}
		}
		if hashed {
			resolved = append(resolved, item)
		}
		if d.odd && f.isDayField() {
			if odd, err := f.parseOdd(item, d, &v); odd || err != nil {
				if err != nil {
					return v, err
				}
				continue
			}
		}
		lo, hi, step, err := f.parseItem(item, d)
		if err != nil {
			return v, err
		}
		f.addRange(&v.bits, lo, hi, step)
	}
	if hashed {
		v.resolved = strings.Join(resolved, ",")
	}
	return v, nil
}

// unsetFault returns why '?' is wrong in the field.
func (f *field) unsetFault(d *dialect) *fault {
	switch {
	case !d.unless && !d.blank:
		return f.newFault("?", "is of another dialect: quartz:, aws: and spring: have it", "write *")
	case !f.isDayField():
		return f.newFault("?", "leaves out what only days can", "write *")
	}
	return nil
}

// addRange adds the values from lo to hi to a set, past the end of the field and on from its beginning if hi
// is below lo.
func (f *field) addRange(set *bitset, lo, hi, step int) {
	if hi < lo {
		hi += f.valueCount()
	}
	for v := lo; v <= hi; v += step {
		set.addBit((v-f.min)%f.valueCount() + f.min - f.bitBase())
	}
}

// parseItem reads one element of a list: *, a, a-b, each with or without /step.
func (f *field) parseItem(text string, d *dialect) (lo, hi, step int, err *fault) {
	base, stepText, stepped := strings.Cut(text, "/")
	lo, hi = f.min, f.min+f.valueCount()-1
	from, to, ranged := strings.Cut(base, "-")
	switch {
	case base == "*":
		if d.monday && f == &weekday0 {
			lo, hi = 1, 7
		}
	case ranged:
		if lo, err = f.parseValue(text, from, d); err != nil {
			return 0, 0, 0, err
		}
		if hi, err = f.parseValue(text, to, d); err != nil {
			return 0, 0, 0, err
		}
		if f == &weekday0 && hi == 0 && lo > 0 && to != "0" {
			hi = 7 // FRI-SUN
		}
		if lo > hi && (!d.wraps || f == &years) {
			return 0, 0, 0, f.newFault(text, "runs backwards", f.suggestSplit(from, to, lo, hi))
		}
	default:
		if lo, err = f.parseValue(text, base, d); err != nil {
			return 0, 0, 0, err
		}
		hi = lo
		if stepped {
			hi = f.max
		}
	}
	if !stepped {
		return lo, hi, 1, nil
	}
	if strings.Contains(stepText, "/") {
		return 0, 0, 0, f.newFault(text, "has two steps", "leave one of them out")
	}
	step, ok := parseTwoDigits(stepText)
	if !ok || step < 1 || step >= f.valueCount() {
		if n, err := strconv.ParseUint(stepText, 10, 16); !ok && isAllDigits(stepText) &&
			(err != nil || int(n) >= f.valueCount()) {
			step, ok = f.valueCount(), true // it matches the same values
		}
		return 0, 0, 0, f.newFault(text, "has a step that is not between 1 and "+strconv.Itoa(min(f.valueCount()-1, 99)),
			f.suggestStep(lo, step, ok))
	}
	return lo, hi, step, nil
}

// suggestSplit returns how to write a range that passes the end of the field.
func (f *field) suggestSplit(from, to string, lo, hi int) string {
	switch {
	case f == &years:
		return "write the earlier year first"
	case f == &weekday0 && hi == 0:
		return "write " + from + "-7"
	case f == &weekday0 && lo == 7:
		return "write 0-" + to
	}
	low, high := f.min, f.min+f.valueCount()-1
	part := func(a, b string) string {
		if a == b {
			return a
		}
		return a + "-" + b
	}
	show := func(v int) string {
		if f.names != nil && (from[0] > '9' || to[0] > '9') {
			return strings.ToUpper(f.names[v-f.min])
		}
		return strconv.Itoa(v)
	}
	return "write " + part(strings.ToUpper(from), show(high)) + "," + part(show(low), strings.ToUpper(to))
}

// suggestStep returns the likely correction of a step that exceeds the field.
func (f *field) suggestStep(lo, n int, ok bool) string {
	if ok && n >= f.valueCount() {
		return fmt.Sprintf("only %d would match: write %d, or a smaller step", lo, lo)
	}
	return "write a step such as */2"
}

// parseValue parses a number or a name, which is a part of item.
func (f *field) parseValue(item, text string, d *dialect) (int, *fault) {
	for i, name := range f.names {
		if strings.EqualFold(name, text) {
			return f.min + i, nil
		}
	}
	n, ok := parseTwoDigits(text)
	if f == &years {
		n, ok = fourDigits(text)
	}
	switch {
	case strings.HasPrefix(item, "?"), text == "?":
		return 0, f.newFault(item, "has more than '?'", "write ? alone, or *")
	case text != "" && text[0] == 'H':
		return 0, f.newFault(item, "has H where a number should be", "write H, H/15, H(0-29) or H(0-29)/10")
	case oddLike(text) && !d.odd:
		return 0, f.newFault(item, "is of another dialect: quartz:, aws: and spring: have L, W and #", "use "+f.boundsText())
	case oddLike(text):
		return 0, f.newFault(item, "has L, W or # where they cannot be",
			"write L, L-3, LW or 15W as day of month, FRIL or FRI#3 as day of week, without range and step")
	case !ok && isAllDigits(text) && f == &years:
		return 0, f.newFault(item, "has not four digits", "use "+f.boundsText())
	case !ok && isAllDigits(text):
		return 0, f.newFault(item, "has a number of more than two digits", "use "+f.boundsText())
	case !ok:
		if short := f.shortNames(item); short != item {
			return 0, f.newFault(item, "has a name of more than three letters", "write "+short)
		}
		return 0, f.newFault(item, "is no value", "use "+f.boundsText())
	case n < f.min || n > f.max:
		cure := "use " + f.boundsText()
		if f == &weekday1 && n == 0 {
			cure += "; Sunday is 1 in this dialect"
		}
		return 0, f.newFault(item, "is out of bounds", cure)
	}
	return n, nil
}

var word = regexp.MustCompile(`[A-Za-z]{4,}`)

// shortNames returns an item with the names of days or months that it has in full, such as MONDAY and SEPT,
// in three letters.
func (f *field) shortNames(item string) string {
	return word.ReplaceAllStringFunc(item, func(text string) string {
		for i, name := range f.names {
			full := time.Weekday(i).String()
			if len(f.names) == 12 {
				full = time.Month(i + 1).String()
			}
			if strings.HasPrefix(strings.ToLower(full), strings.ToLower(text)) {
				return strings.ToUpper(name)
			}
		}
		return text
	})
}

func (f *field) boundsText() string {
	s := fmt.Sprintf("%d to %d", f.min, f.max)
	if f.names != nil {
		s += fmt.Sprintf(", or %s to %s", strings.ToUpper(f.names[0]), strings.ToUpper(f.names[len(f.names)-1]))
	}
	return s
}

func (f *field) newFault(item, wrong, cure string) *fault {
	return &fault{"the " + f.name + " " + quotePart(item) + " " + wrong, cure}
}

// parseTwoDigits reads one or two ASCII digits.
func parseTwoDigits(s string) (int, bool) {
	if len(s) > 2 || !isAllDigits(s) {
		return 0, false
	}
	n := int(s[0] - '0')
	if len(s) == 2 {
		n = n*10 + int(s[1]-'0')
	}
	return n, true
}

// fourDigits reads a year.
func fourDigits(s string) (int, bool) {
	if len(s) != 4 || !isAllDigits(s) {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}
