package rouse

import (
	"bytes"
	"fmt"
	"maps"
)

// Rewriting holds the arguments of Timer.Rewrite other than the spec.
type Rewriting struct {
	Sure, Now Instant     // as of NewTimer
	Bucket    uint32      // of the timer with the new spec
	LimitKey  string      // of the timer with the new spec
	Old       Schedule    // of the timer as it is; nil if it cannot be compiled
	New       Schedule    // of the new spec, anchored at Anchor
	Anchor    Instant     // Now, or the anchor that the timer has
	Restart   bool        // the new schedule begins even if it is the old one
	CutOff    func() Step // ends the occurrences of the old generation
}

// Rewritten is the result of Timer.Rewrite.
type Rewritten struct {
	Step
	Unchanged bool     // nothing differs, so that nothing is to be written
	Notes     []string // state that could not be kept, for people
}

// Rewrite gives a timer another spec, and loses nothing that is due.
//
// If the due times are the same, all of its state stays: its generation, the phase of its intervals, a pause,
// skips, waiting runs, and the occurrence that is due or in progress, with its attempts. The attempts that
// follow have the new spec. Otherwise a new generation begins, as NewTimer makes it, with the old one's
// pause, unless that was because of the schedule, and counts; occurrences that were due and have not ended
// are recorded (Timer.CutOff).
func (t *Timer) Rewrite(spec Spec, w Rewriting) (Rewritten, error) {
	readable := t.PauseCause != PauseUnreadable || !t.Paused
	if !w.Restart && readable && w.Bucket == t.Bucket && sameTimes(t, &spec, w.Old, w.New) {
		return amendSpec(t, spec, &w)
	}
	to, err := NewTimer(t.Key, spec, w.Sure, w.Now, w.New)
	if err != nil {
		return Rewritten{}, err
	}
	to.Bucket, to.LimitKey, to.Anchor = w.Bucket, w.LimitKey, w.Anchor
	var r Rewritten
	if readable {
		to.Created = t.Created
		to.Ended, to.Fired, to.Dead, to.Missed = t.Ended, t.Fired, t.Dead, t.Missed
		if spec.Expect.Any() {
			to.Succeeded, to.Overdue = t.Succeeded, t.Overdue
		}
		to.Notices = t.Notices
		if t.Paused && t.PauseCause <= PauseDeadLetters { // another schedule is the cure of the others
			to.pauseAs(t)
			to.PausedAt = w.Now
			to.Visible = to.nextAttention(w.Now)
		}
		r.Step = w.CutOff()
		r.Notes = droppedNotes(t, r.Log)
	}
	r.To = &to
	return r, nil
}

// amendSpec gives a timer another spec with the same due times.
func amendSpec(t *Timer, spec Spec, w *Rewriting) (r Rewritten, err error) {
	if t.Spec.isStoredAlike(&spec) {
		return Rewritten{Step: Step{Keep: true}, Unchanged: true}, nil
	}
	now := w.Now
	if first, ok := w.New.Next(now); ok && (spec.Jitter != t.Spec.Jitter || spec.Retry != t.Spec.Retry ||
		spec.Overlap != t.Spec.Overlap) {
		if err := spec.CheckIntervals(first, w.New); err != nil {
			return r, err
		}
	}
	to := *t
	to.Spec, to.LimitKey, to.Updated = spec, w.LimitKey, max(now, t.Updated)
	if !spec.HasWhenOf(&t.Spec) { // the same instant in other words, which may count from here
		to.Anchor = w.Anchor
	}
	if spec.Target != t.Spec.Target { // its receivers are others
		to.Lost = 0
	}
	switch {
	case !spec.Expect.Any():
		to.Succeeded, to.ExpectFrom, to.Overdue = 0, 0, 0
	case !t.Spec.Expect.Any():
		to.ExpectFrom = now
	}
	switch {
	case t.Over():
		if to.keepEnded(now); spec.Keep == 0 {
			to.Visible = now
		} else if spec.Keep == t.Spec.Keep {
			to.Visible = t.Visible
		}
		r.Notes = []string{"its schedule has ended, so that nothing more is due: run it, or give it another schedule"}
	case t.Attempts == 0 && (spec.Target != t.Spec.Target || spec.Jitter != t.Spec.Jitter): // its delay may not hold for the new one
		to.Visible = to.nextAttention(now)
	}
	r.To = &to
	return r, nil
}

// sameTimes reports whether a spec is due when a timer is. One instant may be written in several ways, also
// relative to the write.
func sameTimes(t *Timer, spec *Spec, old, new Schedule) bool {
	if t.Spec.IsCheck() != spec.IsCheck() { // what is due of a check is never sent
		return false
	}
	if spec.Recurring() || t.Spec.Recurring() {
		return spec.HasWhenOf(&t.Spec)
	}
	if old == nil || new == nil {
		return false
	}
	first, ok := old.Next(0)
	other, also := new.Next(0)
	return ok && also && first == other
}

// HasWhenOf reports whether a spec has the same schedule, calendars and bounds as another one (SetWhen). The
// jitter is no part of due times.
func (s *Spec) HasWhenOf(o *Spec) bool {
	var a, b Spec
	a.SetWhen(s)
	b.SetWhen(o)
	a.Jitter = b.Jitter
	return a.isStoredAlike(&b)
}

// isStoredAlike reports whether two specs are stored alike.
func (s *Spec) isStoredAlike(o *Spec) bool {
	a, b := Timer{Spec: *s}, Timer{Spec: *o}
	return bytes.Equal(a.appendBody(nil), b.appendBody(nil)) && maps.Equal(s.Labels, o.Labels)
}

// droppedNotes returns notes about the state of a timer that another schedule drops.
func droppedNotes(t *Timer, log []Record) (notes []string) {
	var n uint64
	for i := range log {
		n += uint64(max(1, log[i].Count))
	}
	if n > 0 {
		notes = append(notes, fmt.Sprintf("%d of its occurrences and runs that were due ended as skipped", n))
	}
	if t.Skips > 0 {
		notes = append(notes, fmt.Sprintf("%d skips that were asked for the old schedule are dropped", t.Skips))
	}
	return notes
}
