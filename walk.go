package rouse

import "slices"

// Budgeted is a schedule whose evaluation has a budget of steps. When the budget is exhausted, occurrences
// are skipped over without being counted where the policy allows; otherwise a later step continues.
type Budgeted interface{ Exhausted() bool }

func isOutOfBudget(s Schedule) bool {
	t, ok := s.(Budgeted)
	return ok && t.Exhausted()
}

// missedCount bounds how many missed occurrences are counted one by one before a run's count is left open
// (0).
const missedCount = 100_000

// walk moves a timer along its schedule at one time: past the occurrence that has ended, and past those that
// are given up.
type walk struct {
	t   *Timer
	now Instant
	s   Schedule
	b   streak // in which occurrences of the timer were in progress until now
}

// dueAfter returns the due time after cur, the passed-th of the schedule; Never if none follows.
func (w walk) dueAfter(cur Instant, passed uint64) Instant {
	if w.s == nil || w.t.Key.Fire != "" || !w.t.Spec.Recurring() ||
		w.t.Spec.MaxOccurrences != 0 && passed >= w.t.Spec.MaxOccurrences {
		return Never
	}
	next, ok, steps := Look(w.s, cur)
	switch {
	case ok:
		return next
	case steps > MaxScheduleSteps:
		return UnknownDue
	}
	return Never
}

// leaveDue moves Due past its occurrence, which has ended or is detached, then past those that are to be
// skipped and those that came due in a pause, and returns their records.
func (w walk) leaveDue() []Record {
	t := w.t
	t.Due = w.dueAfter(t.Due, t.Passed+1)
	t.Passed++
	return append(w.passSkips(), w.passPauses()...)
}

// passSkips skips the next occurrences if they are to be skipped.
func (w walk) passSkips() []Record {
	if w.t.Skips == 0 {
		return nil
	}
	return w.skipNext(&w.t.Skips, "asked for")
}

// stepToWaiting returns the step to a timer with no attempt in progress, after applying the misfire policy.
func (w walk) stepToWaiting(log []Record) Step {
	t := w.t
	if !t.Paused && t.Due < w.now {
		log = append(log, w.catchUp()...)
	}
	t.Pauses = slices.DeleteFunc(slices.Clone(t.Pauses), func(p Span) bool { return p.To < t.Due })
	switch {
	case t.Due == UnknownDue && !t.Paused:
		t.stopUnknown(w.now, w.s)
	case t.Due == Never && w.lacksDays():
		w.awaitCalendar()
	}
	if t.Over() {
		if t.Spec.Keep == 0 || t.Key.Fire != "" {
			return Step{Log: log}
		}
		t.keepEnded(w.now)
		return Step{To: t, Log: log}
	}
	t.Visible = t.nextAttention(w.now)
	return Step{To: t, Log: log}
}

// lacksDays reports whether it is its calendars that leave the timer no occurrence: its maximum of
// occurrences is not reached, and its schedule would have times to come if every day counted.
func (w walk) lacksDays() bool {
	all, most := w.everyDay(), w.t.Spec.MaxOccurrences
	if all == nil || w.t.Key.Fire != "" || most != 0 && w.t.Passed >= most {
		return false
	}
	_, ok, steps := Look(all, w.now)
	return ok || steps > MaxScheduleSteps
}

// everyDay returns the timer's schedule as it would be if every day counted; nil if it has no calendars.
func (w walk) everyDay() Schedule {
	if c, ok := w.s.(Calendared); ok {
		return c.EveryDay()
	}
	return nil
}

// awaitCalendar lets a timer without a next occurrence wait until one of its calendars changes (Replan), or
// until no change can give it one.
func (w walk) awaitCalendar() {
	t := w.t
	t.Due = UnknownDue
	if t.Paused && t.PauseCause != PauseCalendar {
		return // when that pause ends, it waits for its calendars if they are the same
	}
	t.pauseItself(PauseCalendar, w.now,
		"its calendars leave no day for it: change them, or replace the timer or reschedule it")
	all, far := w.everyDay(), MaxInstant/2
	if _, endless := all.Next(far); endless {
		return
	}
	if last, ok := lastUntil(w.now, far, all); ok {
		t.Until = last
	}
}

// MaxPauses bounds the pauses that a timer remembers: occurrences due in older ones are late, not skipped.
const MaxPauses = 8

// PausedUntil returns the pause of which only the end is known, as earlier versions kept it: occurrences due
// until then are skipped when the occurrence in progress has ended.
func PausedUntil(to Instant) []Span { return []Span{{MinInstant, to}} }

// rememberPause keeps a pause that is over until the occurrences that came due in it have had their turn.
func (w walk) rememberPause(pause Span) {
	t := w.t
	if !t.Spec.Recurring() || t.Due > pause.To || pause.To <= pause.From {
		return
	}
	list := append(slices.Clip(t.Pauses), pause)
	t.Pauses = list[max(0, len(list)-MaxPauses):]
}

// paused is why an occurrence ends that came due in a pause.
var paused = why{ending: EndSkipped, text: "paused", cause: CausePaused}

// inPause reports whether an occurrence came due in a pause that is over.
func (w walk) inPause(due Instant) bool {
	_, in := w.pauseOf(due)
	return in
}

func (w walk) pauseOf(due Instant) (pause Span, in bool) {
	for _, p := range w.t.Pauses {
		if p.From < due && due <= p.To {
			return p, true
		}
	}
	return Span{}, false
}

