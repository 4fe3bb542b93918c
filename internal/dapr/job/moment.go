package job

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// moment is a due time, or the end of a time to live: an instant, or a distance from one.
type moment struct {
	at   time.Time     // zero: a distance
	date [3]int        // years, months and days on the calendar, in UTC
	d    time.Duration // and elapsed time
}

// readMoment reads RFC 3339, a duration as Go writes it, or one of ISO 8601.
func readMoment(field, text string) (m moment, err error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return moment{at: at}, nil
	}
	if m.d, err = time.ParseDuration(text); err == nil {
		return m, nil
	}
	m, wrong := readISO(text)
	if wrong != "" {
		return m, rouse.Refuse(field, text, wrong, `give RFC 3339 such as "2027-01-31T09:00:00Z", or a duration such as "90s" or "PT90S"`)
	}
	return m, nil
}

// from returns the instant, rounded up, as one that a timer can have: what lies beyond the years 2000 to 9998 is moved to their ends.
func (m moment) from(now rouse.Instant) rouse.Instant {
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

// elapsed returns the distance, if it is one that every clock measures in the same way.
func (m moment) elapsed() (time.Duration, bool) {
	return m.d, m.at.IsZero() && m.date == [3]int{}
}

// readISO reads P[nY][nM][nW][nD][T[nH][nM][nS]], in any order, whole numbers only. R0/ before it says nothing; any other
// repetition is refused.
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
		const most = 1_000_000 // of any unit: more than there are days until the last year
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
			wrong = m.add(n, time.Hour)
		case unit == 'M' && clock:
			wrong = m.add(n, time.Minute)
		case unit == 'S' && clock:
			wrong = m.add(n, time.Second)
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

// add adds elapsed time. What does not fit is refused, as it would wrap around.
func (m *moment) add(n int, unit time.Duration) (wrong string) {
	const most = 200 * 366 * 24 * time.Hour
	if n > int(most/unit) || n < -int(most/unit) {
		return "is longer than 200 years"
	}
	m.d += time.Duration(n) * unit
	return ""
}
