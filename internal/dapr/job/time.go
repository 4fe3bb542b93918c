package job

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// moment is a due time or the end of a time to live: an absolute time or an offset.
type moment struct {
	at   time.Time     // zero: an offset
	date [3]int        // years, months and days of the calendar, in UTC
	d    time.Duration // and a duration
}

// readMoment reads RFC 3339, a Go duration, or an ISO 8601 duration.
func readMoment(field, text string) (m moment, err error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return moment{at: at}, nil
	}
	if m.d, err = time.ParseDuration(text); err == nil {
		return m, nil
	}
	m, wrong := readISO(text)
	if wrong != "" {
		return m, rouse.Refuse(field, text, wrong,
			`give RFC 3339 such as "2027-01-31T09:00:00Z", or a duration such as "90s" or "PT90S"`)
	}
	return m, nil
}

// instantFrom returns the time, rounded up to an instant that a timer can have; times outside the years 2000
// to 9998 are clamped.
func (m moment) instantFrom(now rouse.Instant) rouse.Instant {
	at := m.at
	if at.IsZero() {
		base := now.Time().AddDate(m.date[0], m.date[1], m.date[2])
		if at = base.Add(m.d); m.d > 0 && at.Before(base) || base.Year() > 9999 {
			return rouse.MaxInstant
		}
	}
	if at.Year() > 9998 {
		return rouse.MaxInstant
	}
	return min(max(rouse.At(at), rouse.MinInstant), rouse.MaxInstant)
}

// fixedOffset returns the offset, if it is a fixed duration without calendar units.
func (m moment) fixedOffset() (time.Duration, bool) {
	return m.d, m.at.IsZero() && m.date == [3]int{}
}

// readISO reads P[nY][nM][nW][nD][T[nH][nM][nS]] with whole numbers in any order. A prefix R0/ has no effect;
// any other repetition is refused.
func readISO(text string) (m moment, wrong string) {
	const none = "is no time and no duration"
	text = strings.TrimPrefix(text, "R0/")
	if strings.HasPrefix(text, "R") {
		return m, "has a repetition"
	}
	rest, ok := strings.CutPrefix(text, "P")
	if !ok || rest == "" {
		return m, none
	}
	clock := false
	for rest != "" {
		if rest[0] == 'T' && !clock && len(rest) > 1 {
			rest, clock = rest[1:], true
		}
		end := strings.IndexFunc(rest, func(c rune) bool { return (c < '0' || c > '9') && c != '-' && c != '+' })
		if end <= 0 {
			return m, none
		}
		n, err := strconv.Atoi(rest[:end])
		if err != nil {
			return m, none
		}
		const most = 1_000_000 // of any unit: more than the days until the last year
		unit := rest[end]
		if (n > most || n < -most) && !clock {
			return m, fmt.Sprintf("has %d of one unit, more than %d", n, most)
		}
		switch {
		case unit == 'Y' && !clock:
			m.date[0] = n
		case unit == 'M' && !clock:
			m.date[1] = n
		case unit == 'W' && !clock:
			m.date[2] += 7 * n
		case unit == 'D' && !clock:
			m.date[2] += n
		case unit == 'H' && clock:
			wrong = m.addUnits(n, time.Hour)
		case unit == 'M' && clock:
			wrong = m.addUnits(n, time.Minute)
		case unit == 'S' && clock:
			wrong = m.addUnits(n, time.Second)
		default:
			wrong = none
		}
		if wrong != "" {
			return m, wrong
		}
		rest = rest[end+1:]
	}
	return m, ""
}

// addUnits adds durations, and refuses an overflow.
func (m *moment) addUnits(n int, unit time.Duration) (wrong string) {
	const most = 200 * 366 * 24 * time.Hour
	if n > int(most/unit) || n < -int(most/unit) {
		return "is longer than 200 years"
	}
	m.d += time.Duration(n) * unit
	return ""
}