// unskippedDue returns due, which follows the timer's next occurrence, or the first one after it that is
// neither to be skipped nor came due in a pause.
func (w walk) unskippedDue(due Instant) Instant {
	passed := w.t.Passed + 1
	for n := w.t.Skips; n > 0 && due <= w.now; n-- {
		passed++
		due = w.dueAfter(due, passed)
	}
	for due < UnknownDue {
		pause, in := w.pauseOf(due)
		if !in {
			break
		}
		if w.t.Spec.MaxOccurrences != 0 { // each counts
			passed++
			due = w.dueAfter(due, passed)
			continue
		}
		due = w.dueAfter(pause.To, passed)
	}
	return due
}

// passPauses skips the next occurrences as long as they came due in a pause.
func (w walk) passPauses() []Record {
	if len(w.t.Pauses) == 0 {
		return nil
	}
	return w.passGivenUp(w.t.Pauses[len(w.t.Pauses)-1].To, func(cur, _ Instant) why {
		if w.inPause(cur) {
			return paused
		}
		return why{}
	})
}

// lateCause returns why an occurrence is ended without an attempt: another one was in progress at its due
// time, or else its longest wait.
func (w walk) lateCause(due Instant) (c Cause, other Occurrence) {
	c = CauseBacklog
	var longest Instant
	during := w.b.From != 0 && due >= w.b.From
	for _, wait := range w.t.Waits {
		if during && (due < wait.From || due > wait.To) {
			continue // it did not keep the occurrence from beginning when it was due
		}
		if d := min(wait.To, w.now) - max(wait.From, due); d > longest || d == longest && c == CauseBacklog {
			c, longest = wait.Cause, d
		}
	}
	if during && c == CauseBacklog {
		return CauseOverlapped, w.b.occ
	}
	return c, other
}

// why is why an occurrence is given up; the zero why keeps it.
type why struct {
	ending Ending
	text   string
	cause  Cause
	other  Occurrence // of CauseOverlapped
}

// passGivenUp moves Due past the occurrences for which gone returns a cause, and returns their records: one
// for each run with the same reason. Those before near are ended for one reason between two of the times of
// changes, so that it can jump over them if they are too many to count.
func (w walk) passGivenUp(near Instant, gone func(cur, next Instant) why) []Record {
	t := w.t
	var log []Record
	var last why
	jumped := false
	for n := 0; t.Due != Never && t.Due != UnknownDue; {
		enough := isOutOfBudget(w.s)
		if enough && len(log) > 0 && (t.Spec.MaxOccurrences != 0 || near == 0) {
			break
		}
		next := w.dueAfter(t.Due, t.Passed+1)
		why := gone(t.Due, next)
		if why.text == "" {
			break
		}
		if len(log) == 0 || why != last {
			log = append(log, Record{Namespace: t.Key.Namespace, Name: t.Key.Name, Generation: t.Generation, Ending: why.ending,
				Cause: why.cause,
				Other: why.other.Due, OtherManual: why.other.Manual, Due: t.Due, Reason: why.text, Target: t.Spec.Target,
				Ended: w.now})
			n, last, jumped = 0, why, false
		}
		run := &log[len(log)-1]
		run.LastDue = t.Due
		if n < missedCount && !enough || t.Spec.MaxOccurrences != 0 {
			n++
			run.Count = uint32(n)
			t.Passed++
			t.Ended++
			if why.ending == EndMissed {
				t.Missed++
			}
			if more, until := w.countUntil(next, w.nextChange(next, near),
				func(cur, next Instant) bool { return gone(cur, next) == why }); more > 0 {
				counted := min(more, uint64(max(missedCount-n, 0)))
				n += int(counted)
				t.Passed, t.Ended, run.LastDue = t.Passed+counted, t.Ended+counted, until
				if why.ending == EndMissed {
					t.Missed += counted
				}
				if run.Count = uint32(n); counted < more {
					run.Count, jumped = 0, true
				}
				next = w.dueAfter(until, t.Passed+1)
			}
		} else if !jumped {
			run.Count, jumped = 0, true
			if next != Never {
				if to := jumpNear(next, w.nextChange(next, near), w.s); to != next &&
					gone(next, w.dueAfter(next, t.Passed+1)) == why {
					next = to
				}
			}
		}
		t.Due = next
	}
	return log
}

// countUntil counts the occurrences from next on that are given up alike and are followed by another one not
// after near, where the schedule can count them, and returns the last of them. alike reports whether one is,
// with the one after it.
func (w walk) countUntil(next, near Instant, alike func(cur, next Instant) bool) (n uint64, last Instant) {
	c, ok := w.s.(Counted)
	if !ok || w.t.Spec.MaxOccurrences != 0 {
		return 0, 0
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

// nextChange returns near, or the first time from next on at which the reason for giving up occurrences
// changes.
func (w walk) nextChange(next, near Instant) Instant {
	at := func(change Instant) {
		if change >= next {
			near = min(near, change)
		}
	}
	at(w.b.From - 1)
	for _, wait := range w.t.Waits {
		at(wait.From - 1)
		at(wait.To)
	}
	for _, pause := range w.t.Pauses {
		at(pause.From)
		at(pause.To)
	}
	return near
}

// jumpNear returns the last occurrence but one that is due at near or before, so that the last one is handled
// like any other; cur if none follows it.
func jumpNear(cur, near Instant, s Schedule) Instant {
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
