package rouse

import "cmp"

// CutOff returns the records of what ends at now because its timer does: the occurrence in progress, the
// requested runs, and what is due and has not begun. what is how the timer ends, such as "deleted". An
// occurrence that came due in a pause is recorded as skipped by that. out is the occurrence of which an
// attempt is out, nil for none: it is recorded when that ends. s is the timer's schedule; without it, only
// the first one that is due is recorded. A row next to its timer is in progress.
func (t *Timer) CutOff(now Instant, s Schedule, out *Occurrence, c Cause, what string) (log []Record) {
	end := func(occ Occurrence, detail, when string) {
		if out == nil || occ.Due != out.Due || occ.Manual != out.Manual {
			log = append(log, t.Ending(occ, Outcome{Verdict: Failed, Detail: detail}, 0, now, c, what+when))
		}
	}
	const during, before = " while it was being tried", " before it was sent"
	current, ok := t.Current()
	if ok = ok && (t.Attempts != 0 || t.Key.Fire != ""); ok {
		current.Attempt = t.Attempts
		end(current, t.LastError, during)
	}
	if t.Key.Fire != "" {
		return log
	}
	idle := Timer{Key: t.Key, Generation: t.Generation, Spec: t.Spec}
	for _, due := range t.Runs {
		if ok && current.Manual && current.Due == due {
			continue
		}
		if run := (Occurrence{Due: due, Manual: true}); out == nil || run.Due != out.Due || !out.Manual {
			log = append(log, idle.Ending(run, Outcome{Verdict: Failed}, 0, now, c, what+before))
		}
	}
	rest := *t
	rest.Waits = nil
	w := walk{t: &rest, now: now, s: s}
	if ok && !current.Manual || out != nil && !out.Manual && out.Due == t.Due {
		rest.Due = w.following(t.Due, t.Passed+1)
		rest.Passed++
	}
	if t.Paused {
		rest.remember(Span{cmp.Or(t.PausedAt, MinInstant), min(now, t.pauseEnds())})
	}
	return append(log, w.pass(now, func(cur, _ Instant) why {
		switch {
		case cur > now:
			return why{}
		case w.inPause(cur):
			return paused
		}
		return why{ending: EndSkipped, text: what + before, cause: c}
	})...)
}
