package rouse

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Notify is the target of notices about a timer, and the events that it is told of. The zero Notify has no
// notices.
type Notify struct {
	Target string        // of the notices: any target
	Events []string      // names of notices, each once; empty: all that can happen, late only with Late
	Late   time.Duration // NoticeLate: an occurrence began later than this after it was due; 0: none is late
	After  uint32        // NoticeDead: from this number of dead letters in a row on; 0 is 1
	Every  time.Duration // at most one notice in so long a time, with the number of events; 0: each event has its own
	Format string        // of the payload: empty, FormatSlack, FormatDiscord or FormatTeams
}

// NoticeState is the state of a timer's notices.
type NoticeState struct {
	Alarmed bool    // a notice of a failure was due, and no occurrence has fired since
	Since   Instant // begin of the present interval of notices (Notify.Every); 0: there is none
	Events  uint32  // events in it after its first: the notice at its end is about them
}

// Formats of notices that chat services take at their incoming webhooks. The empty format has all members.
const (
	FormatSlack   = "slack"   // {"text": …}, which Mattermost, Rocket.Chat and Google Chat take, too
	FormatDiscord = "discord" // {"content": …}
	FormatTeams   = "teams"   // a message with an adaptive card
)

var noticeFormats = []string{FormatSlack, FormatDiscord, FormatTeams}

// Notice is the event that a row next to a timer reports to a target.
type Notice uint8

// The notices.
const (
	NoticeOverdue   Notice = iota + 1 // it has not succeeded in time (Expect)
	NoticeRecovered                   // it has succeeded again
	NoticeDead                        // an occurrence ended as a dead letter
	NoticeMissed                      // occurrences were missed
	NoticeLate                        // an occurrence began late
	NoticePaused                      // the timer has paused itself
	NoticeSucceeded                   // an occurrence has fired: to Spec.OnSuccess
	NoticeFailed                      // an occurrence ended as a dead letter: to Spec.OnFailure
)

var noticeNames = [...]string{NoticeOverdue: "overdue", NoticeRecovered: "recovered", NoticeDead: "dead",
	NoticeMissed: "missed", NoticeLate: "late", NoticePaused: "paused", NoticeSucceeded: "succeeded",
	NoticeFailed: "failed"}

func (n Notice) String() string {
	if int(n) >= len(noticeNames) {
		return "unknown"
	}
	return noticeNames[n]
}

// isCallback reports whether the notice is to Spec.OnSuccess or Spec.OnFailure.
func (n Notice) isCallback() bool { return n == NoticeSucceeded || n == NoticeFailed }

// ParseNotice reads the name of a notice; an empty one is none.
func ParseNotice(name string) (Notice, error) {
	for n, is := range noticeNames {
		if is == name {
			return Notice(n), nil
		}
	}
	return 0, Refuse("notice", name, "is no notice",
		"give one of "+strings.Join(noticeNames[1:], ", ")+", or leave it out")
}

// notifiable are the names that Notify.Events may have.
var notifiable = noticeNames[NoticeOverdue : NoticePaused+1]

func (s *Spec) checkNotify(add func(field, value, wrong, cure string)) {
	n := &s.Notify
	for _, to := range s.NoticeTargets() {
		checkNoticeTarget(to, add)
	}
	n.checkFields(func(field, value, wrong, cure string) { add("notify."+field, value, wrong, cure) })
	set := len(n.Events) > 0 || n.Late != 0 || n.After != 0 || n.Every != 0 || n.Format != ""
	switch {
	case n.Target == "" && set:
		add("notify.target", "", "is missing", "give the target of the notices")
	case n.After > 1 && (s.Overlap == OverlapAllow || !s.Recurring()):
		add("notify.after", strconv.Itoa(int(n.After)), "does not go with a schedule whose occurrences have no order",
			"use a recurring schedule and overlap wait or skip, or leave it out")
	case slices.Contains(n.Events, NoticeOverdue.String()) && !s.Expect.Any():
		add("notify.events", NoticeOverdue.String(), "needs expect", "give by when the timer has to succeed")
	}
}

