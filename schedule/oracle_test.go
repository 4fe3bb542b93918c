package schedule_test

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"
)

// oracle computes the times of cron by checking every local time and every instant of a window. It shares no
// code with the package: it uses neither spans nor bits, only the local fields of package time and the
// calendar.
type oracle struct {
	second  [60]bool
	minute  [60]bool
	hour    [24]bool
	month   [13]bool
	year    func(int) bool
	day     string // the fields for days, as they are
	weekday string
	sunday  int    // its number
	and     bool   // a day must be good for both day fields
	gap     string // next, shift or skip
	repeat  string // first, second or both
	step    int64  // seconds: 60 if it is due at whole minutes only
}

// seed is the name that H uses in tests.
const seed = "default/report"

// rules are all rules for changes of the clocks.
var rules = []string{"", "next,first", "shift", "skip", "second", "both", "shift,second", "both,skip", "skip,second", "both,shift", "vixie"}

func newOracle(expr, dst string) *oracle {
	o := &oracle{step: 60, gap: "next", repeat: "first", year: func(int) bool { return true }}
	dialect, text, ok := strings.Cut(expr, ":")
	if !ok {
		dialect, text = "", expr
	}
	text = strings.TrimSuffix(strings.TrimPrefix(text, "cron("), ")")
	f := strings.Fields(text)
	if dialect == "" || dialect == "aws" {
		f = append([]string{"0"}, f...)
	}
	if f[0] != "0" {
		o.step = 1
	}
	places := []struct{ first, last int }{{0, 59}, {0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 7}, {1970, 2199}}
	if dialect == "quartz" || dialect == "aws" {
		o.sunday = 1
		places[5] = struct{ first, last int }{1, 7}
	}
	for i := range f {
		f[i] = unhash(f[i], i, places[i].first)
	}
	fill := func(set []bool, i int) {
		for v := range set {
			set[v] = v >= places[i].first && covers(f[i], v, places[i].first, places[i].last)
		}
	}
	fill(o.second[:], 0)
	fill(o.minute[:], 1)
	fill(o.hour[:], 2)
	fill(o.month[:], 4)
	o.day, o.weekday = f[3], f[5]
	if len(f) == 7 {
		o.year = func(y int) bool { return f[6] == "*" || covers(f[6], y, 1970, 2199) }
	}
	o.and = strings.HasPrefix(f[3], "*") || strings.HasPrefix(f[5], "*") || strings.Contains(expr, "?") || dialect == "spring"
	for _, word := range strings.Split(dst, ",") {
		switch word {
		case "next", "shift", "skip":
			o.gap = word
		case "first", "second", "both":
			o.repeat = word
		}
	}
	if strings.HasPrefix(f[1], "*") || strings.HasPrefix(f[2], "*") {
		o.gap, o.repeat = "skip", "both"
	}
	return o
}

// unhash replaces H by numbers, as documented.
func unhash(text string, place, first int) string {
	if !strings.HasPrefix(text, "H") {
		return text
	}
	sum := fnv.New64a()
	sum.Write([]byte(seed))
	x := sum.Sum64()
	for range place + 1 {
		x += 0x9e3779b97f4a7c15
	}
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	last := []int{59, 59, 23, 28, 12, first + 6}[place]
	base, step, stepped := strings.Cut(text, "/")
	if base != "H" {
		from, to, _ := strings.Cut(base[2:len(base)-1], "-")
		first, _ = strconv.Atoi(from)
		last, _ = strconv.Atoi(to)
	}
	if n, _ := strconv.Atoi(step); stepped {
		return strconv.Itoa(first+int(x%uint64(n))) + "-" + strconv.Itoa(last) + "/" + step
	}
	return strconv.Itoa(first + int(x%uint64(last-first+1)))
}

var months = strings.NewReplacer("JAN", "1", "FEB", "2", "MAR", "3", "OCT", "10", "NOV", "11")

