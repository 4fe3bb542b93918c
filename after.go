package rouse

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"time"
)

// Schedule is a sequence of due times. It is pure: the same schedule gives the same times on every machine.
type Schedule interface {
	// Next returns the first due time strictly after the given one; ok is false if none follows.
	Next(after Instant) (next Instant, ok bool)
}

// MaxScheduleSteps bounds the steps of one search for a schedule's next due time: a step checks one
// candidate, in about half a microsecond. Timers with costlier schedules are refused.
const MaxScheduleSteps = 2000

// Metered is a schedule that counts the steps of a search for a due time.
type Metered interface {
	Schedule

	// Look is Next with the number of steps that it took. With more than most, which is at most
	// MaxScheduleSteps, it gave up: ok is false, and the next time is unknown.
	Look(after Instant, most int) (next Instant, ok bool, steps int)
}

// Look is Next of any schedule, with the number of steps that it took; it gives up after MaxScheduleSteps.
func Look(s Schedule, after Instant) (next Instant, ok bool, steps int) {
	if m, metered := s.(Metered); metered {
		return m.Look(after, MaxScheduleSteps)
	}
	next, ok = s.Next(after)
	return next, ok, 1
}

// Counted is a schedule that may count due times without visiting each.
type Counted interface {
	// Between returns how many due times lie after the first time and not after the second, and the last of
	// them. It is false if it would have to visit each.
	Between(after, until Instant) (n uint64, last Instant, ok bool)
}

// Calendared is a schedule that may have calendars.
type Calendared interface {
	// EveryDay returns the schedule as it would be if every day counted; nil if it has no calendars.
	EveryDay() Schedule
}

// The life of an occurrence, and the effect of each operation on it, is a table in docs/policies.md ("What a
// change keeps"). Its states are those of the fields of Timer: planned (Due is to come), due and not begun,
// in flight, retried (Attempts), accepted (Token), next to its timer (a row of its own, Detach), ended (a
// Record). After handles the outcomes of attempts; CatchUp, Detach and SkipOverLimit act without one; Pause,
// Resume, Skip, Run, Rewrite, CutOff and Replan are the operations.

// Step is the effect of an event in the life of a timer: one conditional write.
type Step struct {
	Keep     bool    // the timer stays as it is; only Log is written
	To       *Timer  // the timer's new state; nil: it has ended and its row is removed (unless Keep)
	Detached *Timer  // a row to keep next to the timer: a dead letter or a detached occurrence
	Also     []Timer // more such rows: of its expectation
	Log      []Record
	Expected Notice // NoticeOverdue or NoticeRecovered, if the timer becomes so by its expectation
}