func checkNoticeTarget(to NoticeTarget, add func(field, value, wrong, cure string)) {
	if wrong := textFault(to.Target, MaxTarget); wrong != "" {
		add(to.Field, to.Target, wrong, fmt.Sprintf("use at most %d bytes of printable UTF-8", MaxTarget))
	}
}

// checkFields checks what does not depend on the timer, but for the target.
func (n *Notify) checkFields(add func(field, value, wrong, cure string)) {
	for i, name := range n.Events {
		switch {
		case !slices.Contains(notifiable, name):
			add("events", name, "is no event", "give one of "+strings.Join(notifiable, ", "))
		case slices.Contains(n.Events[:i], name):
			add("events", name, "is given twice", "give it once")
		}
	}
	span := spanChecker(add)
	span("late", n.Late, time.Second, maxExpect)
	span("every", n.Every, time.Second, maxExpect)
	switch {
	case n.After > MaxPauseAfter:
		add("after", strconv.Itoa(int(n.After)), "is too many", fmt.Sprintf("use at most %d", MaxPauseAfter))
	case n.Format != "" && !slices.Contains(noticeFormats, n.Format):
		add("format", n.Format, "is no format", "give one of "+strings.Join(noticeFormats, ", ")+", or leave it out")
	case slices.Contains(n.Events, NoticeLate.String()) && n.Late == 0:
		add("late", "", "is missing", "give how late an occurrence may begin")
	}
}

// NoticeTarget is a target of a spec next to that of its occurrences.
type NoticeTarget struct{ Field, Target string }

// NoticeTargets returns the targets of notices and callbacks that are set.
func (s *Spec) NoticeTargets() []NoticeTarget {
	return slices.DeleteFunc([]NoticeTarget{{"expect.notify", s.Expect.Notify}, {"notify.target", s.Notify.Target},
		{"on_success", s.OnSuccess}, {"on_failure", s.OnFailure}}, func(to NoticeTarget) bool { return to.Target == "" })
}

// hasNotices reports whether it has notices but those of Expect.Notify, or callbacks.
func (s *Spec) hasNotices() bool { return s.Notify.Target != "" || s.CallsBack() }

// CallsBack reports whether it has a callback, to OnSuccess or OnFailure, which has the answer of its target.
func (s *Spec) CallsBack() bool { return s.OnSuccess != "" || s.OnFailure != "" }

// UsesAnswers reports whether the answers of its target go to a callback or on record.
func (s *Spec) UsesAnswers() bool { return s.CallsBack() || s.KeepAnswer > 0 }

// TargetOf returns the target of a notice; empty if it has none. by is that of NotifyBy.
func (s *Spec) TargetOf(n Notice, by *Notify) string {
	switch {
	case n == NoticeSucceeded:
		return s.OnSuccess
	case n == NoticeFailed:
		return s.OnFailure
	case n == NoticeOverdue && s.Expect.Notify != "", n == NoticeRecovered && s.Expect.Notify != "":
		return s.Expect.Notify
	case by.notifiesOn(n):
		return by.Target
	}
	return ""
}

// notifiesOn reports whether the target is told of an event.
func (n *Notify) notifiesOn(event Notice) bool {
	return n.Target != "" && (len(n.Events) == 0 || slices.Contains(n.Events, event.String()))
}

