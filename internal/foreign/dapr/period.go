package dapr

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// period is the interval between the ticks of a reminder; zero: it has one tick.
type period struct {
	text   string
	months int
	every  time.Duration
}

// parsePeriod parses a Go duration or an ISO 8601 duration, optionally preceded by repetitions: R5/PT10S.
func parsePeriod(text string) (p period, left int, err error) {
	refuse := func(wrong string) (period, int, error) {
		return p, 0, rouse.Refuse("period", text, wrong, `it should be such as "10m", "PT10M" or "R5/PT10M"`)
	}
	p.text, left = text, -1
	rest := text
	if strings.HasPrefix(text, "R") {
		count, after, _ := strings.Cut(text[1:], "/")
		if left, err = strconv.Atoi(count); err != nil || left == 0 || left > 1<<31 {
			return refuse("has no number of repetitions")
		}
		if rest = after; rest == "" {
			return p, left, nil
		}
		if rest[0] != 'P' {
			return refuse("has repetitions of what is no ISO 8601 duration")
		}
	}
	if rest == "" {
		return p, left, nil
	}
	if p.every, err = time.ParseDuration(rest); err == nil {
		if p.every < 0 {
			return refuse("is negative")
		}
		return p, left, nil
	}
	if wrong := p.parseISO(rest); wrong != "" {
		return refuse(wrong)
	}
	return p, left, nil
}

// parseISO parses P1Y2M3W4DT5H6M7S.
func (p *period) parseISO(text string) (wrong string) {
	const none = "is no duration"
	rest, ok := strings.CutPrefix(text, "P")
	if !ok || rest == "" {
		return none
	}
	months := map[string]int{"Y": 12, "M": 1}
	elapsed := map[string]time.Duration{"W": 7 * 24 * time.Hour, "D": 24 * time.Hour, "TH": time.Hour, "TM": time.Minute,
		"TS": time.Second}
	clock := ""
	for rest != "" {
		if rest[0] == 'T' && clock == "" && len(rest) > 1 {
			rest, clock = rest[1:], "T"
		}
		end := strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' })
		if end <= 0 {
			return none
		}
		n, err := strconv.Atoi(rest[:end])
		name := clock + rest[end:end+1]
		unit, months := elapsed[name], months[name]
		switch {
		case err != nil, unit == 0 && months == 0:
			return none
		case months > 0 && n > maxPeriodYears, unit > 0 && n > int(maxPeriodYears*365*24*time.Hour/unit):
			return fmt.Sprintf("is longer than %d years", maxPeriodYears)
		}
		p.months += n * months
		p.every += time.Duration(n) * unit
		rest = rest[end+1:]
	}
	return ""
}

// maxPeriodYears bounds each of the up to seven parts of a period, so that none overflows.
const maxPeriodYears = 40

// tickAfter returns the next tick.
func (p period) tickAfter(at time.Time) time.Time { return at.AddDate(0, p.months, 0).Add(p.every) }

// daprSchedule returns the period in the form of Dapr's scheduler, given the time of one tick; "" if there is
// only one tick.
func (p period) daprSchedule(at time.Time) (string, error) {
	utc := at.UTC()
	switch {
	case p.months == 0 && p.every == 0:
		return "", nil
	case p.months == 0:
		return "@every " + p.every.String(), nil
	case p.every == 0 && 12%p.months == 0 && utc.Day() <= 28 && at.Day() == utc.Day():
		var months []string
		for m := range 12 / p.months {
			months = append(months, strconv.Itoa((int(utc.Month())-1+m*p.months)%12+1))
		}
		return fmt.Sprintf("%d %d %d %d %s *", utc.Second(), utc.Minute(), utc.Hour(), utc.Day(), strings.Join(months, ",")),
			nil
	}
	return "", rouse.Refuse("period", p.text,
		"is one of months that no schedule can express, from "+at.Format(time.RFC3339)+" on",
		"months that divide a year can be expressed, on days up to the 28th: schedule it again, with cron")
}