// After is the state machine of a timer: it returns the step that follows when the attempt occ of t, sent at
// sent with the fencing token token, ended with o at now (all by the store's clock). t is the latest version
// of the row of that generation; if the timer has moved on from occ, the outcome is recorded and nothing else
// changes. s is the timer's schedule, needed for recurring timers only. It is pure.
func (t *Timer) After(occ Occurrence, token uint64, o Outcome, sent, now Instant, s Schedule) Step {
	if !t.waitsFor(occ) {
		switch o.Verdict {
		case Deferred, Accepted, Failed, Expired:
			return Step{Keep: true}
		}
		return Step{Keep: true, Log: []Record{t.endedRecord(occ, o, sent, now)}}
	}
	if o.Verdict == Done && !occ.Manual && len(t.Runs) == 0 && t.Spec.Keep == 0 && !t.Spec.Recurring() {
		return Step{Log: []Record{t.endedRecord(occ, o, sent, now)}} // most timers: not worth a copy
	}
	if o.Verdict == Done && t.Notice.isCallback() {
		return Step{} // a record of each would take half of the history of its timer
	}
	to := *t
	to.Token = 0
	if t.Attempts == 0 && sent != 0 && o.Verdict != Deferred {
		to.Began = sent
	}
	switch o.Verdict {
	case Deferred:
		takeBackAttempt(&to, occ) // an attempt that was stored as spent before it was sent does not count
		if o.Lost {
			to.Lost++
		}
		to.Visible = now.Add(max(o.After, time.Millisecond))
		if to.Attempts == 0 {
			from := sent
			if from == 0 { // it did not reach its sink
				from = t.firstSentAt(occ)
			}
			cause := o.Cause
			if !cause.isMissedCause() {
				cause = CauseDeferred
			}
			to.Waited(cause, from, to.Visible)
		}
		if to.Paused && to.Attempts == 0 && !occ.Manual {
			to.Visible = to.nextAttention(now)
		}
		return Step{To: &to}
	case Accepted:
		to.Lost = 0
		to.Attempts, to.Manual, to.Token = occ.Attempt, occ.Manual, token
		to.Visible = now.Add(o.After)
		return Step{To: &to}
	case Failed:
		r := t.Spec.Retry.Effective()
		to.Lost = lossesAfter(t, occ, o)
		wait := o.After
		if wait == 0 {
			wait = r.Backoff(occ.Attempt, t.jitterSeed(occ))
		}
		switch {
		case o.After == AtOnce, to.Lost == 1: // one receiver may go for any reason
			wait = 0
		case to.Lost > 1:
			wait = max(wait, lostPause)
		}
		late := r.GiveUp > 0 && now.Add(wait) > to.Began.Add(r.GiveUp)
		poison := to.Lost >= min(MaxLost, max(r.Attempts, 2))
		if occ.Attempt < r.Attempts && !late && !poison {
			to.Attempts, to.Manual, to.LastError = occ.Attempt, occ.Manual, cleanDetail(o)
			to.noteFailure(o, sent, now)
			to.Visible = now.Add(wait)
			if to.awaitsPauseEnd() {
				to.Visible = max(to.Visible, to.pauseEnds())
			}
			return Step{To: &to}
		}
		cause := CauseAttemptsExhausted
		if poison {
			cause = CausePoison
			o.Detail = fmt.Sprintf("%d receivers in a row have gone with it in hand: %s", to.Lost, o.Detail)
		} else if late {
			cause = CauseGiveUp
			o.Detail = fmt.Sprintf("given up %v after the first attempt: %s", r.GiveUp, o.Detail)
		}
		return to.endAsDead(occ, cause, o, sent, now, s)
	case Rejected:
		return to.endAsDead(occ, CauseRejected, o, sent, now, s)
	case Expired:
		occ.Attempt = t.Attempts // the attempt that did not start does not count
		o.Detail = fmt.Sprintf("the deadline of %v has passed: %s", t.Spec.Deadline, t.LastError)
		return to.endAsDead(occ, CauseDeadline, o, sent, now, s)
	case Gone:
		log := []Record{to.endedRecord(occ, o, sent, now)}
		return Step{Log: append(log, t.CutOff(now, s, []Occurrence{occ}, CauseDeleted, "ended by its target")...)}
	}
	record := to.endedRecord(occ, o, sent, now)
	var success Step
	switch {
	case !t.Spec.Expect.Any():
	case t.Key.Fire == "":
		success.addSuccess(&to, now)
	default:
		to.Succeeded = now
		told := to.Expectation(now)
		told.Overdue = 0
		success.Also = []Timer{told}
	}
	to.Fired++
	if !occ.Manual {
		to.ConsecutiveDead = 0
	}
	step := to.advanceAfter(occ, now, s)
	if step.To != nil && step.To.Over() {
		step.To.Answer = o.Answer.cleanAnswer()
	}
	step.Log, step.Also, step.Expected = append([]Record{record}, step.Log...), success.Also, success.Expected
	return step
}

// RetryDue returns when the attempt after the last one that failed is due by the retry policy, unless its
// receiver named another time. It is false if no attempt of the current occurrence has failed, or the next
// one has been made.
func (t *Timer) RetryDue() (Instant, bool) {
	occ, ok := t.Current()
	n := len(t.Failures)
	if !ok || n == 0 || n != min(int(t.Attempts), MaxFailures) || t.Failures[n-1].Sent == 0 {
		return 0, false
	}
	occ.Attempt = t.Attempts
	ended := t.Failures[n-1].Sent.Add(t.Failures[n-1].Took)
	return ended.Add(t.Spec.Retry.Effective().Backoff(t.Attempts, t.jitterSeed(occ))), true
}

// noteFailure stores a failed attempt for the record of its occurrence.
func (t *Timer) noteFailure(o Outcome, sent, now Instant) {
	f := Attempt{Sent: sent, Code: o.Code, Detail: Shorten(cleanDetail(o), MaxFailureDetail)}
	if sent != 0 {
		f.Took = max(0, now.Sub(sent))
	}
	kept := t.Failures
	if len(kept) >= MaxFailures {
		kept = kept[len(kept)-MaxFailures+1:]
	}
	t.Failures = append(slices.Clip(slices.Clone(kept)), f)
}