// AddNotices adds the notices and callbacks that a step calls for: of its records, of its expectation, and of
// a pause that begins in it. was is the timer before the step, o the outcome that led to it, or the zero
// Outcome; rules are those of the namespace. They are rows next to the timer, written with the step, so that
// each of them arrives if the step was made; none is about a notice.
func (s *Step) AddNotices(was *Timer, o Outcome, now Instant, rules []NotifyRule) {
	if was.Notice != 0 {
		return
	}
	spec := &was.Spec
	by := spec.NotifyBy(rules)
	if s.Expected != 0 {
		s.addOverdueNotice(was, now, by)
	}
	if by.Target == "" && s.To != nil { // notices have ended since
		s.To.Notices = NoticeState{}
	}
	if by.Target == "" && !spec.CallsBack() {
		return
	}
	add := func(n Notice, r *Record, text string) {
		body := noticeBody{Text: text}
		if r != nil {
			body.FireID, body.Due, body.Began = r.FireID(), r.Due.String(), instantText(r.Began)
			body.Cause, body.Attempts, body.Code, body.Reason = r.Cause.String(), r.Attempts, r.Code, r.Reason
			body.Occurrences = r.Count
		}
		if n.isCallback() {
			body.setAnswer(o.Answer)
			s.Also = append(s.Also, *was.noticeRow(n, body, now, now, by))
		} else {
			s.Also = append(s.Also, *s.limitNotice(was, n, body, now, by))
		}
	}
	name := was.Key.Namespace + "/" + was.Key.Name
	for i := range s.Log {
		r := &s.Log[i]
		switch r.Ending {
		case EndFired:
			if spec.OnSuccess != "" {
				add(NoticeSucceeded, r, "An occurrence of the timer "+name+" has succeeded.")
			}
			if late := r.Began.Sub(was.SentAt(r.Due)); by.Late > 0 && r.Began != 0 && !r.Manual &&
				late > by.Late && by.notifiesOn(NoticeLate) {
				add(NoticeLate, r, fmt.Sprintf("An occurrence of the timer %s began %v late.", name, late))
			}
			if s.To != nil && s.To.Notices.Alarmed && (!r.Manual || spec.IsCheck()) {
				if s.To.Notices.Alarmed = false; by.notifiesOn(NoticeRecovered) {
					add(NoticeRecovered, r, "The timer "+name+" has succeeded again.")
				}
			}
		case EndDead:
			text := fmt.Sprintf("An occurrence of the timer %s has failed for good (%v): %s", name, r.Cause, r.Reason)
			if spec.OnFailure != "" {
				add(NoticeFailed, r, text)
			}
			if by.notifiesOn(NoticeDead) && (s.To == nil || s.To.Key.Fire != "" || r.Manual ||
				s.To.ConsecutiveDead >= by.After) {
				s.raiseAlarm()
				add(NoticeDead, r, text)
			}
		case EndMissed:
			if by.notifiesOn(NoticeMissed) && r.Cause != CauseNotReported { // that is told as overdue
				s.raiseAlarm()
				add(NoticeMissed, r, fmt.Sprintf("%s of the timer %s missed (%v): %s", countMissed(r), name, r.Cause, r.Reason))
			}
		}
	}
	if s.To != nil && s.To.Paused && !was.Paused && s.To.PauseCause != PauseRequested && by.notifiesOn(NoticePaused) {
		add(NoticePaused, nil, "The timer "+name+" is paused: "+s.To.Reason)
	}
}

// CountNotices returns how many notices and callbacks the step writes.
func (s *Step) CountNotices() (n int) {
	for i := range s.Also {
		if s.Also[i].Notice != 0 {
			n++
		}
	}
	return n
}

// SkipNotices writes records in place of the notices and callbacks of the step for which refused returns why
// they are not sent.
func (s *Step) SkipNotices(now Instant, refused func(callback bool) string) {
	s.Also = slices.DeleteFunc(s.Also, func(t Timer) bool {
		if t.Notice == 0 {
			return false
		}
		why := refused(t.Notice.isCallback())
		if why == "" {
			return false
		}
		occ, o := Occurrence{Due: t.Due, Manual: true}, Outcome{Detail: t.Notice.String() + ": " + why}
		s.Log = append(slices.Clip(s.Log), t.newRecord(occ, EndSkipped, CauseNoticeLimit, o, 0, now))
		return true
	})
}

