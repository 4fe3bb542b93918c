package rouse

import (
	"cmp"
	"slices"
)

// cutFire ends the Fire of the keys of rows that CutLater returns. No fire id has a control character.
const cutFire = "\x01cut"

// CutLater returns the row that records at a time how an occurrence ended with its timer, or with the row
// next to one that t is, unless its own record is there by then: an attempt of it may be out with another
// node.
func CutLater(t *Timer, occ Occurrence, at Instant, c Cause, what string) Timer {
	row := Timer{Key: Key{t.Key.Namespace, t.Key.Name,
		FireID(t.Key.Namespace, t.Key.Name, t.Generation, occ.Due, occ.Manual) + cutFire},
		Bucket: t.Bucket, Generation: t.Generation, Spec: Spec{Target: t.Spec.Target}, Created: t.Created, Updated: t.Updated,
		Due: occ.Due, Manual: occ.Manual, Asked: t.Asked, Visible: at, Cut: c, Reason: what + " while it may have been sent"}
	if occ.Manual == t.Manual {
		row.Attempts, row.Began, row.LastError, row.Failures = t.Attempts, t.Began, t.LastError, t.Failures
	}
	return row
}

// CutStep is the step of a row of CutLater whose time has come.
func CutStep(t *Timer, now Instant, _ Schedule) Step {
	return Step{Log: []Record{t.Ending(Occurrence{t.Due, t.Manual, t.Attempts},
		Outcome{Verdict: Failed, Detail: t.LastError}, 0, now, t.Cut, t.Reason)}}
}

// CutOff returns the records of the occurrences that end at now because their timer does: the one in
// progress, the requested runs, and those that are due and have not begun. what is how the timer ends, such
// as "deleted". An occurrence that came due in a pause is recorded as skipped by that. out are occurrences of
// which an attempt may be out: they are recorded when that ends. s is the timer's schedule; without it, only
// the first one that is due is recorded. A row next to its timer is in progress.
func (t *Timer) CutOff(now Instant, s Schedule, out []Occurrence, c Cause, what string) (log []Record) {
	isOut := func(due Instant, manual bool) bool {
		return slices.ContainsFunc(out, func(o Occurrence) bool { return o.Due == due && o.Manual == manual })
	}
	// A process that died after it had sent the occurrence, and before it wrote the outcome, has recorded
	// nothing.
	const during, before = " while it was being tried", " before an attempt of it was recorded"
	current, ok := t.Current()
	if ok = ok && (t.Attempts != 0 || t.Key.Fire != ""); ok {
		if current.Attempt = t.Attempts; !isOut(current.Due, current.Manual) {
			log = append(log, t.Ending(current, Outcome{Verdict: Failed, Detail: t.LastError}, 0, now, c, what+during))
		}
	}
	if t.Key.Fire != "" {
		return log
	}
	idle := Timer{Key: t.Key, Generation: t.Generation, Spec: t.Spec}
	for _, due := range t.Runs {
		if !isOut(due, true) && !(ok && current.Manual && current.Due == due) {
			log = append(log, idle.Ending(Occurrence{Due: due, Manual: true}, Outcome{Verdict: Failed}, 0, now, c, what+before))
		}
	}
	if t.Spec.IsCheck() { // nothing of it is due to be sent
		return log
	}
	rest := *t
	rest.Waits = nil
	w := walk{t: &rest, now: now, s: s}
	if ok && !current.Manual || isOut(t.Due, false) {
		rest.Due = w.dueAfter(t.Due, t.Passed+1)
		rest.Passed++
	}
	if t.Paused {
		w.rememberPause(Span{cmp.Or(t.PausedAt, MinInstant), min(now, t.pauseEnds())})
	}
	return append(log, w.passGivenUp(now, func(cur, _ Instant) why {
		switch {
		case cur > now:
			return why{}
		case w.inPause(cur):
			return paused
		}
		return why{ending: EndSkipped, text: what + before, cause: c}
	})...)
}