// endAsDead ends the occurrence as a dead letter.
func (t *Timer) endAsDead(occ Occurrence, c Cause, o Outcome, sent, now Instant, s Schedule) Step {
	record := t.newRecord(occ, EndDead, c, o, sent, now)
	dead := *t
	dead.Key.Fire = FireID(t.Key.Namespace, t.Key.Name, t.Generation, occ.Due, occ.Manual)
	dead.Due, dead.Runs, dead.Manual, dead.Skips = occ.Due, nil, occ.Manual, 0
	dead.clearPause() // the pause is the timer's
	dead.Pauses = nil
	if occ.Manual {
		dead.Runs = []Instant{occ.Due}
	}
	dead.Attempts, dead.Token, dead.Lost, dead.Visible, dead.Updated = occ.Attempt, 0, 0, Never, now
	dead.Live, dead.Asked, dead.Waits = false, false, nil
	dead.LastError = cleanDetail(o)
	if t.Key.Fire != "" { // an occurrence next to its timer already
		return Step{To: &dead, Log: []Record{record}}
	}
	t.Dead++
	stops := t.countDead(occ)
	step := t.advanceAfter(occ, now, s)
	if stops && step.To != nil {
		step.To.stopAfterDead(now, cleanDetail(o))
	}
	step.Detached = &dead
	step.Log = append([]Record{record}, step.Log...)
	return step
}

// waitsFor reports whether occ is the timer's current occurrence, or is directly behind it: a run that was
// requested while the scheduled occurrence was in flight, or the other way round.
func (t *Timer) waitsFor(occ Occurrence) bool {
	switch {
	case t.Attempts != 0 && t.Manual != occ.Manual:
		return false // the one in progress is another one
	case occ.Manual:
		return slices.Contains(t.Runs, occ.Due)
	}
	return occ.Due == t.Due
}

// advanceAfter moves the timer to the occurrence after occ, which has ended.
func (t *Timer) advanceAfter(occ Occurrence, now Instant, s Schedule) Step {
	began := t.Began
	w := walk{t, now, s, t.streakUntil(occ, now)}
	t.Attempts, t.Manual, t.Token, t.Lost, t.Began, t.LastError, t.Failures = 0, false, 0, 0, 0, "", nil
	t.Ended++
	if t.Key.Fire != "" {
		return Step{}
	}
	var log []Record
	if occ.Manual {
		t.Runs = slices.DeleteFunc(slices.Clone(t.Runs), func(r Instant) bool { return r == occ.Due })
	} else {
		log = w.leaveDue()
	}
	if due := t.Due; t.Spec.Overlap == OverlapSkip && began != 0 {
		if log = append(log, w.skipOverlapped(began)...); t.Due != due { // those to be skipped come after them
			log = append(log, w.passSkips()...)
		}
	}
	step := w.stepToWaiting(log)
	if !occ.Manual { // an occurrence that waits longer than this one was in progress waited for the ones before, too
		t.Waits = nil
		if t.Spec.Overlap != OverlapSkip {
			t.Backlog = Span{}
			if t.Due <= now {
				t.Backlog = w.b.Span
			}
		}
	}
	return step
}

// streakUntil returns since when occurrences of the timer have been in progress without a break, until occ
// ended.
func (t *Timer) streakUntil(occ Occurrence, now Instant) streak {
	if t.Began == 0 {
		return streak{}
	}
	b := streak{Span{t.Began, now}, occ}
	if t.Backlog != (Span{}) && t.Began <= t.Backlog.To.Add(unbroken) {
		b.From = t.Backlog.From
	}
	return b
}

// unbroken is how soon an occurrence begins after the one before has ended if it was only waiting for that.
const unbroken = time.Second

// skipOverlapped skips the occurrences that came due while an occurrence that began at that time was in
// progress. Occurrences that were due before it began wait, subject to the misfire policy. While such a
// backlog is worked off without a break, the time counts from its first occurrence.
func (w walk) skipOverlapped(began Instant) (log []Record) {
	if w.t.Backlog == (Span{}) || began > w.t.Backlog.To.Add(unbroken) {
		w.t.Backlog.From = began
	}
	w.t.Backlog.To = w.now
	skip := func() {
		log = append(log, w.passGivenUp(w.now, func(cur, _ Instant) why {
			at := w.t.SentAt(cur)
			switch {
			case w.inPause(cur):
				return paused
			case at >= w.t.Backlog.From && at <= w.now:
				return why{EndSkipped, "overlap: an earlier occurrence was in progress", CauseOverlapped, w.b.occ}
			}
			return why{}
		})...)
	}
	skip()
	if !w.t.Paused && w.t.SentAt(w.t.Due) < w.t.Backlog.From {
		log = append(log, w.catchUp()...)
		skip() // an occurrence that the misfire policy has kept may be one of them
	}
	if w.t.SentAt(w.t.Due) >= w.t.Backlog.From {
		w.t.Backlog = Span{}
	}
	return log
}