// covers reports whether a field's text includes a value.
func covers(text string, v, first, last int) bool {
	for _, item := range strings.Split(months.Replace(text), ",") {
		base, step, stepped := strings.Cut(item, "/")
		from, to, every := base, base, 1
		if a, b, ok := strings.Cut(base, "-"); ok {
			from, to = a, b
		} else if base == "*" || base == "?" {
			from, to = strconv.Itoa(first), strconv.Itoa(last)
		} else if stepped {
			to = strconv.Itoa(last)
		}
		if stepped {
			every, _ = strconv.Atoi(step)
		}
		lo, _ := strconv.Atoi(from)
		hi, _ := strconv.Atoi(to)
		for x, n := lo, 0; ; n++ { // count from lo to hi, past the last one if hi is below
			if x == v && n%every == 0 {
				return true
			}
			if x == hi {
				break
			}
			if x++; x > last {
				x = first
			}
		}
	}
	return false
}

// goodDay reports whether a day is one of those that the expression names. It takes each element of the
// fields by itself.
func (o *oracle) goodDay(date time.Time) bool {
	if !o.month[date.Month()] || !o.year(date.Year()) {
		return false
	}
	day := slices.ContainsFunc(strings.Split(o.day, ","), func(item string) bool { return dayItem(item, date) })
	weekday := slices.ContainsFunc(strings.Split(o.weekday, ","), func(item string) bool { return o.weekdayItem(item, date) })
	if o.and {
		return day && weekday
	}
	return day || weekday
}

func dayItem(item string, date time.Time) bool {
	of := func(n int) time.Time { return date.AddDate(0, 0, n-date.Day()) } // the n-th of the date's month
	last := of(1).AddDate(0, 1, -1).Day()
	target, work := strings.CutSuffix(item, "W")
	n, err := strconv.Atoi(target)
	if target == "L" {
		n = last
	} else if back, ok := strings.CutPrefix(target, "L-"); ok {
		n, _ = strconv.Atoi(back)
		n = last - n
	} else if err != nil {
		return covers(item, date.Day(), 1, 31)
	}
	if n < 1 || n > last {
		return false
	}
	if !work || of(n).Weekday()%6 != 0 {
		return date.Day() == n
	}
	for away := 1; ; away++ { // the nearest in the month that is no Saturday or Sunday
		for _, m := range []int{n - away, n + away} {
			if m >= 1 && m <= last && of(m).Weekday()%6 != 0 {
				return date.Day() == m
			}
		}
	}
}

func (o *oracle) weekdayItem(item string, date time.Time) bool {
	for w, name := range []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"} {
		if name == "SUN" && strings.HasSuffix(item, "-SUN") && o.sunday == 0 {
			w = 7
		}
		item = strings.ReplaceAll(item, name, strconv.Itoa(w+o.sunday))
	}
	w := int(date.Weekday()) + o.sunday
	same := func(text string) bool {
		n, _ := strconv.Atoi(text)
		return (n-o.sunday)%7 == int(date.Weekday())
	}
	if day, n, ok := strings.Cut(item, "#"); ok {
		nth := 1
		for d := date.AddDate(0, 0, -7); d.Month() == date.Month(); d = d.AddDate(0, 0, -7) {
			nth++
		}
		return same(day) && strconv.Itoa(nth) == n
	}
	if item == "L" {
		return date.Weekday() == time.Saturday
	}
	if day, ok := strings.CutSuffix(item, "L"); ok {
		return same(day) && date.AddDate(0, 0, 7).Month() != date.Month()
	}
	if o.sunday == 1 {
		return covers(item, w, 1, 7)
	}
	if item == "*" {
		return true
	}
	if text, ok := strings.CutPrefix(item, "*/"); ok {
		item = "0-6/" + text
	}
	return covers(item, w, 0, 7) || w == 0 && covers(item, 7, 0, 7)
}

// warmUp is how long before and behind a window the clocks are watched, to know which local times they show.
const warmUp = 30 * 60 * 60

