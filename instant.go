package rouse

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Instant is a point in time in milliseconds since 1970-01-01T00:00:00Z, the precision of every store. The
// zero Instant means "not set".
type Instant int64

// Never is later than every time: a row that is visible at Never needs no attention.
const Never Instant = math.MaxInt64

// MinInstant and MaxInstant bound the times that users may give: from 2000 to the end of 9998, so that every
// sum with a duration of a thousand years still fits the formats that print it.
var (
	MinInstant = At(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	MaxInstant = At(time.Date(9998, 12, 31, 23, 59, 59, 0, time.UTC))
)

// At returns t rounded up to a millisecond: a due time that lies between two milliseconds is never reached
// early.
func At(t time.Time) Instant {
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return Instant(ms)
}

// Reached returns t rounded down to a millisecond: the latest Instant that t has reached. Clocks are read
// with it, due times with At.
func Reached(t time.Time) Instant { return Instant(t.UnixMilli()) }

// Time returns the instant in UTC.
func (i Instant) Time() time.Time { return time.UnixMilli(int64(i)).UTC() }

// Add returns the instant d later, rounded up to a millisecond. Never stays Never, and so does a sum that
// would overflow.
func (i Instant) Add(d time.Duration) Instant {
	if i == Never {
		return Never
	}
	ms := int64(d / time.Millisecond)
	if d > 0 && d%time.Millisecond != 0 {
		ms++
	}
	if ms > 0 && int64(i) > math.MaxInt64-ms {
		return Never
	}
	return i + Instant(ms)
}

// Sub returns how much later i is than j. It saturates at the longest duration.
func (i Instant) Sub(j Instant) time.Duration {
	d := int64(i) - int64(j)
	if d > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(d) * time.Millisecond
}

// instantLayout prints RFC 3339 in UTC with milliseconds.
const instantLayout = "2006-01-02T15:04:05.000Z"

// String returns the instant as RFC 3339 in UTC with milliseconds; "never" for Never, "" for zero.
func (i Instant) String() string {
	switch i {
	case Never:
		return "never"
	case 0:
		return ""
	}
	return i.Time().Format(instantLayout)
}

// ParseInstant reads an RFC 3339 time with any offset, whose fraction of a second may follow a comma as in
// ISO 8601, and rounds it up to a millisecond. It is the only format of times in all fields and APIs. Its
// error is an *Invalid without a field: see Under.
func ParseInstant(s string) (Instant, error) {
	const cure = "give RFC 3339, such as 2027-01-31T09:00:00Z or 2027-01-31T09:00:00.250+01:00"
	if wrong := instantFault(s); wrong != "" {
		return 0, Refuse("", s, wrong, cure)
	}
	t, err := time.Parse(time.RFC3339Nano, strings.Replace(s, ",", ".", 1))
	if err != nil {
		return 0, Refuse("", s, "names a date or a time of day that does not exist", cure)
	}
	i := At(t)
	if i < MinInstant || i > MaxInstant {
		return 0, Refuse("", s, outside, outsideCure)
	}
	return i, nil
}

const outside, outsideCure = "lies outside the years 2000 to 9998", "give a time between them"

// CheckInstant refuses a time that is set and that no schedule can have.
func CheckInstant(field string, i Instant) error {
	if i == 0 || MinInstant <= i && i <= MaxInstant {
		return nil
	}
	value := strconv.FormatInt(int64(i), 10)
	if -1e14 < i && i < 1e15 { // a year that the format shows
		value = i.String()
	}
	return Refuse(field, value, outside, outsideCure)
}

// CheckRange refuses a range of time that is not given, or is empty.
func CheckRange(from, until Instant) error {
	for _, bound := range [...]struct {
		field string
		at    Instant
	}{{"from", from}, {"until", until}} {
		if bound.at == 0 {
			return Refuse(bound.field, "", "is missing", "give the range of time that is meant")
		}
		if err := CheckInstant(bound.field, bound.at); err != nil {
			return err
		}
	}
	if until <= from {
		return Refuse("until", until.String(), "is not after from, "+from.String(), "give a later time")
	}
	return nil
}

// instantFault returns why a text does not have the format YYYY-MM-DDThh:mm:ss[.fraction](Z|±hh:mm), or "".
// Package time accepts hours of one digit and truncates long fractions. instantFault does not check the
// ranges of the numbers.
func instantFault(s string) string {
	const shape = "0000-00-00T00:00:00"
	for i := range len(shape) {
		if i == len(s) {
			switch i {
			case 0:
				return "is missing"
			case len("0000-00-00"):
				return "is a date without a time of day"
			}
			return "is no RFC 3339 time: it ends too early"
		}
		switch c := s[i]; {
		case shape[i] == '0' && (c < '0' || c > '9'), shape[i] != '0' && c != shape[i]:
			return "is no RFC 3339 time from " + quoteText(s[i:]) + " on"
		}
	}
	rest := s[len(shape):]
	if rest != "" && (rest[0] == '.' || rest[0] == ',') {
		n := 1
		for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		if n == 1 || n > 10 {
			return "is no RFC 3339 time: a fraction of a second has one to nine digits"
		}
		rest = rest[n:]
	}
	switch {
	case rest == "":
		return "has no offset from UTC"
	case rest == "Z":
		return ""
	case len(rest) == 6 && (rest[0] == '+' || rest[0] == '-') && strings.Trim(rest[1:3]+rest[4:], "0123456789") == "" &&
		rest[3] == ':' &&
		rest[1:3] < "24" && rest[4:] < "60":
		return ""
	}
	return "is no RFC 3339 time from " + quoteText(rest) + " on"
}

// quoteText shows a part of a text in an error.
func quoteText(s string) string { return strconv.Quote(Shorten(s, 64)) }

// ParseDuration reads a span of time as package time does, such as "90s", "1h30m" or "0": the only format of
// durations in all fields and APIs. It does not check the bounds of a field. Its error is an *Invalid without
// a field: see Under.
func ParseDuration(s string) (time.Duration, error) {
	const cure = "write a number and a unit of ms, s, m or h, such as 1h30m"
	d, err := time.ParseDuration(s)
	switch days, number := strings.CutSuffix(s, "d"); {
	case s == "":
		return 0, Refuse("", s, "is no duration", cure)
	case err != nil && number && days != "" && strings.Trim(days, "0123456789") == "":
		return 0, Refuse("", s, "is no duration", "write a day as 24h")
	case err != nil && strings.Trim(s, "0123456789.") == "":
		return 0, Refuse("", s, "is no duration", "add a unit, such as "+Shorten(s, 16)+"s")
	case err != nil, s[0] == '+':
		return 0, Refuse("", s, "is no duration", cure)
	}
	return d, nil
}
