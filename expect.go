package rouse

import (
	"fmt"
	"time"
)

// Expect is by when a recurring timer has to succeed: an occurrence of it has to end as fired. The zero
// Expect expects nothing.
type Expect struct {
	Every  time.Duration // how long after the last success the next one has to come; 0: each occurrence has to succeed
	Grace  time.Duration // how much later than that a success may come
	Notify string        // a target of notices that the timer is overdue, or has recovered; empty: that of Spec.Notify
}

// Any reports whether something is expected.
func (e *Expect) Any() bool { return *e != Expect{} }

// maxExpect bounds the durations of an expectation.
const maxExpect = 366 * 24 * time.Hour

func (s *Spec) checkExpect(add func(field, value, wrong, cure string)) {
	e := &s.Expect
	spanChecker(add)("expect.every", e.Every, time.Second, maxExpect)
	spanChecker(add)("expect.grace", e.Grace, time.Second, maxExpect)
	switch wrong := textFault(e.Notify, MaxTarget); {
	case wrong != "":
		add("expect.notify", e.Notify, wrong, fmt.Sprintf("use at most %d bytes of printable UTF-8", MaxTarget))
	case e.Any() && e.Every == 0 && e.Grace == 0:
		add("expect.grace", "", "is missing",
			"give how late a success may be, or with every how long after the last one it has to come")
	case e.Any() && !s.Recurring():
		add("expect", "", "does not go with a schedule of one occurrence", "leave it out")
	}
}

// ExpectFire is the Fire of the key of a timer's expectation, a row next to the timer that needs attention
// when the timer may be overdue. Rows of jobs have it, too. No fire id has a control character.
const ExpectFire = "\x01expect"

// Expecting reports whether the timer has to succeed: one that a client has paused has not, and one whose
// schedule has ended. A timer that paused itself has.
func (t *Timer) Expecting() bool {
	return t.Spec.Expect.Any() && !t.Over() && !(t.Paused && t.PauseCause == PauseRequested)
}

// ExpectedBy returns the time until which the timer has to succeed. It is false if it has not to, or its
// schedule has no occurrence for that.
func (t *Timer) ExpectedBy(s Schedule) (Instant, bool) {
	e := &t.Spec.Expect
	if !t.Expecting() {
		return 0, false
	}
	from := max(t.Succeeded, t.ExpectFrom)
	if e.Every > 0 {
		return max(from, t.Spec.Start).Add(e.Every + e.Grace), true
	}
	next, ok, _ := Look(s, from)
	if !ok {
		return 0, false
	}
	return t.SentAt(next).Add(e.Grace), true
}

// Expectation returns the row of the timer's expectation, which needs attention at a time.
func (t *Timer) Expectation(at Instant) Timer {
	return Timer{Key: Key{t.Key.Namespace, t.Key.Name, ExpectFire}, Bucket: t.Bucket, Generation: t.Generation,
		Created: t.Created, Updated: t.Updated,
		Spec: Spec{Labels: t.Spec.Labels}, Due: Never, Visible: at, Succeeded: t.Succeeded, Overdue: t.Overdue}
}

// LateAt returns the step by which the timer becomes overdue.
func (t *Timer) LateAt(by Instant) Step {
	t.Overdue = max(by, 1)
	return Step{To: t, Expected: NoticeOverdue}
}

// noteSuccess notes a success of a timer. If it was overdue, that ends, and it returns NoticeRecovered.
func noteSuccess(t *Timer, at Instant) (n Notice) {
	t.Succeeded = max(at, t.Succeeded)
	if t.Overdue != 0 {
		t.Overdue = 0
		return NoticeRecovered
	}
	return 0
}

// addSuccess notes a success of the timer to in a step; its expectation is moved if it was overdue.
func (s *Step) addSuccess(to *Timer, now Instant) {
	if s.Expected = noteSuccess(to, now); s.Expected != 0 {
		s.Also = append(s.Also, to.Expectation(now))
	}
}

// Recover returns the step of a timer of which an occurrence next to it has fired at a time. Its expectation
// found this.
func (t *Timer) Recover(at Instant) Step {
	return Step{To: t, Expected: noteSuccess(t, at)}
}
