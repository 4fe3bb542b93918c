package schedule

import (
	"strings"
	"time"
)

// oddDays are the days that Quartz names by L, W and #, and other dialects after it.
type oddDays struct {
	fromLast uint64 // L, L-3: bit k is the day k before the last of the month
	lastWork uint64 // LW, L-3W: the weekday, Monday to Friday, nearest to that day
	work     uint64 // 15W: bit d is the weekday nearest to day d
	last     uint64 // 6L, FRIL: bit w is the last of its day of the week in the month
	nth      uint64 // 6#3, FRI#3: bit 7(n-1)+w is the n-th of its day of the week in the month
}

func (o *oddDays) addOddDays(p oddDays) {
	o.fromLast |= p.fromLast
	o.lastWork |= p.lastWork
	o.work |= p.work
	o.last |= p.last
	o.nth |= p.nth
}

// oddLike reports whether a text looks as if it had L, W or #, and is not just an unknown name such as JULY.
func oddLike(text string) bool {
	text = strings.ToUpper(text)
	if text == "L" || text == "W" || text == "LW" || strings.Contains(text, "#") {
		return true
	}
	head := strings.TrimRight(text, "LW")
	if head == text || head == "" {
		return false
	}
	return isAllDigits(head) || len(head) == 3 && strings.Contains("SUN MON TUE WED THU FRI SAT", head)
}

// parseOdd reads an element with L, W or #, and reports whether it was one.
func (f *field) parseOdd(item string, d *dialect, v *values) (bool, *fault) {
	text := strings.ToUpper(item)
	if strings.HasPrefix(text, "?") {
		return true, f.newFault(item, "has more than '?'", "write ? alone, or *")
	}
	if f.isWeekdayField() {
		return f.oddWeekday(item, text, d, v)
	}
	head, work := strings.CutSuffix(text, "W")
	if rest, ok := strings.CutPrefix(head, "L"); ok {
		back := 0
		if rest != "" {
			n, ok := parseTwoDigits(strings.TrimPrefix(rest, "-"))
			if !ok || rest[0] != '-' || n < 1 || n > 30 {
				return true, f.newFault(item, "is no day before the last", "write L, or L-1 to L-30")
			}
			back = n
		}
		if work {
			v.odd.lastWork |= 1 << back
		} else {
			v.odd.fromLast |= 1 << back
		}
		return true, nil
	}
	if !work {
		return false, nil
	}
	n, ok := parseTwoDigits(head)
	if !ok || n < 1 || n > 31 {
		return true, f.newFault(item, "is no weekday nearest to a day", "write LW, or 1W to 31W")
	}
	v.odd.work |= 1 << n
	return true, nil
}

// oddWeekday is parseOdd for the day of the week.
func (f *field) oddWeekday(item, text string, d *dialect, v *values) (bool, *fault) {
	if text == "L" {
		if !d.lastDay {
			return true, f.newFault(item, "names no day of the week",
				"write SAT for Saturdays, or SATL for the last one of the month")
		}
		v.bits.addBit(int(time.Saturday))
		return true, nil
	}
	head, nth, ok := strings.Cut(text, "#")
	if ok {
		n, ok := parseTwoDigits(nth)
		if !ok || n < 1 || n > 5 {
			return true, f.newFault(item, "is no n-th day of the week in a month",
				"write a number from 1 to 5 after #, as in FRI#3")
		}
		w, err := f.parseValue(item, head, d)
		if err != nil {
			return true, err
		}
		v.odd.nth |= 1 << ((n-1)*7 + (w-f.bitBase())%7)
		return true, nil
	}
	if head, ok = strings.CutSuffix(text, "L"); !ok {
		return false, nil
	}
	w, err := f.parseValue(item, head, d)
	if err != nil {
		return true, err
	}
	v.odd.last |= 1 << ((w - f.bitBase()) % 7)
	return true, nil
}

// monthdayBits returns the days of a month that the day of month names, as bits; first is the day of the week
// of its first day, and it has n days. A day that the month does not have has no nearest weekday in it.
func (o *oddDays) monthdayBits(first, n int) uint64 {
	var set uint64
	for back := range n {
		if o.fromLast>>back&1 != 0 {
			set |= 1 << (n - back)
		}
		if o.lastWork>>back&1 != 0 {
			set |= 1 << nearestWeekday(n-back, first, n)
		}
	}
	for day := 1; day <= n; day++ {
		if o.work>>day&1 != 0 {
			set |= 1 << nearestWeekday(day, first, n)
		}
	}
	return set
}

// nearestWeekday returns the weekday nearest to a day, in the same month.
func nearestWeekday(day, first, n int) int {
	switch time.Weekday((first + day - 1) % 7) {
	case time.Saturday:
		if day == 1 {
			return 3
		}
		return day - 1
	case time.Sunday:
		if day == n {
			return n - 2
		}
		return day + 1
	}
	return day
}

// weekdayBits is monthdayBits for the day of the week.
func (o *oddDays) weekdayBits(first, n int) uint64 {
	var set uint64
	for day := 1; day <= n; day++ {
		w := (first + day - 1) % 7
		if o.nth>>((day-1)/7*7+w)&1 != 0 || day > n-7 && o.last>>w&1 != 0 {
			set |= 1 << day
		}
	}
	return set
}