func countMissed(r *Record) string {
	switch {
	case r.LastDue == 0 || r.Count == 1:
		return "An occurrence"
	case r.Count == 0:
		return "Occurrences"
	}
	return strconv.Itoa(int(r.Count)) + " occurrences"
}

// raiseAlarm notes that the next occurrence which fires has recovered the timer.
func (s *Step) raiseAlarm() {
	if s.To != nil && s.To.Key.Fire == "" {
		s.To.Notices.Alarmed = true
	}
}

// limitNotice returns the row of a notice that is sent now, or of one at the end of its interval, which takes
// the place of an earlier one there. Rows next to a timer do not have its state: their intervals begin at
// multiples of their length.
func (s *Step) limitNotice(was *Timer, n Notice, body noticeBody, now Instant, by *Notify) *Timer {
	every := by.Every
	to := s.To
	switch {
	case every == 0:
		return was.noticeRow(n, body, now, now, by)
	case to == nil || to.Key.Fire != "":
		end := now.Add(every)
		body.digest = true
		return was.noticeRow(n, body, now, end-end%Instant(every.Milliseconds()), by)
	}
	st := &to.Notices
	end := st.Since.Add(every)
	if st.Events > 0 && now >= end { // with the notice at its end, the next interval began
		st.Since, st.Events = end, 0
		end = end.Add(every)
	}
	if st.Since == 0 || now >= end {
		st.Since = now
		return was.noticeRow(n, body, now, now, by)
	}
	st.Events++
	body.digest, body.Events = true, st.Events
	return was.noticeRow(n, body, now, end, by)
}

// addOverdueNotice adds the notice about the timer's expectation, if it has a target.
func (s *Step) addOverdueNotice(was *Timer, now Instant, by *Notify) {
	n, t := s.Expected, *was
	if t.Spec.Expect.Notify != "" { // which no rule has a format for
		by = &t.Spec.Notify
	}
	if t.Spec.TargetOf(n, by) == "" {
		return
	}
	if t.Succeeded = now; s.To != nil {
		t.Succeeded = s.To.Succeeded
	}
	if n == NoticeOverdue {
		t.Overdue = s.To.Overdue
	}
	body := noticeBody{ExpectedBy: t.Overdue.String(),
		Text: fmt.Sprintf("The timer %s/%s has not succeeded in time: it was expected to until %v.", t.Key.Namespace,
			t.Key.Name, t.Overdue)}
	if n == NoticeRecovered {
		body.Text = fmt.Sprintf("The timer %s/%s has succeeded again. It was overdue since %v.", t.Key.Namespace,
			t.Key.Name, t.Overdue)
	}
	s.Also = append(s.Also, *t.noticeRow(n, body, now, now, by))
}

// notifyAttempts is how often a notice is attempted: for about a day.
const notifyAttempts = 150

// noticeRow returns the row of a notice about the timer, due at a time. Its generation is a hash of the
// subject of the notice, and smaller than every revision: so each notice has a fire id of its own.
func (t *Timer) noticeRow(n Notice, body noticeBody, now, due Instant, by *Notify) *Timer {
	body.Event, body.Namespace, body.Name = n.String(), t.Key.Namespace, t.Key.Name
	body.Labels, body.Target = t.Spec.Labels, t.Spec.Target
	body.Succeeded, body.LastError = instantText(t.Succeeded), t.LastError
	subject := body.Event + "\x00" + body.FireID + body.Due + "\x00" + body.ExpectedBy
	if body.digest {
		subject = "events"
	}
	h := fnv.New64a()
	fmt.Fprint(h, t.Generation, "\x00", subject)
	generation := h.Sum64()>>14 | 1
	return &Timer{Key: Key{t.Key.Namespace, t.Key.Name, FireID(t.Key.Namespace, t.Key.Name, generation, due, true)},
		Bucket: t.Bucket, Generation: generation, Created: now, Updated: now, Anchor: due, Due: due, Visible: due,
		Runs: []Instant{due}, Manual: true, Live: true, Asked: true, Notice: n, Trace: t.Trace,
		Spec: Spec{Schedule: due.String(), Target: t.Spec.TargetOf(n, by), Payload: body.formatPayload(by.Format, n),
			ContentType: "application/json", Labels: t.Spec.Labels, Retry: Retry{Attempts: notifyAttempts}}}
}

