package history

import "time"

// walker steps through real time by the minute, and knows the offset of the wall clock there.
type walker struct {
	*cron
	policy DST

	from, until int64 // the stretch with this offset, in seconds; 0, 0 before the first step
	offset      int64
	before      int64 // offset of the stretch before
}

// far stands for the ends of time in seconds: beyond any year of four digits.
const far = 1 << 40

// look finds the stretch that an instant lies in.
func (w *walker) look(at int64) {
	if w.from <= at && at < w.until {
		return
	}
	t := time.Unix(at, 0).In(w.loc)
	_, offset := t.Zone()
	start, end := t.ZoneBounds()
	w.from, w.until, w.offset, w.before = -far, far, int64(offset), int64(offset)
	if !end.IsZero() {
		w.until = end.Unix()
	}
	if !start.IsZero() {
		w.from = start.Unix()
		_, before := start.Add(-time.Second).In(w.loc).Zone()
		w.before = int64(before)
	}
}

// minute calls yield with the seconds of the minute that begins at an instant at which the expression is due, in order. It is
// false if yield was.
func (w *walker) minute(at int64, yield func(at int64) bool) bool {
	w.look(at)
	var due set
	if !w.repeated(at) && w.matches(at+w.offset) {
		due = w.second
	}
	if gap := w.offset - w.before; gap > 0 && w.from <= at && at < w.from+gap {
		switch {
		case w.policy == Vixie && !w.wild && at == w.from:
			// What was skipped is due now, once.
			for wall := at + w.before; wall < at+w.offset && !due[0]; wall += 60 {
				due[0] = w.matches(wall)
			}
		case w.policy == Shift && w.matches(at+w.before):
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

// repeated says whether the clocks have shown this minute before and the policy wants it once.
func (w *walker) repeated(at int64) bool {
	if w.policy == Naive || w.policy == Vixie && w.wild {
		return false
	}
	back := w.before - w.offset
	return back > 0 && at < w.from+back
}

// matches says whether a wall time's minute is one of those meant. Walls are counted in seconds as if they stood in UTC.
func (w *walker) matches(wall int64) bool {
	m := mod(wall, 86400) / 60
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

func mod(a, b int64) int64 { return ((a % b) + b) % b }

// between returns the times from one to another, both included, at most so many.
func (c *cron) between(policy DST, from, to Time, most int) []Time {
	const second = Time(time.Second / time.Microsecond)
	w := &walker{cron: c, policy: policy}
	var out []Time
	at := int64(from / second)
	for at -= mod(at, 60); Time(at)*second <= to; at += 60 {
		if !w.minute(at, func(due int64) bool {
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
