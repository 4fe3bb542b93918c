package rouse

import "time"

// Misfired reports whether, at now, the misfire policy or the deadline ends the next scheduled occurrence
// without an attempt, so that CatchUp would change the timer.
func (t *Timer) Misfired(now Instant, s Schedule) bool {
	if inProgress(t) || len(t.Runs) > 0 || t.Paused || t.Asked || t.Due > now {
		return false
	}
	w := walk{t: t, now: now, s: s}
	return w.givenUpReason(t.Due, w.unskippedDue(w.dueAfter(t.Due, t.Passed+1))) != ""
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
	return walk{t: &to, now: now, s: s}.stepToWaiting(nil)
}

// givenUpReason returns why the occurrence cur, with next after it, is ended without an attempt at now; empty
// if it is not.
func (w walk) givenUpReason(cur, next Instant) string {
	late := w.now.Sub(w.t.SentAt(cur))
	switch {
	case w.t.Spec.Misfire == MisfireLatest && next <= w.now,
		w.t.Spec.Misfire == MisfireSkip && (next <= w.now || late > MisfireGrace),
		w.t.Spec.Misfire == MisfireWithin && late > w.t.Spec.Within:
		return "misfire policy " + w.t.Spec.MisfireText()
	case w.t.Spec.Deadline != 0 && late > w.t.Spec.Deadline:
		return "deadline of " + w.t.Spec.Deadline.String() + " passed"
	}
	return ""
}

// catchUp moves Due past the occurrences that came due in a pause, or that the misfire policy or the deadline
// ends, and returns their records.
func (w walk) catchUp() []Record {
	// near is before all occurrences that may be kept: too many to count are jumped over up to there.
	near := w.now
	if w.t.Spec.Misfire == MisfireWithin {
		near = w.now.Add(-w.t.Spec.Within - w.t.Spec.Jitter)
	} else if w.t.Spec.Misfire == MisfireAll {
		near = w.now.Add(-w.t.Spec.Deadline - w.t.Spec.Jitter)
	}
	first, skips := w.t.Due, w.t.Skips > 0
	log := w.passGivenUp(near, func(cur, next Instant) why {
		switch {
		case skips && cur != first: // the first one may have been out when they were asked for
			return why{}
		case w.inPause(cur):
			return paused
		}
		return w.whyMissed(cur, w.unskippedDue(next))
	})
	if !skips || w.t.Due == first {
		return log
	}
	log = append(log, w.passSkips()...)
	return append(log, w.catchUp()...)
}

// whyMissed returns why the misfire policy or the deadline ends the occurrence cur; next is the first one
// after it that no pause skips.
func (w walk) whyMissed(cur, next Instant) why {
	if cur > w.now {
		return why{}
	}
	text := w.givenUpReason(cur, next)
	if text == "" {
		return why{}
	}
	cause, other := w.lateCause(cur)
	return why{EndMissed, text, cause, other}
}
