package rouse

import (
	"fmt"
	"math"
	"time"
)

// Instant is a point in time in milliseconds since 1970-01-01T00:00:00Z, the precision of every store. The zero Instant
// means "not set".
type Instant int64

// Never is later than every time: a row that is visible at Never needs no attention.
const Never Instant = math.MaxInt64

// MinInstant and MaxInstant bound the times that users may give: from 2000 to the end of 9998, so that every sum with a
// duration of a thousand years still fits the formats that print it.
var (
	MinInstant = At(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	MaxInstant = At(time.Date(9998, 12, 31, 23, 59, 59, 0, time.UTC))
)

// At returns t rounded up to a millisecond: a due time that lies between two milliseconds is never reached early.
func At(t time.Time) Instant {
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return Instant(ms)
}

// Reached returns t rounded down to a millisecond: the latest Instant that t has reached. Clocks are read with it, due times with At.
func Reached(t time.Time) Instant { return Instant(t.UnixMilli()) }

// Time returns the instant in UTC.
func (i Instant) Time() time.Time { return time.UnixMilli(int64(i)).UTC() }

// Add returns the instant d later, rounded up to a millisecond. Never stays Never, and so does a sum that would overflow.
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

// ParseInstant reads an RFC 3339 time with any offset and rounds it up to a millisecond. Times outside MinInstant and
// MaxInstant are refused.
func ParseInstant(s string) (Instant, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return 0, fmt.Errorf("%q is no RFC 3339 time such as 2027-01-31T09:00:00Z", s)
	}
	i := At(t)
	if i < MinInstant || i > MaxInstant {
		return 0, fmt.Errorf("%q lies outside the years 2000 to 9998", s)
	}
	return i, nil
}