// shown are the instants of a local time; 0 is none.
type shown struct{ first, last int64 }

// walk returns, for each oracle, the unix seconds of its occurrences from ≤ t < to, found by watching the
// clocks through the window at each step of the oracles, the shortest of theirs.
func walk(oracles []*oracle, loc *time.Location, from, to int64) [][]int64 {
	step := int64(60)
	for _, o := range oracles {
		step = min(step, o.step)
	}
	begin, end := from-floorMod(from, 86400)-warmUp, to-floorMod(to, 86400)+86400+warmUp
	wall := func(at int64) int64 {
		_, offset := time.Unix(at, 0).In(loc).Zone()
		if offset%60 != 0 {
			step = 1
		}
		return at + int64(offset)
	}
	least := wall(begin) // and whether there are odd offsets
	wall(end)
	count := (end-begin)/step + 2*warmUp/step
	clocks := make([]shown, count)
	for at := begin; at < end; at += step {
		i := (wall(at)-least)/step + warmUp/step
		if i < 0 || i >= count {
			continue
		}
		if clocks[i].first == 0 {
			clocks[i].first = at
		}
		clocks[i].last = at
	}
	least -= warmUp / step * step
	// Where a gap is: the instants just before and behind it.
	before, behind := make([]shown, count), make([]int64, count)
	for i := int64(1); i < count; i++ {
		before[i] = before[i-1]
		if c := clocks[i]; c.first != 0 {
			before[i] = shown{c.last, least + i*step} // the instant, and what the clocks showed
		}
	}
	for i := count - 2; i >= 0; i-- {
		behind[i] = behind[i+1]
		if c := clocks[i]; c.first != 0 {
			behind[i] = c.first
		}
	}
	due := make([][]int64, len(oracles))
	for date := least - floorMod(least, 86400); date < least+count*step; date += 86400 {
		day := time.Unix(date, 0).UTC()
		for i, o := range oracles {
			if !o.goodDay(day) {
				continue
			}
			for clock := int64(0); clock < 86400; clock += o.step {
				if !o.hour[clock/3600] || !o.minute[clock/60%60] || !o.second[clock%60] {
					continue
				}
				k := (date + clock - least) / step
				if k < 1 || k >= count-1 || (date+clock-least)%step != 0 {
					continue
				}
				due[i] = append(due[i], o.instants(clocks[k], before[k], behind[k], date+clock)...)
			}
		}
	}
	for i := range due {
		due[i] = slices.DeleteFunc(due[i], func(at int64) bool { return at < from || at >= to })
		slices.Sort(due[i])
		due[i] = slices.Compact(due[i])
	}
	return due
}

// instants returns when a local time is due that the clocks show as given; before is the last time that they
// showed before it, and behind the first instant at which they show one after it.
func (o *oracle) instants(c, before shown, behind, wall int64) []int64 {
	switch {
	case c.first == 0 && (before.first == 0 || behind == 0): // beyond the window
	case c.first == 0 && o.gap == "next":
		return []int64{behind}
	case c.first == 0 && o.gap == "shift":
		return []int64{before.first + wall - before.last}
	case c.first == 0:
	case o.repeat == "first":
		return []int64{c.first}
	case o.repeat == "second":
		return []int64{c.last}
	default:
		return []int64{c.first, c.last}
	}
	return nil
}

func floorMod(a, b int64) int64 { return (a%b + b) % b }

// Strides of transitions: the first misses no change of the clocks, the second few of those that lie near
// another.
const halfDay, fiveDays = 12 * 60 * 60, 5 * 24 * 60 * 60

// transitions returns when the clocks of a zone change their offset, from ≤ t < to, by looking once a stride.
func transitions(loc *time.Location, from, to time.Time, stride int64) []int64 {
	offset := func(at int64) int {
		_, o := time.Unix(at, 0).In(loc).Zone()
		return o
	}
	var all []int64
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
