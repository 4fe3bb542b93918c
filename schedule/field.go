package schedule

import (
	"fmt"
	"strconv"
	"strings"
)

// field is one place of a cron expression.
type field struct {
	name     string
	min, max int
	names    []string // of the values from min on
}

// fields are the places of an expression with seconds. A day of the week has two numbers for Sunday; 7 becomes 0.
var fields = [...]field{
	{"second", 0, 59, nil},
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day of month", 1, 31, nil},
	{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{"day of week", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// fault is what is wrong with a field, and what would be right.
type fault struct{ wrong, cure string }

func (f *field) weekday() bool { return f.max == 7 }

// size is how many values there are.
func (f *field) size() int {
	if f.weekday() {
		return 7
	}
	return f.max - f.min + 1
}

// parse reads a list of values, ranges and steps.
func (f *field) parse(text string) (uint64, *fault) {
	var set uint64
	for item := range strings.SplitSeq(text, ",") {
		if item == "" {
			return 0, f.fault(text, "has nothing before or after a comma", "write a value on both sides of each comma")
		}
		bits, err := f.item(item)
		if err != nil {
			return 0, err
		}
		set |= bits
	}
	if f.weekday() && set&(1<<7) != 0 {
		set = set&^(1<<7) | 1
	}
	return set, nil
}

// item reads one element of a list: *, a, a-b, each with or without /step.
func (f *field) item(text string) (uint64, *fault) {
	base, stepText, stepped := strings.Cut(text, "/")
	lo, hi := f.min, f.min+f.size()-1
	from, to, ranged := strings.Cut(base, "-")
	var err *fault
	switch {
	case base == "*":
	case ranged:
		if lo, err = f.value(text, from); err != nil {
			return 0, err
		}
		if hi, err = f.value(text, to); err != nil {
			return 0, err
		}
		if f.weekday() && hi == 0 && lo > 0 && to != "0" {
			hi = 7 // FRI-SUN
		}
		if lo > hi {
			return 0, f.fault(text, "runs backwards", f.split(from, to, lo, hi))
		}
	default:
		if lo, err = f.value(text, base); err != nil {
			return 0, err
		}
		hi = lo
		if stepped {
			hi = f.max
		}
	}
	step := 1
	if strings.Contains(stepText, "/") {
		return 0, f.fault(text, "has two steps", "write one")
	}
	if stepped {
		n, ok := number(stepText)
		if !ok || n < 1 || n >= f.size() {
			return 0, f.fault(text, "has a step that is not between 1 and "+strconv.Itoa(f.size()-1), f.steps(lo, n))
		}
		step = n
	}
	var set uint64
	for v := lo; v <= hi; v += step {
		set |= 1 << v
	}
	return set, nil
}

// split tells how to write a range that passes the end of the field.
func (f *field) split(from, to string, lo, hi int) string {
	switch {
	case f.weekday() && hi == 0:
		return "write " + from + "-7"
	case f.weekday() && lo == 7:
		return "write 0-" + to
	}
	low, high := f.min, f.min+f.size()-1
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

// steps tells what a step that reaches past the field was probably meant to be.
func (f *field) steps(lo, n int) string {
	if n >= f.size() {
		return fmt.Sprintf("only %d would match: write %d, or a smaller step", lo, lo)
	}
	return "write a step such as */2"
}

// value reads a number or a name that stands in item.
func (f *field) value(item, text string) (int, *fault) {
	for i, name := range f.names {
		if strings.EqualFold(name, text) {
			return f.min + i, nil
		}
	}
	n, ok := number(text)
	switch {
	case text == "?":
		return 0, f.fault(item, "is of another dialect", "write *")
	case strings.ContainsAny(text, "#HLW"):
		return 0, f.fault(item, "is of another dialect", "H, L, W and # are not offered; use "+f.bounds())
	case !ok && digits(text):
		return 0, f.fault(item, "has a number of more than two digits", "use "+f.bounds())
	case !ok:
		return 0, f.fault(item, "is no value", "use "+f.bounds())
	case n < f.min || n > f.max:
		return 0, f.fault(item, "is out of bounds", "use "+f.bounds())
	}
	return n, nil
}

func (f *field) bounds() string {
	s := fmt.Sprintf("%d to %d", f.min, f.max)
	if f.names != nil {
		s += fmt.Sprintf(", or %s to %s", strings.ToUpper(f.names[0]), strings.ToUpper(f.names[len(f.names)-1]))
	}
	return s
}

func (f *field) fault(item, wrong, cure string) *fault {
	return &fault{"the " + f.name + " " + quote(item) + " " + wrong, cure}
}

// number reads one or two ASCII digits.
func number(s string) (int, bool) {
	if len(s) > 2 || !digits(s) {
		return 0, false
	}
	n := int(s[0] - '0')
	if len(s) == 2 {
		n = n*10 + int(s[1]-'0')
	}
	return n, true
}
