package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// recurrence is a rule for the oracle, which follows the words of RFC 5545: it writes down every day of every
// period, or every second of short ones, asks of each whether it is in all parts, lets BYSETPOS pick, and
// then cuts off what is before the begin and behind the end. It shares nothing with the package. All times
// are in UTC.
type recurrence struct {
	freq                                 string
	interval, count                      int
	begin, until                         time.Time // until zero: none
	weekStart                            time.Weekday
	seconds, minutes, hours              []int
	monthDays, yearDays, weekNos, months []int
	positions                            []int
	days                                 []nth
}

// nth is an element of BYDAY; n is 0 without a number.
type nth struct {
	n   int
	day time.Weekday
}

var codes = [...]string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}

func (r *recurrence) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "rrule:DTSTART=%s;FREQ=%s", r.begin.Format("20060102T150405Z"), r.freq)
	if r.interval != 1 {
		fmt.Fprintf(&b, ";INTERVAL=%d", r.interval)
	}
	if r.count > 0 {
		fmt.Fprintf(&b, ";COUNT=%d", r.count)
	}
	if !r.until.IsZero() {
		fmt.Fprintf(&b, ";UNTIL=%s", r.until.Format("20060102T150405Z"))
	}
	if r.weekStart != time.Monday {
		fmt.Fprintf(&b, ";WKST=%s", codes[r.weekStart])
	}
	for _, p := range []struct {
		name string
		list []int
	}{{"BYMONTH", r.months}, {"BYWEEKNO", r.weekNos}, {"BYYEARDAY", r.yearDays}, {"BYMONTHDAY", r.monthDays}, {"BYHOUR", r.hours},
		{"BYMINUTE", r.minutes}, {"BYSECOND", r.seconds}, {"BYSETPOS", r.positions}} {
		if p.list != nil {
			fmt.Fprintf(&b, ";%s=%s", p.name, strings.Trim(strings.ReplaceAll(fmt.Sprint(p.list), " ", ","), "[]"))
		}
	}
	for i, d := range r.days {
		b.WriteString(map[bool]string{true: ";BYDAY=", false: ","}[i == 0])
		if d.n != 0 {
			fmt.Fprint(&b, d.n)
		}
		b.WriteString(codes[d.day])
	}
	return b.String()
}

// has reports whether a list is not given or has v, or v counted from the end of n.
func has(list []int, v, n int) bool {
	return list == nil || slices.Contains(list, v) || slices.Contains(list, v-n-1)
}

// day asks all parts that are about days.
func (r *recurrence) day(t time.Time) bool {
	yearly, monthly := r.freq == "YEARLY", r.freq == "MONTHLY"
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	inMonth := t.AddDate(0, 1, -t.Day()).Day()
	inYear := year(t.Year()+1).AddDate(0, 0, -1).YearDay()
	if !has(r.months, int(t.Month()), 1000) || !has(r.monthDays, t.Day(), inMonth) || !has(r.yearDays, t.YearDay(), inYear) {
		return false
	}
	if r.weekNos != nil {
		// The week belongs to the year that its fourth day lies in.
		fourth := t.AddDate(0, 0, 3-(int(t.Weekday())-int(r.weekStart)+7)%7)
		number, total := 0, 0
		for d := fourth; d.Year() == fourth.Year(); d = d.AddDate(0, 0, -7) {
			number++
		}
		for d := fourth; d.Year() == fourth.Year(); d = d.AddDate(0, 0, 7) {
			total++
		}
		if total += number - 1; !has(r.weekNos, number, total) {
			return false
		}
	}
	if r.days != nil {
		first, end := t.AddDate(0, 0, 1-t.Day()), t.AddDate(0, 0, inMonth-t.Day())
		if yearly && r.months == nil {
			first, end = year(t.Year()), year(t.Year()+1).AddDate(0, 0, -1)
		}
		place, size := 0, 0
		for d := first; !d.After(end); d = d.AddDate(0, 0, 1) {
			if d.Weekday() == t.Weekday() {
				if size++; !d.After(t) {
					place++
				}
			}
		}
		if !slices.ContainsFunc(r.days, func(d nth) bool {
			return d.day == t.Weekday() && (d.n == 0 || d.n == place || d.n == place-size-1)
		}) {
			return false
		}
	}
	if r.days != nil || r.monthDays != nil || r.yearDays != nil {
		return true
	}
	switch { // the begin fills in what the rule leaves open
	case r.freq == "WEEKLY", yearly && r.weekNos != nil:
		return t.Weekday() == r.begin.Weekday()
	case monthly:
		return t.Day() == r.begin.Day()
	case yearly:
		return t.Day() == r.begin.Day() && (r.months != nil || t.Month() == r.begin.Month())
	}
	return true
}

// short is the length of a period in seconds; 0 for days and more.
func (r *recurrence) short() int {
	return map[string]int{"SECONDLY": 1, "MINUTELY": 60, "HOURLY": 3600}[r.freq]
}