// noticeBody is the payload of a notice.
type noticeBody struct {
	Event      string            `json:"event"`
	Namespace  string            `json:"namespace"`
	Name       string            `json:"name"`
	Labels     map[string]string `json:"labels,omitempty"`
	Target     string            `json:"target"`
	ExpectedBy string            `json:"expected_by,omitempty"`
	Succeeded  string            `json:"succeeded,omitempty"` // when it did last; left out: never, or it is not known
	LastError  string            `json:"last_error,omitempty"`

	FireID      string        `json:"fire_id,omitempty"` // of the occurrence
	Due         string        `json:"due,omitempty"`
	Began       string        `json:"began,omitempty"`
	Cause       string        `json:"cause,omitempty"`
	Attempts    uint32        `json:"attempts,omitempty"`
	Code        int           `json:"code,omitempty"`
	Reason      string        `json:"reason,omitempty"`
	Occurrences uint32        `json:"occurrences,omitempty"` // missed ones, if they are several
	Events      uint32        `json:"events,omitempty"`      // in the interval, of which this is the last
	Answer      *noticeAnswer `json:"answer,omitempty"`      // of a callback

	Text string `json:"text"`

	digest bool // of the events of an interval
}

// noticeAnswer is the answer of the target to the attempt that ended the occurrence.
type noticeAnswer struct {
	ContentType string          `json:"content_type,omitempty"`
	Body        json.RawMessage `json:"body,omitempty"`        // if it is JSON
	BodyText    string          `json:"body_text,omitempty"`   // if it is other text
	BodyBase64  []byte          `json:"body_base64,omitempty"` // else
}

// MaxCallbackAnswer bounds the bytes of an answer in a callback; of a longer one they are the first.
const MaxCallbackAnswer = 64 << 10

func (b *noticeBody) setAnswer(a *Answer) {
	if a == nil {
		return
	}
	a = a.cleanAnswer()
	body := a.Payload[:min(len(a.Payload), MaxCallbackAnswer)]
	b.Answer = &noticeAnswer{ContentType: a.ContentType}
	switch {
	case len(body) == 0:
	case strings.Contains(a.ContentType, "json") && json.Valid(body):
		b.Answer.Body = body
	case utf8.Valid(body):
		b.Answer.BodyText = string(body)
	default:
		b.Answer.BodyBase64 = body
	}
}

// formatPayload returns the payload in a format for notices. Callbacks are for programs and have all members.
func (b *noticeBody) formatPayload(name string, n Notice) []byte {
	var form any = b
	text := b.Text
	if b.Events > 1 {
		text = fmt.Sprintf("%d events, of which the last is: %s", b.Events, text)
	}
	switch {
	case n.isCallback():
	case name == FormatSlack:
		form = map[string]string{"text": text}
	case name == FormatDiscord:
		form = map[string]string{"content": text}
	case name == FormatTeams:
		form = map[string]any{"type": "message", "attachments": []any{map[string]any{
			"contentType": "application/vnd.microsoft.card.adaptive",
			"content": map[string]any{"type": "AdaptiveCard", "version": "1.2",
				"body": []any{map[string]any{"type": "TextBlock", "wrap": true, "text": text}}}}}}
	}
	payload, err := json.Marshal(form)
	if err != nil {
		return nil // there is nothing in it that cannot be encoded
	}
	return payload
}

func instantText(at Instant) string {
	if at == 0 {
		return ""
	}
	return at.String()
}
