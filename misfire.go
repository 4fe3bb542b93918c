package rouse

import "time"

// Misfired reports whether, at now, the misfire policy or the deadline gives up the scheduled occurrence that
// is next, so that CatchUp would change the timer.
func (t *Timer) Misfired(now Instant, s Schedule) bool {
	if t.Attempts != 0 || t.Began != 0 || len(t.Runs) > 0 || t.Paused || t.Asked || t.Due > now {
		return false
	}
	return t.gone(now, t.Due, t.following(t.Due, t.Passed+1, s)) != ""
}

// CanMisfire reports whether Misfired can hold for a timer whose next occurrence is late by so much. The
// check is cheap and needs no schedule.
func (t *Timer) CanMisfire(late time.Duration) bool {
	return late > time.Second && (t.Spec.Misfire != MisfireAll && t.Spec.Recurring() || t.Spec.Misfire >= MisfireSkip) ||
		t.Spec.Deadline != 0 && late > t.Spec.Deadline
}

// CatchUp applies the misfire policy and the deadline to a timer for which Misfired holds.
func (t *Timer) CatchUp(now Instant, s Schedule) Step {
	to := *t
	return to.settled(now, s, nil, streak{})
}

// gone returns why the occurrence cur, with next after it, is given up at now; empty if it is not.
func (t *Timer) gone(now, cur, next Instant) string {
	late := now.Sub(t.SentAt(cur))
	switch {
	case t.Spec.Misfire == MisfireLatest && next <= now,
		t.Spec.Misfire == MisfireSkip && (next <= now || late > MisfireGrace),
		t.Spec.Misfire == MisfireWithin && late > t.Spec.Within:
		return "misfire policy " + t.Spec.MisfireText()
	case t.Spec.Deadline != 0 && late > t.Spec.Deadline:
		return "deadline of " + t.Spec.Deadline.String() + " passed"
	}
	return ""
}

// catchUp moves Due past the occurrences that the misfire policy or the deadline gives up, and returns their records.
func (t *Timer) catchUp(now Instant, s Schedule, b streak) []Record {
	// near is before all occurrences that may be kept: too many to count are jumped over up to there.
	near := now
	if t.Spec.Misfire == MisfireWithin {
		near = now.Add(-t.Spec.Within - t.Spec.Jitter)
	} else if t.Spec.Misfire == MisfireAll {
		near = now.Add(-t.Spec.Deadline - t.Spec.Jitter)
	}
	return t.pass(now, near, EndMissed, s, b, func(cur, next Instant) (why why) {
		if cur > now {
			return why
		}
		if why.text = t.gone(now, cur, next); why.text != "" {
			why.cause, why.other = t.late(cur, now, b)
		}
		return why
	})
}

// why is why an occurrence is given up; the zero why keeps it.
type why struct {
	text  string
	cause Cause
	other Occurrence // of CauseOverlapped
}

// pass moves Due past the occurrences for which gone returns a cause, and returns their records: one for each
// run with the same reason. All occurrences before near are given up, so that it can jump over them if they
// are too many to count.
func (t *Timer) pass(now, near Instant, e Ending, s Schedule, b streak, gone func(cur, next Instant) why) []Record {
	var log []Record
	var last why
	jumped := false
	for n := 0; t.Due != Never && t.Due != UnknownDue; {
		enough := exhausted(s)
		if enough && len(log) > 0 && (t.Spec.MaxOccurrences != 0 || near == 0) {
			break
		}
		next := t.following(t.Due, t.Passed+1, s)
		why := gone(t.Due, next)
		if why.text == "" {
			break
		}
		if len(log) == 0 || why != last {
			log = append(log, Record{Namespace: t.Key.Namespace, Name: t.Key.Name, Generation: t.Generation, Ending: e, Cause: why.cause,
				Other: why.other.Due, OtherManual: why.other.Manual, Due: t.Due, Reason: why.text, Ended: now})
			n, last, jumped = 0, why, false
		}
		run := &log[len(log)-1]
		run.LastDue = t.Due
		if n < missedCount && !enough || t.Spec.MaxOccurrences != 0 {
			n++
			run.Count = uint32(n)
			t.Passed++
			t.Ended++
			if e == EndMissed {
				t.Missed++
			}
			if more, until := t.countUntil(next, near, s, b, func(cur, next Instant) bool { return gone(cur, next) == why }); more > 0 {
				counted := min(more, uint64(max(missedCount-n, 0)))
				n += int(counted)
				t.Passed, t.Ended, run.LastDue = t.Passed+counted, t.Ended+counted, until
				if e == EndMissed {
					t.Missed += counted
				}
				if run.Count = uint32(n); counted < more {
					run.Count, jumped = 0, true
				}
				next = t.following(until, t.Passed+1, s)
			}
		} else if !jumped {
			run.Count, jumped = 0, true
			if next != Never {
				next = jump(next, near, s)
			}
		}
		t.Due = next
	}
	return log
}

// countUntil counts the occurrences from next on that are given up alike and are followed by another one not after near, where the
// schedule can count them, and returns the last of them. alike reports whether one is, with the one after it.
func (t *Timer) countUntil(next, near Instant, s Schedule, b streak, alike func(cur, next Instant) bool) (n uint64, last Instant) {
	c, ok := s.(Counted)
	if !ok || t.Spec.MaxOccurrences != 0 {
		return 0, 0
	}
	for _, change := range t.changes(b) { // between two changes, those that are given up for one reason are in a row
		if change >= next {
			near = min(near, change)
		}
	}
	for next < near {
		all, end, ok := c.Between(next-1, near)
		if !ok || all < 2 {
			return 0, 0
		}
		if n, last, _ = c.Between(next-1, end-1); alike(last, end) {
			return n, last
		}
		near = next + (last-next)/2
	}
	return 0, 0
}

// changes are the times at which the reason for giving up occurrences changes.
func (t *Timer) changes(b streak) []Instant {
	list := []Instant{b.From - 1}
	for _, w := range t.Waits {
		list = append(list, w.From-1, w.To)
	}
	return list
}

// jump returns the last occurrence but one that is due at near or before, so that the last is looked at as any other; cur if there is
// none after it.
func jump(cur, near Instant, s Schedule) Instant {
	last, ok := lastUntil(cur, near, s)
	if !ok {
		return cur
	}
	if before, ok := lastUntil(cur, last-1, s); ok {
		return before
	}
	return cur
}

// lastUntil returns the last occurrence after cur that is not after until, by halves.
func lastUntil(cur, until Instant, s Schedule) (last Instant, ok bool) {
	last, ok = s.Next(cur)
	if !ok || last > until {
		return 0, false
	}
	for end := until + 1; end-last > 1; {
		middle := last + (end-last)/2
		if n, ok := s.Next(middle - 1); ok && n <= until {
			last = n
		} else {
			end = middle
		}
	}
	return last, true
}
