package history

import (
	"strings"
	"time"
)

// walker steps through real time by the minute, and knows the offset of the wall clock there.
type walker struct {
	*cron
	gap, repeat string

	from, until int64 // the stretch with this offset, in seconds; 0, 0 before the first step
	offset      int64
	before      int64 // offset of the stretch before
	after       int64 // offset of the stretch after
}

// dstRules returns the rules of a policy for fixed times in a gap and in a repeated hour; strict means that
// they hold with * in minute or hour as well.
func (d DST) dstRules() (gap, repeat string, strict, ok bool) {
	switch d {
	case Vixie:
		return "next", "first", false, true
	case Naive:
		return "skip", "both", true, true
	case SkipOnce:
		return "skip", "first", true, true
	case Shift:
		return "shift", "first", true, true
	}
	gap, repeat, _ = strings.Cut(string(d), ",")
	ok = (gap == "next" || gap == "skip" || gap == "shift") &&
		(repeat == "first" || repeat == "second" || repeat == "both")
	return gap, repeat, false, ok
}

func (c *cron) newWalker(policy DST) *walker {
	gap, repeat, strict, _ := policy.dstRules()
	if c.wild && !strict {
		gap, repeat = "skip", "both"
	}
	return &walker{cron: c, gap: gap, repeat: repeat}
}

// far stands for the ends of time in seconds: beyond any year of four digits.
const far = 1 << 40

// findStretch finds the stretch that an instant lies in.
func (w *walker) findStretch(at int64) {
	if w.from <= at && at < w.until {
		return
	}
	t := time.Unix(at, 0).In(w.loc)
	_, offset := t.Zone()
	start, end := t.ZoneBounds()
	w.from, w.until, w.offset, w.before, w.after = -far, far, int64(offset), int64(offset), int64(offset)
	if !end.IsZero() {
		if w.until = end.Unix(); w.until <= at { // behind its tables package time lets a leap year end a day early
			w.until = at - at%86400 + 86400
			end = time.Unix(w.until, 0)
		}
		_, after := end.In(w.loc).Zone()
		w.after = int64(after)
	}
	if !start.IsZero() {
		w.from = start.Unix()
		_, before := start.Add(-time.Second).In(w.loc).Zone()
		w.before = int64(before)
	}
}

// yieldMinute calls yield with the seconds of the minute that begins at an instant at which the expression is
// due, in order. It is false if yield was.
func (w *walker) yieldMinute(at int64, yield func(at int64) bool) bool {
	w.findStretch(at)
	var due set
	if !w.otherPass(at) && w.matchesWall(at+w.offset) {
		due = w.second
	}
	if gap := w.offset - w.before; gap > 0 && w.from <= at && at < w.from+gap {
		switch {
		case w.gap == "next" && at == w.from:
			// A skipped time is due now, once.
			for wall := at + w.before; wall < at+w.offset && !due[0]; wall += 60 {
				due[0] = w.matchesWall(wall)
			}
		case w.gap == "shift" && w.matchesWall(at+w.before):
			for s, on := range w.second {
				due[s] = due[s] || on
			}
		}
	}
	for s, on := range due {
		if on && !yield(at+int64(s)) {
			return false
		}
	}
	return true
}

// otherPass reports whether the clocks show this minute twice and the policy wants the other time.
func (w *walker) otherPass(at int64) bool {
	switch w.repeat {
	case "first":
		back := w.before - w.offset
		return back > 0 && at < w.from+back
	case "second":
		back := w.offset - w.after
		return back > 0 && at >= w.until-back
	}
	return false
}

// matchesWall reports whether a wall time's minute is one of those meant. Walls are counted in seconds as if
// they stood in UTC.
func (w *walker) matchesWall(wall int64) bool {
	m := positiveMod(wall, 86400) / 60
	if !w.cron.minute[m%60] || !w.hour[m/60] {
		return false
	}
	t := time.Unix(wall, 0).UTC()
	if !w.month[t.Month()] {
		return false
	}
	day, weekday := w.day[t.Day()], w.weekday[t.Weekday()]
	if w.bothDays {
		return day && weekday
	}
	return day || weekday
}

func positiveMod(a, b int64) int64 { return ((a % b) + b) % b }

// timesBetween returns the times from one to another, both included, at most so many.
func (c *cron) timesBetween(policy DST, from, to Time, most int) []Time {
	const second = Time(time.Second / time.Microsecond)
	w := c.newWalker(policy)
	var out []Time
	at := int64(from / second)
	for at -= positiveMod(at, 60); Time(at)*second <= to; at += 60 {
		if !w.yieldMinute(at, func(due int64) bool {
			if t := Time(due) * second; from <= t && t <= to {
				out = append(out, t)
			}
			return len(out) < most
		}) {
			break
		}
	}
	return out
}
