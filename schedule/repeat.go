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
	first, last int64
	period      period
	zone        zone
}

// parseRepeat reads R[n]/[start/]period, or a period alone.
func parseRepeat(expr string, o Options) (rouse.Schedule, error) {
	r := &repeat{start: o.Anchor, first: 1, last: math.MaxInt64}
	text := expr
	if expr[0] == 'R' {
		const shape = `write R, how often unless for ever, and an interval: "R/PT30M", "R5/PT30M" or "R5/2027-01-01T00:00:00Z/P1M"`
		parts := strings.Split(expr, "/")
		if len(parts) != 2 && len(parts) != 3 {
			return nil, refuse(expr, "is no repeating interval, which has two or three parts with slashes between", shape)
		}
		if n := parts[0][1:]; n != "" {
			times, ok := integer(n)
			if !ok || times == 0 {
				return nil, refuse(expr, "the repetition "+quote(parts[0])+" is not R, or R1 to R999999999", shape)
			}
			r.last = times
		}
		if len(parts) == 3 {
			if strings.HasPrefix(parts[1], "P") {
				return nil, refuse(expr, "has an interval where its start should be", shape)
			}
			at, err := readInstant(parts[1], expr)
			if err != nil {
				return nil, err
			}
			r.start, r.first = at, 0 // the start is the first occurrence
			if r.last != math.MaxInt64 {
				r.last--
			}
		}
		text = parts[len(parts)-1]
	}
	p, fault := parsePeriod(text)
	if fault != nil {
		return nil, refuse(expr, fault.wrong, fault.cure)
	}
	r.period = p
	if !p.calendar() && o.Timezone != "" {
		return nil, refuseZone(o, "an interval of hours, minutes and seconds")
	}
	var err error
	if r.zone, err = loadZone(o.Timezone); err != nil {
		return nil, err
	}
	if _, ok := r.Next(-1); !ok {
		return nil, refuse(expr, "never fires: it begins after the year 9998", "give a shorter interval")
	}
	return r, nil
}

// Next looks for k near where an average calendar has it, and between those by halves.
func (r *repeat) Next(after rouse.Instant) (rouse.Instant, bool) {
	// Months stray from their average length by less than four days in all, zones from each other by two.
	const slack = 8 * 24 * 60 * 60 * 1000
	if after >= rouse.MaxInstant {
		return 0, false
	}
	average, elapsed := r.period.average(), int64(max(after, 0)-r.start)
	lo := max(r.first, (elapsed-slack)/average)
	hi := max(r.first, (elapsed+slack)/average+1) // at(hi) lies after
	for lo < hi {
		if k := lo + (hi-lo)/2; r.at(k) > after {
			hi = k
		} else {
			lo = k + 1
		}
	}
	if lo > r.last {
		return 0, false
	}
	next := r.at(lo)
	return next, next <= rouse.MaxInstant
}

// at returns the k-th occurrence. It never falls as k grows; two are one where a gap swallows a whole day.
func (r *repeat) at(k int64) rouse.Instant {
	if k == 0 || !r.period.calendar() {
		return r.start + rouse.Instant(k*r.period.millis)
	}
	second := floorDiv(int64(r.start), 1000)
	wall := second + r.zone.span(second).offset
	day := time.Unix(wall, 0).UTC()
	months := int64(day.Month()) - 1 + k*r.period.months
	year, month := day.Year()+int(months/12), time.Month(months%12+1)
	date := time.Date(year, month, min(day.Day(), daysIn(year, month)), 0, 0, 0, 0, time.UTC).Unix()
	at, shown := r.zone.instant(date + mod(wall, 86400) + k*r.period.days*86400)
	at *= 1000
	if shown {
		at += mod(int64(r.start), 1000)
	}
	return rouse.Instant(at + k*r.period.millis)
}

// period is an ISO 8601 duration. Its parts are added in this order: months on the calendar, cut to the month's last day,
// days on the calendar, and elapsed time.
type period struct{ months, days, millis int64 }

func (p period) calendar() bool { return p.months != 0 || p.days != 0 }

// average returns how long the period is in the 400 years after which the calendar repeats, in milliseconds.
func (p period) average() int64 {
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

// parsePeriod reads P[nY][nM][nW][nD][T[nH][nM][n[.fff]S]].
func parsePeriod(text string) (period, *fault) {
	wrong := func(why string) (period, *fault) {
		return period{}, &fault{"the interval " + quote(text) + " " + why, `write one such as "P1D", "P1M", "PT30M" or "P1DT12H"`}
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
		end := strings.IndexFunc(rest, func(c rune) bool { return c != '.' && (c < '0' || c > '9') })
		if end < 0 {
			return wrong("ends without a unit")
		}
		whole, fraction, fractional := strings.Cut(rest[:end], ".")
		n, ok := integer(whole)
		if !ok {
			return wrong("is no ISO 8601 duration from " + quote(rest) + " on, where a number of one to nine digits should be")
		}
		for unit < len(units) && (units[unit].name != rest[end] || units[unit].clock != clock) {
			unit++
		}
		if unit == len(units) {
			return wrong("has " + quote(rest[end:end+1]) + " where no such unit can be: the order is Y, M, W, D, T, H, M, S")
		}
		u := units[unit]
		unit++
		p.months, p.days, p.millis = p.months+n*u.one.months, p.days+n*u.one.days, p.millis+n*u.one.millis
		if fractional {
			millis, ok := integer((fraction + "000")[:max(3, len(fraction))])
			if !ok || len(fraction) < 1 || len(fraction) > 3 || u.name != 'S' {
				return wrong("has a fraction that is not one of a second, with one to three digits")
			}
			p.millis += millis
		}
		rest = rest[end+1:]
	}
	switch {
	case !p.calendar() && p.millis < MinInterval.Milliseconds():
		return period{}, &fault{"the interval " + quote(text) + " is too short", "use PT0.1S or more"}
	case p.months > 120_000 || p.days > 4_000_000 || p.millis > 400_000_000_000_000:
		return period{}, &fault{"never fires: the interval " + quote(text) + " is longer than 9,998 years", "give a shorter interval"}
	}
	return p, nil
}

// integer reads one to nine ASCII digits.
func integer(s string) (int64, bool) {
	if len(s) > 9 || !digits(s) {
		return 0, false
	}
	var n int64
	for _, c := range []byte(s) {
		n = n*10 + int64(c-'0')
	}
	return n, true
}

func floorDiv(a, b int64) int64 { return (a - mod(a, b)) / b }
