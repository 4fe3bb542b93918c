package schedule_test

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// oracle tells what cron does by walking through time, minute by minute or second by second, with a look at the clock at
// each step. It shares nothing with the package: it knows neither spans nor bits, only package time's local fields.
type oracle struct {
	second  [60]bool
	minute  [60]bool
	hour    [24]bool
	day     [32]bool
	month   [13]bool
	weekday [7]bool
	and     bool // a day must be good for both day fields
	wild    bool
	step    int64 // seconds: 60 for five fields, 1 for six
}

func newOracle(expr string) *oracle {
	o := &oracle{step: 60}
	text, six := strings.CutPrefix(expr, "cron6:")
	f := strings.Fields(text)
	if six {
		o.step = 1
	} else {
		f = append([]string{"0"}, f...)
	}
	fill := func(set []bool, text string, from, last int) {
		for v := from; v < len(set); v++ {
			set[v] = covers(text, v, from, last)
		}
	}
	fill(o.second[:], f[0], 0, 59)
	fill(o.minute[:], f[1], 0, 59)
	fill(o.hour[:], f[2], 0, 23)
	fill(o.day[:], f[3], 1, 31)
	fill(o.month[:], f[4], 1, 12)
	for v := range o.weekday {
		o.weekday[v] = covers(f[5], v, 0, 7)
	}
	o.weekday[0] = o.weekday[0] || covers(f[5], 7, 0, 7)
	o.and = strings.HasPrefix(f[3], "*") || strings.HasPrefix(f[5], "*")
	o.wild = strings.HasPrefix(f[1], "*") || strings.HasPrefix(f[2], "*")
	return o
}

var named = strings.NewReplacer("JAN", "1", "FEB", "2", "MAR", "3", "OCT", "10", "NOV", "11", "SUN", "7", "MON", "1", "TUE", "2",
	"WED", "3", "THU", "4", "FRI", "5", "SAT", "6")

// covers says whether a field's text includes a value.
func covers(text string, v, first, last int) bool {
	for _, item := range strings.Split(named.Replace(text), ",") {
		base, step, stepped := strings.Cut(item, "/")
		from, to, every := base, base, 1
		if a, b, ok := strings.Cut(base, "-"); ok {
			from, to = a, b
		} else if base == "*" {
			from, to = strconv.Itoa(first), strconv.Itoa(last)
		} else if stepped {
			to = strconv.Itoa(last)
		}
		if stepped {
			every, _ = strconv.Atoi(step)
		}
		lo, _ := strconv.Atoi(from)
		hi, _ := strconv.Atoi(to)
		if lo <= v && v <= hi && (v-lo)%every == 0 {
			return true
		}
	}
	return false
}

// face is what a clock and a calendar on the wall show.
type face struct {
	second, minute, hour, day, month, weekday int
	wall                                      int64 // seconds, as if the clock stood in UTC
}

func look(t time.Time) face {
	_, offset := t.Zone()
	return face{t.Second(), t.Minute(), t.Hour(), t.Day(), int(t.Month()), int(t.Weekday()), t.Unix() + int64(offset)}
}

func (o *oracle) matches(f *face) bool {
	day := o.day[f.day] && o.weekday[f.weekday]
	if !o.and {
		day = o.day[f.day] || o.weekday[f.weekday]
	}
	return o.second[f.second] && o.minute[f.minute] && o.hour[f.hour] && o.month[f.month] && day
}

// warmUp is how long before a walk the clocks are watched, to know which local times they have shown.
const warmUp = 30 * 60 * 60

// walk returns, for each oracle, the unix seconds of its occurrences from ≤ t < to. All oracles have the same step.
func walk(oracles []*oracle, loc *time.Location, from, to int64) [][]int64 {
	due := make([][]int64, len(oracles))
	step := oracles[0].step
	begin := from - from%60 - warmUp
	shown := look(time.Unix(begin-step, 0).In(loc)).wall // the latest local time that the clocks have shown
	for at := begin; at < to; at += step {
		now := look(time.Unix(at, 0).In(loc))
		first := now.wall > shown
		var skipped []face
		for wall := shown + step; wall < now.wall; wall += step {
			skipped = append(skipped, look(time.Unix(wall, 0).UTC()))
		}
		shown = max(shown, now.wall)
		if at < from {
			continue
		}
		for i, o := range oracles {
			fires := o.matches(&now) && (o.wild || first)
			if !o.wild && !fires && len(skipped) > 0 {
				fires = slices.ContainsFunc(skipped, func(f face) bool { return o.matches(&f) })
			}
			if fires {
				due[i] = append(due[i], at)
			}
		}
	}
	return due
}

// transitions returns when the clocks of a zone change their offset, from ≤ t < to, by looking twice a day.
func transitions(loc *time.Location, from, to time.Time) []int64 {
	offset := func(at int64) int {
		_, o := time.Unix(at, 0).In(loc).Zone()
		return o
	}
	var all []int64
	const stride = 12 * 60 * 60
	for at := from.Unix(); at < to.Unix(); at += stride {
		lo, hi := at, at+stride
		if offset(lo) == offset(hi) {
			continue
		}
		for hi-lo > 1 {
			if mid := lo + (hi-lo)/2; offset(mid) == offset(lo) {
				lo = mid
			} else {
				hi = mid
			}
		}
		all = append(all, hi)
	}
	return all
}
