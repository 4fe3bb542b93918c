package rouse

import "fmt"

// SkipOverLimit skips the due occurrences of a timer that has its maximum of occurrences in progress. The
// timer needs attention again at again.
func (t *Timer) SkipOverLimit(most int, now, again Instant, s Schedule) Step {
	to := *t
	w := walk{t: &to, now: now, s: s}
	limit := why{ending: EndSkipped, text: fmt.Sprintf("overlap: %d earlier occurrences were in progress", most),
		cause: CauseOverlapLimit}
	log := w.passGivenUp(now, func(cur, _ Instant) why {
		switch {
		case cur > now:
			return why{}
		case w.inPause(cur):
			return paused
		}
		return limit
	})
	if t.Due != to.Due { // those to be skipped come after the ones that were due
		log = append(log, w.passSkips()...)
	}
	step := w.stepToWaiting(log)
	if step.To != nil && step.To.Visible != Never {
		step.To.Visible = max(step.To.Visible, again)
	}
	return step
}

// Detach splits the scheduled occurrence that is due from its timer, which continues with the next one: under
// OverlapAllow occurrences do not wait for each other. The occurrence becomes a row next to the timer, keyed
// by its fire id.
func (t *Timer) Detach(now Instant, s Schedule) Step {
	side := t.detachedRow(t.Due, now)
	side.Waits = t.Waits
	to := *t
	w := walk{t: &to, now: now, s: s}
	log := w.leaveDue()
	to.Ended++
	if to.Due > now {
		to.Waits = nil
	}
	step := w.stepToWaiting(log)
	step.Detached = &side
	return step
}

// detachedRow returns the row of an occurrence that is separate from its timer, due for attention at now.
func (t *Timer) detachedRow(due, now Instant) Timer {
	side := *t
	side.Key.Fire = FireID(t.Key.Namespace, t.Key.Name, t.Generation, due, false)
	side.Due, side.Runs, side.Skips = due, nil, 0
	side.clearPause()
	side.Attempts, side.Manual, side.Token, side.Lost, side.Began, side.LastError, side.Failures = 0, false, 0,
		0, 0, "", nil
	side.Live, side.Asked, side.Waits, side.Backlog, side.Pauses = true, false, nil, Span{}, nil
	side.Visible, side.Updated = now, now
	return side
}
