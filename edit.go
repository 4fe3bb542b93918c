package rouse

import "strconv"

// MaxRuns bounds the runs of one timer that are asked for and have not ended.
const MaxRuns = 16

// NewTimer returns the timer that a client's spec makes at now, with its first due time. The spec has passed its checks; s is
// its schedule. A schedule without a due time after now is refused, unless it is one shot: that fires at once if its time
// has passed.
func NewTimer(key Key, spec Spec, now Instant, s Schedule) (Timer, error) {
	t := Timer{Key: key, Spec: spec, Created: now, Updated: now, Anchor: now}
	from := now
	if !spec.Recurring() {
		from = 0
	}
	due, ok := s.Next(from)
	if !ok {
		return Timer{}, Refuse("schedule", spec.Schedule, "never fires after "+now.String(), "give a schedule with a time to come")
	}
	t.Due, t.Visible = due, due
	return t, nil
}

// Pause stops the scheduled occurrences until Resume; one that is on its way ends as it would. Pausing a paused timer replaces
// the reason.
func (t *Timer) Pause(reason string, now Instant) {
	t.Paused, t.Reason, t.Updated = true, Shorten(reason, MaxDetail), now
	switch {
	case t.Token != 0, t.Attempts != 0 && t.Manual: // these go on
	case t.Attempts != 0:
		t.Visible = Never
	default:
		t.Visible = t.rest()
	}
}

// Resume ends a pause. Occurrences of a recurring timer that came due meanwhile are skipped, and the returned record says so;
// a one-shot timer whose time has passed fires at once. A schedule that has ended meanwhile leaves the timer Over. busy says that an occurrence is on its way, which then is not skipped.
func (t *Timer) Resume(now Instant, s Schedule, busy bool) []Record {
	if !t.Paused {
		return nil
	}
	t.Paused, t.Reason, t.Updated = false, "", now
	var log []Record
	switch {
	case t.Token != 0:
		return nil
	case t.Attempts != 0:
		t.Visible = now
		return nil
	case !busy && t.Due <= now && t.Spec.Recurring() && s != nil:
		first, last, count := t.Due, t.Due, uint32(0)
		next, ok := s.Next(now)
		if !ok {
			next = Never
		}
		for cur := t.Due; cur < next && cur <= now; {
			last = cur
			count++
			n, more := s.Next(cur)
			if !more {
				break
			}
			if cur = n; count == missedCount {
				last, count = jump(cur, now, s), 0
				break
			}
		}
		t.Due = next
		log = []Record{{Namespace: t.Key.Namespace, Name: t.Key.Name, Generation: t.Generation, Ending: EndSkipped,
			Due: first, LastDue: last, Count: count, Reason: "paused", Ended: now}}
	}
	t.Visible = t.rest()
	return log
}

// Run asks for a fire now, beside the schedule: it never uses up an occurrence. It returns the run's due time, which names it.
func (t *Timer) Run(now Instant) (Instant, error) {
	if len(t.Runs) >= MaxRuns {
		return 0, Refuse("name", t.Key.Name, strconv.Itoa(MaxRuns)+" runs of this timer are waiting already", "wait for them to end")
	}
	due := now
	if n := len(t.Runs); n > 0 && due <= t.Runs[n-1] {
		due = t.Runs[n-1] + 1
	}
	if due == t.Due { // keeps the two apart for receivers that look at due times only
		due++
	}
	t.Runs = append(t.Runs[:len(t.Runs):len(t.Runs)], due)
	t.Updated = now
	if t.Attempts == 0 {
		t.Visible = t.rest()
	}
	return due, nil
}

// Redrive returns the timer row that gives a dead letter a new set of attempts: the same occurrence, with the same fire id,
// due at once. Its key stays the dead letter's.
func (t *Timer) Redrive(now Instant) Timer {
	to := *t
	to.Attempts, to.Visible, to.Updated = 0, now, now
	return to
}
