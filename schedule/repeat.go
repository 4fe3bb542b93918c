package schedule

import (
	"math"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// repeat is an ISO 8601 repeating interval: start + k·period for first ≤ k ≤ last.
type repeat struct {
	start       rouse.Instant
	wall        int64 // the local time of the start, in milliseconds
	named       bool  // the text names the start
	first, last int64
	period      period
	zone        zone
}

// parseRepeat reads R[n]/[start/]period, or a period alone.
func parseRepeat(expr string, o Options) (rouse.Schedule, error) {
	r := &repeat{start: o.Anchor, first: 1, last: math.MaxInt64}
	if o.Start != 0 {
		r.start, r.first = o.Start, 0 // the start is the first occurrence
	}
	text := expr
	if expr[0] == 'R' {
		const shape = `write R, how often unless for ever, and an interval: "R/PT30M", "R5/PT30M" or "R5/2027-01-01T00:00:00Z/P1M"`
		parts := strings.Split(expr, "/")
		if len(parts) != 2 && len(parts) != 3 {
			return nil, refuseExpr(expr, "is no repeating interval, which has two or three parts with slashes between", shape)
		}
		if n := parts[0][1:]; n != "" {
			times, ok := parseInteger(n)
			if !ok || times == 0 {
				return nil, refuseExpr(expr, "the repetition "+quotePart(parts[0])+" is not R, or R1 to R999999999", shape)
			}
			r.last = times
		}
		if len(parts) == 3 {
			if strings.HasPrefix(parts[1], "P") {
				return nil, refuseExpr(expr, "has an interval where its start should be", shape)
			}
			at, err := readInstant(parts[1], expr)
			if err != nil {
				return nil, err
			}
			r.start, r.first, r.named = at, 0, true
		}
		text = parts[len(parts)-1]
	}
	if r.first == 0 && r.last != math.MaxInt64 {
		r.last--
	}
	p, fault := parsePeriod(text)
	if fault != nil {
		return nil, refuseExpr(expr, fault.wrong, fault.cure)
	}
	r.period = p
	if !p.hasCalendar() && o.Timezone != "" {
		return nil, refuseZone(o, "an interval of hours, minutes and seconds")
	}
	var err error
	if r.zone, err = o.zoneWithRule(); err != nil {
		return nil, err
	}
	r.wall = r.zone.wallAt(r.start)
	if _, ok := r.Next(0); !ok {
		return nil, refuseExpr(expr, "never fires: it begins after the year 9998", "give a shorter interval")
	}
	return r, nil
}

// Next returns the first occurrence after the given time.
func (r *repeat) Next(after rouse.Instant) (next rouse.Instant, ok bool) {
	switch {
	case after >= rouse.MaxInstant:
		return 0, false
	case r.first == 0 && after < r.start:
		return r.start, true // as it is, even in the second pass of a repeat
	case r.period.isLocal():
		return r.zone.firstDueAfter(max(after, 0), r.wallFrom)
	}
	// The sum of the deviations of months from their average length is less than four days; zones differ by
	// at most two days.
	const slack = 8 * dayMillis
	after = max(after, 0)
	for k := r.searchIndex(int64(after-r.start), slack,
		func(k int64) bool { return r.occurrenceAt(k) > after }); k <= r.last; k++ {
		if next = r.occurrenceAt(k); next > rouse.MaxInstant {
			return 0, false
		} else if next > after && r.isShown(k) {
			return next, true
		}
	}
	return 0, false
}

// searchIndex returns the first k for which reached is true, near where an average calendar has it, by
// halves. elapsed is the time from the start, from which it strays by less than slack.
func (r *repeat) searchIndex(elapsed, slack int64, reached func(k int64) bool) int64 {
	average, first := r.period.averageLength(), max(r.first, 1)
	lo := max(first, (elapsed-slack)/average)
	hi := max(first, (elapsed+slack)/average+1) // reached
	for lo < hi {
		if k := lo + (hi-lo)/2; reached(k) {
			hi = k
		} else {
			lo = k + 1
		}
	}
	return lo
}

// occurrenceAt returns the k-th occurrence for k ≥ 1. It never falls as k grows.
func (r *repeat) occurrenceAt(k int64) rouse.Instant {
	if !r.period.hasCalendar() {
		return r.start + rouse.Instant(k*r.period.millis)
	}
	wall := r.wallOf(k)
	at, shown := r.zone.firstInstant(floorDiv(wall, 1000))
	if due, n := r.zone.dueInstants(floorDiv(wall, 1000)); n > 0 {
		at = due[0]
	}
	at *= 1000
	if shown || r.zone.rule.gap == gapShift {
		at += floorMod(wall, 1000)
	}
	return rouse.Instant(at + k*r.period.millis)
}

// isShown reports whether the k-th occurrence is due: a rule may leave out local times that a gap skips.
func (r *repeat) isShown(k int64) bool {
	if !r.period.hasCalendar() || r.zone.rule.gap != gapSkip {
		return true
	}
	_, n := r.zone.dueInstants(floorDiv(r.wallOf(k), 1000))
	return n > 0
}

// wallOf adds the calendar part of k periods to the local time of the start.
func (r *repeat) wallOf(k int64) int64 {
	day := time.UnixMilli(r.wall).UTC()
	months := int64(day.Month()) - 1 + k*r.period.months
	year, month := day.Year()+int(months/12), time.Month(months%12+1)
	date := time.Date(year, month, min(day.Day(), daysIn(year, month)), 0, 0, 0, 0, time.UTC).UnixMilli()
	return date + floorMod(r.wall, dayMillis) + k*r.period.days*dayMillis
}

// wallFrom returns the first local time of an occurrence after the start that is not before the given one.
func (r *repeat) wallFrom(from int64) (int64, bool) {
	k := r.searchIndex(from-r.wall, 4*dayMillis, func(k int64) bool { return r.wallOf(k) >= from })
	wall := r.wallOf(min(k, r.last))
	return wall, k <= r.last && wall < midnightOf(lastDate+1)
}

// ownSources returns the parts of a calendar period: its start, which is an instant, and the local times
// after it.
func (r *repeat) ownSources() []source {
	local := source{zone: r.zone, local: func(from int64, _ *budget) (int64, bool) { return r.wallFrom(from) }}
	if r.first == 0 {
		return []source{{zone: r.zone, real: once(r.start)}, local}
	}
	return []source{local}
}

// period is an ISO 8601 duration. Its parts are added in this order: months on the calendar, cut to the
// month's last day, days on the calendar, and elapsed time.
type period struct{ months, days, millis int64 }

func (p period) hasCalendar() bool { return p.months != 0 || p.days != 0 }

// isLocal reports whether occurrences are local times: no elapsed time is added to the times of the calendar.
func (p period) isLocal() bool { return p.hasCalendar() && p.millis == 0 }

// averageLength returns how long the period is in the 400 years after which the calendar repeats, in
// milliseconds.
func (p period) averageLength() int64 {
	const day = 24 * 60 * 60 * 1000
	const month = 146097 * day / (400 * 12)
	return p.months*month + p.days*day + p.millis
}

// units are the parts of a period in their order; those after the T are elapsed time.
var units = [...]struct {
	name  byte
	clock bool
	one   period
}{
	{'Y', false, period{months: 12}},
	{'M', false, period{months: 1}},
	{'W', false, period{days: 7}},
	{'D', false, period{days: 1}},
	{'H', true, period{millis: 3_600_000}},
	{'M', true, period{millis: 60_000}},
	{'S', true, period{millis: 1000}},
}

// ParseISODuration reads a duration of ISO 8601 that every clock measures alike, such as PT90S, P1DT12H or
// P2W: a day has 24 hours. Years and months, whose length depends on the date, are refused, with an
// *rouse.Invalid without a field.
func ParseISODuration(text string) (time.Duration, error) {
	const cure = `give one such as "PT90S" or "P1DT12H"`
	p, f := readPeriod(text)
	days := p.days*(24*time.Hour).Milliseconds() + p.millis
	switch {
	case f != nil:
		return 0, rouse.Refuse("", text, "is no duration of ISO 8601", cure)
	case p.months != 0:
		return 0, rouse.Refuse("", text, "has years or months, whose length depends on the date", cure)
	case days > math.MaxInt64/int64(time.Millisecond):
		return 0, rouse.Refuse("", text, "is too long", "use less than 292 years")
	}
	return time.Duration(days) * time.Millisecond, nil
}

// parsePeriod reads the interval of a repetition.
func parsePeriod(text string) (period, *fault) {
	p, f := readPeriod(text)
	switch {
	case f != nil:
		return period{}, f
	case !p.hasCalendar() && p.millis < MinInterval.Milliseconds():
		return period{}, &fault{"the interval " + quotePart(text) + " is too short", "use PT0.001S or more"}
	case p.months > 120_000 || p.days > 4_000_000 || p.millis > 400_000_000_000_000:
		return period{}, &fault{"never fires: the interval " + quotePart(text) + " is longer than 9,998 years",
			"give a shorter interval"}
	}
	return p, nil
}

// readPeriod reads P[nY][nM][nW][nD][T[nH][nM][n[.fff]S]], with a comma or a point before a fraction.
func readPeriod(text string) (period, *fault) {
	wrong := func(why string) (period, *fault) {
		return period{}, &fault{"the interval " + quotePart(text) + " " + why,
			`write one such as "P1D", "P1M", "PT30M" or "P1DT12H"`}
	}
	rest, ok := strings.CutPrefix(text, "P")
	if !ok || rest == "" || strings.HasSuffix(rest, "T") {
		return wrong("is no ISO 8601 duration")
	}
	var p period
	unit, clock := 0, false
	for rest != "" {
		if rest[0] == 'T' && !clock {
			rest, clock = rest[1:], true
		}
		end := strings.IndexFunc(rest, func(c rune) bool { return c != '.' && c != ',' && (c < '0' || c > '9') })
		if end < 0 {
			return wrong("ends without a unit")
		}
		whole, fraction, fractional := strings.Cut(strings.Replace(rest[:end], ",", ".", 1), ".") // ISO 8601 has both
		n, ok := parseInteger(whole)
		if !ok {
			return wrong("is no ISO 8601 duration from " + quotePart(rest) +
				" on, where a number of one to nine digits should be")
		}
		for unit < len(units) && (units[unit].name != rest[end] || units[unit].clock != clock) {
			unit++
		}
		if unit == len(units) {
			return wrong("has " + quotePart(rest[end:end+1]) + " where no such unit can be: the order is Y, M, W, D, T, H, M, S")
		}
		u := units[unit]
		unit++
		p.months, p.days, p.millis = p.months+n*u.one.months, p.days+n*u.one.days, p.millis+n*u.one.millis
		if fractional {
			millis, ok := parseInteger((fraction + "000")[:max(3, len(fraction))])
			if !ok || len(fraction) < 1 || len(fraction) > 3 || u.name != 'S' {
				return wrong("has a fraction that is not one of a second, with one to three digits")
			}
			p.millis += millis
		}
		rest = rest[end+1:]
	}
	return p, nil
}

// parseInteger reads one to nine ASCII digits.
func parseInteger(s string) (int64, bool) {
	if len(s) > 9 || !isAllDigits(s) {
		return 0, false
	}
	var n int64
	for _, c := range []byte(s) {
		n = n*10 + int64(c-'0')
	}
	return n, true
}

func floorDiv(a, b int64) int64 { return (a - floorMod(a, b)) / b }