// keepEnded keeps the row of a timer whose schedule has ended until its time is over.
func (t *Timer) keepEnded(now Instant) {
	t.clearPause()
	t.Skips, t.Pauses, t.Visible = 0, nil, Never
	if t.Spec.Keep > 0 {
		t.Visible = now.Add(t.Spec.Keep)
	}
}

// Over reports whether nothing of the timer is left to fire. Its row is then removed, unless Spec.Keep is
// set.
func (t *Timer) Over() bool { return t.Attempts == 0 && t.Due == Never && len(t.Runs) == 0 }

// UnknownDue is the due time of a timer whose next occurrence costs too much to find. Timers of such
// schedules are refused, but a calendar may have changed since, or the bound. The timer is paused with a
// reason.
var UnknownDue = MaxInstant

// nextAttention returns when a timer with no attempt in progress needs attention. A run is asked for now: its
// due time, which names it, is later only if the store's clock was ahead.
func (t *Timer) nextAttention(now Instant) Instant {
	switch {
	case len(t.Runs) > 0:
		return min(t.Runs[0], now)
	case t.Paused:
		return t.pauseEnds()
	case t.Spec.IsCheck():
		return Never
	}
	return t.SentAt(t.Due)
}

func (t *Timer) pauseEnds() Instant {
	if t.Until == 0 {
		return Never
	}
	return t.Until
}

// Expired reports whether the deadline has passed at now, so that no further attempt of the occurrence may
// start.
func (t *Timer) Expired(occ Occurrence, now Instant) bool {
	return t.Spec.Deadline != 0 && !occ.Manual && !t.Asked && now.Sub(t.SentAt(occ.Due)) > t.Spec.Deadline
}

// Ending returns the record of an occurrence that ended with its generation while an attempt was in progress:
// the outcome of the attempt, or skipped with the given cause and reason if another attempt would have
// followed.
func (t *Timer) Ending(occ Occurrence, o Outcome, sent, now Instant, c Cause, why string) Record {
	switch o.Verdict {
	case Done, Rejected, Gone:
		return t.endedRecord(occ, o, sent, now)
	}
	if o.Detail != "" {
		why += ": " + o.Detail
	}
	o.Detail = why
	return t.newRecord(occ, EndSkipped, c, o, sent, now)
}

// endedRecord returns the record of an occurrence that its attempt ended, regardless of the timer's policies.
func (t *Timer) endedRecord(occ Occurrence, o Outcome, sent, now Instant) Record {
	switch o.Verdict {
	case Done:
		c := CauseDelivered
		if t.Notice != 0 {
			c = CauseNotice
		}
		return t.newRecord(occ, EndFired, c, o, sent, now)
	case Gone:
		return t.newRecord(occ, EndDead, CauseGone, o, sent, now)
	}
	return t.newRecord(occ, EndDead, CauseRejected, o, sent, now)
}

func (t *Timer) newRecord(occ Occurrence, e Ending, c Cause, o Outcome, sent, now Instant) Record {
	began := t.Began
	began = cmp.Or(began, sent)
	r := Record{Namespace: t.Key.Namespace, Name: t.Key.Name, Generation: t.Generation, Ending: e, Cause: c,
		Manual: occ.Manual,
		Due:    occ.Due, Attempts: occ.Attempt, Code: o.Code, Reason: cleanDetail(o), Began: began, Sent: sent, Ended: now,
		Failures: t.Failures, Answer: o.Answer.recordedAnswer(int(t.Spec.KeepAnswer))}
	if e != EndFired { // those are many, and searches for a target are for failures
		r.Target = t.Spec.Target
	}
	return r
}

// cleanDetail is the text of an outcome as it is kept: a receiver may answer anything; only printable text is
// kept.
func cleanDetail(o Outcome) string { return CleanText(o.Detail, MaxDetail) }

// jitterSeed is stable for an attempt of an occurrence, so that After stays pure.
func (t *Timer) jitterSeed(occ Occurrence) uint64 {
	h := fnv.New64a()
	var buf [24]byte
	binary.LittleEndian.PutUint64(buf[:], t.Generation)
	binary.LittleEndian.PutUint64(buf[8:], uint64(occ.Due))
	binary.LittleEndian.PutUint64(buf[16:], uint64(occ.Attempt))
	h.Write([]byte(t.Key.Name))
	h.Write(buf[:])
	return h.Sum64()
}