// period returns the k-th period's times before BYSETPOS, and the period's begin.
func (r *recurrence) period(k int) (set []time.Time, begin time.Time) {
	if n := r.short(); n > 0 {
		begin = r.begin.Truncate(time.Duration(n) * time.Second).Add(time.Duration(k*r.interval*n) * time.Second)
		if !has(r.hours, begin.Hour(), 1000) || !r.day(time.Date(begin.Year(), begin.Month(), begin.Day(), 0, 0, 0, 0, time.UTC)) {
			return nil, begin
		}
		for s := range n {
			t := begin.Add(time.Duration(s) * time.Second)
			if r.minutes == nil && n > 60 && t.Minute() != r.begin.Minute() || r.seconds == nil && n > 1 && t.Second() != r.begin.Second() {
				continue
			}
			if has(r.minutes, t.Minute(), 1000) && has(r.seconds, t.Second(), 1000) {
				set = append(set, t)
			}
		}
		return set, begin
	}
	midnight := time.Date(r.begin.Year(), r.begin.Month(), r.begin.Day(), 0, 0, 0, 0, time.UTC)
	var end time.Time
	switch n := k * r.interval; r.freq {
	case "YEARLY":
		begin = time.Date(r.begin.Year()+n, 1, 1, 0, 0, 0, 0, time.UTC)
		end = begin.AddDate(1, 0, 0)
	case "MONTHLY":
		begin = time.Date(r.begin.Year(), r.begin.Month()+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
		end = begin.AddDate(0, 1, 0)
	case "WEEKLY":
		begin = midnight.AddDate(0, 0, 7*n-(int(midnight.Weekday())-int(r.weekStart)+7)%7)
		end = begin.AddDate(0, 0, 7)
	case "DAILY":
		begin = midnight.AddDate(0, 0, n)
		end = begin.AddDate(0, 0, 1)
	}
	or := func(list []int, v int) []int {
		if list == nil {
			return []int{v}
		}
		return list
	}
	for d := begin; d.Before(end); d = d.AddDate(0, 0, 1) {
		if !r.day(d) {
			continue
		}
		for _, h := range or(r.hours, r.begin.Hour()) {
			for _, m := range or(r.minutes, r.begin.Minute()) {
				for _, s := range or(r.seconds, r.begin.Second()) {
					set = append(set, d.Add(time.Duration(h*3600+m*60+s)*time.Second))
				}
			}
		}
	}
	return set, begin
}

// times returns the first n times of the rule before a moment.
func (r *recurrence) times(n int, before time.Time) (all []time.Time) {
	for k := 0; ; k++ {
		set, begin := r.period(k)
		if !begin.Before(before) {
			return all
		}
		slices.SortFunc(set, time.Time.Compare)
		set = slices.Compact(set)
		for i, t := range set {
			if r.positions != nil && !slices.Contains(r.positions, i+1) && !slices.Contains(r.positions, i-len(set)) {
				continue
			}
			switch {
			case t.Before(r.begin):
				continue
			case !r.until.IsZero() && t.After(r.until), !t.Before(before), len(all) == n, r.count > 0 && len(all) == r.count:
				return all
			}
			all = append(all, t)
		}
	}
}

// randomRule returns a random rule that the RFC allows.
func randomRule(rnd *rand.Rand) *recurrence {
	r := &recurrence{freq: []string{"YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"}[rnd.IntN(7)], interval: 1, weekStart: time.Monday}
	r.begin = time.Date(1995+rnd.IntN(40), time.Month(1+rnd.IntN(12)), 1+rnd.IntN(31), rnd.IntN(24), rnd.IntN(60), rnd.IntN(60), 0, time.UTC)
	some := func(chance, least, most int, negative bool) (list []int) {
		if rnd.IntN(chance) != 0 {
			return nil
		}
		for range 1 + rnd.IntN(4) {
			v := least + rnd.IntN(most-least+1)
			if negative && rnd.IntN(2) == 0 {
				v = -v
			}
			if !slices.Contains(list, v) {
				list = append(list, v)
			}
		}
		return list
	}
	if rnd.IntN(2) == 0 {
		r.interval = 1 + rnd.IntN([]int{3, 12, 100}[rnd.IntN(3)])
	}
	if rnd.IntN(4) == 0 {
		r.weekStart = time.Weekday(rnd.IntN(7))
	}
	yearly, monthly := r.freq == "YEARLY", r.freq == "MONTHLY"
	rare := 4
	if r.short() > 0 {
		rare = 6
	}
	r.months = some(rare, 1, 12, false)
	if yearly {
		r.weekNos = some(4, 1, 53, true)
	}
	if yearly || r.short() > 0 {
		r.yearDays = some(2*rare, 1, 366, true)
	}
	if r.freq != "WEEKLY" {
		r.monthDays = some(rare, 1, 31, true)
	}
	if rnd.IntN(3) == 0 {
		for range 1 + rnd.IntN(4) {
			d := nth{0, time.Weekday(rnd.IntN(7))}
			if (monthly || yearly && r.weekNos == nil) && rnd.IntN(2) == 0 {
				most := 5
				if yearly && r.months == nil {
					most = 53
				}
				if d.n = 1 + rnd.IntN(most); rnd.IntN(2) == 0 {
					d.n = -d.n
				}
			}
			r.days = append(r.days, d)
		}
	}
	r.hours, r.minutes, r.seconds = some(rare, 0, 23, false), some(rare, 0, 59, false), some(rare, 0, 59, false)
	if r.months != nil || r.weekNos != nil || r.yearDays != nil || r.monthDays != nil || r.days != nil || r.hours != nil || r.minutes != nil || r.seconds != nil {
		r.positions = some(3, 1, []int{3, 10, 366}[rnd.IntN(3)], true)
	}
	switch rnd.IntN(4) {
	case 0:
		r.count = 1 + rnd.IntN(50)
	case 1:
		r.until = r.begin.Add(time.Duration(rnd.Int64N(int64(3 * 365 * 24 * time.Hour)))).Truncate(time.Second)
	}
	return r
}
