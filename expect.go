package rouse

import (
	"encoding/json"
	"fmt"
	"time"
)

// Expect is by when a recurring timer has to succeed: an occurrence of it has to end as fired. The zero
// Expect expects nothing.
type Expect struct {
	Every  time.Duration // how long after the last success the next one has to come; 0: each occurrence has to succeed
	Grace  time.Duration // how much later than that a success may come
	Notify string        // a target of notices that the timer is overdue, or has recovered; empty: none
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

// Notice is the message of a row next to a timer to its Expect.Notify.
type Notice uint8

// The notices.
const (
	NoticeOverdue   Notice = iota + 1 // it has not succeeded in time
	NoticeRecovered                   // it has succeeded again
)

var noticeNames = [...]string{NoticeOverdue: "overdue", NoticeRecovered: "recovered"}

func (n Notice) String() string {
	if int(n) >= len(noticeNames) {
		return "unknown"
	}
	return noticeNames[n]
}

// ParseNotice reads the name of a notice; an empty one is none.
func ParseNotice(name string) (Notice, error) {
	for n, is := range noticeNames {
		if is == name {
			return Notice(n), nil
		}
	}
	return 0, Refuse("notice", name, "is no notice", "give overdue or recovered, or leave it out")
}

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

// LateAt makes the timer overdue at now, and returns its notice; nil if none is to be sent.
func (t *Timer) LateAt(now, by Instant) *Timer {
	t.Overdue = max(by, 1)
	return noticeRow(t, NoticeOverdue, now)
}

// noteSuccess notes a success of a timer. If it was overdue, it returns the rows to write with it: the
// notice, if one is to be sent, and its expectation.
func noteSuccess(t *Timer, now Instant) (also []Timer) {
	t.Succeeded = max(now, t.Succeeded)
	if t.Overdue == 0 {
		return nil
	}
	if n := noticeRow(t, NoticeRecovered, now); n != nil {
		also = append(also, *n)
	}
	t.Overdue = 0
	return append(also, t.Expectation(now))
}

// Recover is noteSuccess for a timer of which an occurrence next to it has fired at a time.
func (t *Timer) Recover(at, now Instant) Step {
	late := t.Overdue != 0
	also := noteSuccess(t, max(at, t.Succeeded))
	if late {
		also = also[:len(also)-1] // its expectation found this
	}
	return Step{To: t, Also: also}
}

// notifyAttempts is how often a notice is attempted: for about a day.
const notifyAttempts = 150

// noticeRow returns the row of a notice to Expect.Notify about a timer, due at now; nil if there is no such
// target.
func noticeRow(t *Timer, n Notice, now Instant) *Timer {
	e := &t.Spec.Expect
	if e.Notify == "" {
		return nil
	}
	due := max(now, t.Updated+1)
	// runs have other due times, which are in their fire ids, too
	for due == t.Due || len(t.Runs) > 0 && due <= t.Runs[len(t.Runs)-1] {
		due++
	}
	t.Updated = due // as a run does: no later one has this due time
	text := fmt.Sprintf("The timer %s/%s has not succeeded in time: it was expected to until %v.", t.Key.Namespace,
		t.Key.Name, t.Overdue)
	if n == NoticeRecovered {
		text = fmt.Sprintf("The timer %s/%s has succeeded again. It was overdue since %v.", t.Key.Namespace,
			t.Key.Name, t.Overdue)
	}
	body, err := json.Marshal(noticeBody{Event: n.String(), Namespace: t.Key.Namespace, Name: t.Key.Name,
		Labels: t.Spec.Labels, Target: t.Spec.Target,
		ExpectedBy: t.Overdue.String(), Succeeded: instantText(t.Succeeded), Failed: t.LastError, Text: text})
	if err != nil {
		return nil // there is nothing in it that cannot be encoded
	}
	return &Timer{Key: Key{t.Key.Namespace, t.Key.Name, FireID(t.Key.Namespace, t.Key.Name, t.Generation, due, true)},
		Bucket:     t.Bucket,
		Generation: t.Generation, Created: t.Created, Updated: now, Anchor: due, Due: due, Visible: due, Runs: []Instant{due},
		Manual: true,
		Live:   true, Asked: true, Notice: n, Trace: t.Trace,
		Spec: Spec{Schedule: due.String(), Target: e.Notify, Payload: body, ContentType: "application/json",
			Labels: t.Spec.Labels,
			Retry:  Retry{Attempts: notifyAttempts}}}
}

// noticeBody is the payload of a notice.
type noticeBody struct {
	Event      string            `json:"event"`
	Namespace  string            `json:"namespace"`
	Name       string            `json:"name"`
	Labels     map[string]string `json:"labels,omitempty"`
	Target     string            `json:"target"`
	ExpectedBy string            `json:"expected_by"`
	Succeeded  string            `json:"succeeded,omitempty"` // when it did last; left out: never
	Failed     string            `json:"last_error,omitempty"`
	Text       string            `json:"text"`
}

func instantText(at Instant) string {
	if at == 0 {
		return ""
	}
	return at.String()
}
