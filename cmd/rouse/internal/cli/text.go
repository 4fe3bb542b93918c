package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/rousehq/rouse"
)

// style colours text for a terminal, if that is on.
type style struct{ on func() bool }

func (s style) paintText(code, text string) string {
	if s.on == nil || !s.on() || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) Red(text string) string    { return s.paintText("31", text) }
func (s style) Green(text string) string  { return s.paintText("32", text) }
func (s style) Yellow(text string) string { return s.paintText("33", text) }
func (s style) Faint(text string) string  { return s.paintText("2", text) }
func (s style) Bold(text string) string   { return s.paintText("1", text) }

// PaintWord colours the name of a state or outcome by its meaning.
func (s style) PaintWord(word string) string {
	switch word {
	case "fired", "done", "verified", "ok":
		return s.Green(word)
	case "dead", "refused", "critical":
		return s.Red(word)
	case "retrying", "paused", "missed", "skipped", "warning", "unknown":
		return s.Yellow(word)
	}
	return word
}

// CleanText makes a text from elsewhere safe for a terminal: control characters, which could move its cursor
// or worse, and invisible ones become escapes.
func CleanText(s string) string {
	if strings.IndexFunc(s, IsUnsafe) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if IsUnsafe(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func IsUnsafe(r rune) bool {
	return r >= 0x7f && (r == unicode.ReplacementChar ||
		unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point,
			unicode.Noncharacter_Code_Point, unicode.Zl, unicode.Zp)) || unicode.IsControl(r)
}

// cleanArguments cleans the texts among the arguments of a format.
func cleanArguments(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			out[i] = CleanText(v)
		case error:
			out[i] = CleanText(v.Error())
		default:
			out[i] = arg
		}
	}
	return out
}

// RoughDuration returns a duration in one unit, rounded down.
func RoughDuration(d time.Duration) string {
	if d < 0 {
		d = -d
	}
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < time.Minute:
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	case d < time.Hour:
		return formatTwoUnits(d, time.Minute, "m", time.Second, "s", 10)
	case d < 48*time.Hour:
		return formatTwoUnits(d, time.Hour, "h", time.Minute, "m", 10)
	case d < 2*365*24*time.Hour:
		return strconv.FormatInt(int64(d/(24*time.Hour)), 10) + "d"
	}
	return strconv.FormatInt(int64(d/(365*24*time.Hour)), 10) + "y"
}

// formatTwoUnits formats a big unit, followed by the small one if there are few of the big.
func formatTwoUnits(d, big time.Duration, bigName string, small time.Duration, smallName string, few int64) string {
	n, rest := int64(d/big), int64(d%big/small)
	s := strconv.FormatInt(n, 10) + bigName
	if n < few && rest > 0 {
		s += strconv.FormatInt(rest, 10) + smallName
	}
	return s
}

// CountThings counts things: "1 day", "2 days".
func CountThings[N int | int64 | uint64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprint(n, " ", thing)
}

// RelativeTime describes a time relative to now: "in 5m", "3h ago".
func RelativeTime(t rouse.Instant, now time.Time) string {
	if t == 0 || t == rouse.Never {
		return ""
	}
	d := t.Time().Sub(now)
	if d >= 0 {
		return "in " + RoughDuration(d)
	}
	return RoughDuration(d) + " ago"
}

// FormatWithRelative formats a time both ways: "2027-01-31T09:00:00Z (in 5m)".
func FormatWithRelative(t rouse.Instant, now time.Time) string {
	if t == 0 || t == rouse.Never {
		return "never"
	}
	return fmt.Sprintf("%s (%s)", FormatRFC3339(t), RelativeTime(t, now))
}

// FormatRFC3339 prints a time as RFC 3339 in UTC, with a fraction only if it has one.
func FormatRFC3339(t rouse.Instant) string {
	if t == 0 || t == rouse.Never {
		return "-"
	}
	return t.Time().Format(time.RFC3339Nano)
}

func LabelText(labels map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, k+"="+labels[k])
	}
	return strings.Join(parts, " ")
}

// OrDash replaces an empty text by a dash.
func OrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
