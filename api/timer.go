package api

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// Timer is a timer, or, if FireID is set, a row next to one: a dead letter, or an occurrence on its way.
type Timer struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name" schema:"Name"`
	Spec
	Generation uint64 `json:"generation"`
	Revision   uint64 `json:"revision"`
	// scheduled, retrying, accepted, paused or ended; firing or dead next to a timer
	State       string `json:"state" schema:"State"`
	PauseReason string `json:"pause_reason,omitzero"`
	// why it is paused, for programs; requested: a client asked for it
	PauseCause string `json:"pause_cause,omitzero" schema:"enum=requested|dead_letters|schedule_cost|unreadable|calendar|schedule_invalid"`
	PauseUntil Time   `json:"pause_until,omitzero"` // when the pause ends by itself
	PausedAt   Time   `json:"paused_at,omitzero"`   // when the pause began
	Created    Time   `json:"created,omitzero"`
	Updated    Time   `json:"updated,omitzero"`
	Anchor     Time   `json:"anchor,omitzero"` // where intervals begin
	// of the occurrence that is next or in progress; left out when the schedule has ended
	Due       Time      `json:"due,omitzero"`
	SentAt    Time      `json:"sent_at,omitzero"` // when that occurrence is sent: later than due by the jitter
	Visible   Time      `json:"visible,omitzero"` // when rouse looks at it again
	Runs      []Time    `json:"runs,omitempty"`   // runs asked for and not ended
	Skips     uint32    `json:"skips,omitzero"`   // occurrences after the one in progress that are to be skipped
	Attempts  uint32    `json:"attempts,omitzero"`
	Manual    bool      `json:"manual,omitzero"` // the occurrence in progress was asked for by run
	Asked     bool      `json:"asked,omitzero"`  // of a row next to a timer: redriven or backfilled
	Began     Time      `json:"began,omitzero"`  // when the first attempt of the occurrence in progress was sent
	LastError string    `json:"last_error,omitzero"`
	Failures  []Attempt `json:"failures,omitempty"` // attempts of the occurrence in progress, the latest eight
	// what has kept the occurrence that is next from beginning, the latest four
	Waits []Wait `json:"waits,omitempty"`
	Ended uint64 `json:"ended"` // how many occurrences have ended
	// how many of them fired; occurrences that overlap each other are not counted here
	Fired  uint64 `json:"fired,omitzero"`
	Dead   uint64 `json:"dead,omitzero"`   // how many of them ended as dead letters, counted like fired
	Missed uint64 `json:"missed,omitzero"` // how many of them were missed, counted like fired
	// occurrences of the schedule that have ended: what max_occurrences counts
	Passed uint64 `json:"passed,omitzero"`
	// the end of the last of pauses
	PassTo Time `json:"pass_to,omitzero"`
	// pauses that are over: what came due after from, until to, is skipped when its turn comes
	Pauses  []Span `json:"pauses,omitempty"`
	Backlog *Span  `json:"backlog,omitzero"` // what is due in it came due while an occurrence was in progress
	// of a timer that is kept after its schedule has ended: the answer to its last occurrence
	Answer *Answer `json:"answer,omitzero"`
	FireID string  `json:"fire_id,omitzero" schema:"FireID"` // of a row next to a timer

	ConsecutiveDead uint32 `json:"consecutive_dead,omitzero"` // dead letters in a row, as pause_after counts them

	Succeeded Time `json:"succeeded,omitzero"` // of a timer with expect: when an occurrence fired last
	// when it was created, replaced or resumed: from then on it has to succeed
	ExpectFrom Time `json:"expect_from,omitzero"`
	Overdue    Time `json:"overdue,omitzero"` // by when it had to succeed, if it has not since
	// of a row next to a timer that is a notice or a callback: its event
	Notice  string       `json:"notice,omitzero" schema:"enum=overdue|recovered|dead|missed|late|paused|succeeded|failed"`
	Notices *NoticeState `json:"notices,omitzero"` // of a timer with notify

	// the key that limit_key stands for, if it has references
	ResolvedLimitKey string `json:"resolved_limit_key,omitzero"`

	// payload, headers, answer and what targets answered are left out: the caller may not see them
	Redacted bool `json:"redacted,omitzero"`

	Next []Time `json:"next,omitempty"` // in answers to validate_only: the next times, at most five

	// in answers to creates only: an attempt of the generation that was replaced had started and may still
	// arrive
	InFlight bool `json:"in_flight,omitzero"`

	// in answers to writes of an existing timer: nothing of it differed, and nothing was written
	Unchanged bool     `json:"unchanged,omitzero"`
	Notes     []string `json:"notes,omitempty"` // in answers to writes of an existing timer: what of it could not be kept
}

// NoticeState is the state of a timer's notices.
type NoticeState struct {
	// a notice of a failure was due, and no occurrence has fired since
	Alarmed bool   `json:"alarmed,omitzero"`
	Since   Time   `json:"since,omitzero"`  // begin of the present interval of notices, if notify.every is set
	Events  uint32 `json:"events,omitzero"` // events in it after its first
}

// Span is a time from From on until To, both included.
type Span struct {
	From Time `json:"from"`
	To   Time `json:"to"`
}

// Answer is what a target answered to a fire.
type Answer struct {
	ContentType   string `json:"content_type,omitzero"`
	PayloadBase64 []byte `json:"payload_base64,omitzero"`
	Cut           bool   `json:"cut,omitzero"` // of a record: the payload is the beginning of a longer answer
}

func answerOf(a *rouse.Answer) *Answer {
	if a == nil {
		return nil
	}
	return &Answer{ContentType: a.ContentType, PayloadBase64: a.Payload, Cut: a.Cut}
}

// TimerOf returns the JSON form of a timer, or of a row next to one.
func TimerOf(t *rouse.Timer) Timer {
	o := Timer{Namespace: t.Key.Namespace, Name: t.Key.Name, Spec: SpecOf(&t.Spec), Generation: t.Generation,
		Revision: t.Revision,
		State:    t.State().String(), PauseReason: t.Reason, PausedAt: TimeOf(t.PausedAt), PauseUntil: TimeOf(t.Until),
		Created: TimeOf(t.Created), Updated: TimeOf(t.Updated),
		Anchor: TimeOf(t.Anchor), Due: TimeOf(t.Due), SentAt: TimeOf(t.SentAt(t.Due)), Visible: TimeOf(t.Visible),
		Skips:    t.Skips,
		Attempts: t.Attempts, Manual: t.Manual, Asked: t.Asked, Began: TimeOf(t.Began), LastError: t.LastError,
		Failures: attemptsOf(t.Failures),
		Waits:    waitsOf(t.Waits), Ended: t.Ended, Fired: t.Fired, Dead: t.Dead, Missed: t.Missed, Passed: t.Passed,
		FireID:          t.Key.Fire,
		ConsecutiveDead: t.ConsecutiveDead, Redacted: t.Redacted,
		Succeeded: TimeOf(t.Succeeded), ExpectFrom: TimeOf(t.ExpectFrom), Overdue: TimeOf(t.Overdue),
		Notice: t.Notice.String(), Answer: answerOf(t.Answer), ResolvedLimitKey: t.LimitKey}
	if st := t.Notices; st != (rouse.NoticeState{}) {
		o.Notices = &NoticeState{Alarmed: st.Alarmed, Since: TimeOf(st.Since), Events: st.Events}
	}
	for _, p := range t.Pauses {
		o.Pauses, o.PassTo = append(o.Pauses, Span{TimeOf(p.From), TimeOf(p.To)}), TimeOf(p.To)
	}
	if t.Backlog != (rouse.Span{}) {
		o.Backlog = &Span{TimeOf(t.Backlog.From), TimeOf(t.Backlog.To)}
	}
	if t.Paused || t.PauseCause != 0 {
		o.PauseCause = t.PauseCause.String()
	}
	for _, r := range t.Runs {
		o.Runs = append(o.Runs, TimeOf(r))
	}
	return o
}

// ExactTimerOf is TimerOf for a timer that is read again: a payload whose white space JSON would lose is in
// base64.
func ExactTimerOf(t *rouse.Timer) Timer {
	o := TimerOf(t)
	if o.Payload == nil {
		return o
	}
	if shown, err := Encode(o.Payload); err != nil || !bytes.Equal(shown, o.Payload) {
		o.Payload, o.PayloadBase64 = nil, t.Spec.Payload
	}
	return o
}

// Parse returns the timer in the words of rouse, for an import. It refuses members without a meaning with a
// *rouse.Invalid. As in the messages of gRPC, the bucket is not there, and the token of a timer in state
// accepted is 1, which no fire has.
func (o *Timer) Parse() (rouse.Timer, error) {
	spec, err := o.Spec.Parse()
	if err != nil {
		return rouse.Timer{}, err
	}
	state, err := rouse.ParseState(o.State)
	if err != nil {
		return rouse.Timer{}, err
	}
	if state.Detached() != (o.FireID != "") {
		return rouse.Timer{}, rouse.Refuse("fire_id", o.FireID, "does not go with state "+o.State,
			"rows in state firing or dead have one, timers do not")
	}
	t := rouse.Timer{Key: rouse.Key{Namespace: o.Namespace, Name: o.Name, Fire: o.FireID}, Generation: o.Generation,
		Revision: o.Revision,
		Spec:     spec, Paused: state == rouse.StatePaused, Reason: o.PauseReason, PausedAt: o.PausedAt.Instant(),
		Until: o.PauseUntil.Instant(), Created: o.Created.Instant(),
		Updated: o.Updated.Instant(), Anchor: o.Anchor.Instant(), Due: o.Due.orNever(), Visible: o.Visible.orNever(),
		Skips:    o.Skips,
		Attempts: o.Attempts, Manual: o.Manual, Asked: o.Asked, Began: o.Began.Instant(), LastError: o.LastError,
		Ended: o.Ended,
		Fired: o.Fired, Dead: o.Dead, Missed: o.Missed, Passed: o.Passed, Live: state == rouse.StateFiring,
		ConsecutiveDead: o.ConsecutiveDead, Redacted: o.Redacted,
		Succeeded: o.Succeeded.Instant(), ExpectFrom: o.ExpectFrom.Instant(), Overdue: o.Overdue.Instant(),
		LimitKey: o.ResolvedLimitKey}
	if st := o.Notices; st != nil {
		t.Notices = rouse.NoticeState{Alarmed: st.Alarmed, Since: st.Since.Instant(), Events: st.Events}
	}
	if t.Notice, err = rouse.ParseNotice(o.Notice); err != nil {
		return rouse.Timer{}, err
	}
	for _, p := range o.Pauses {
		t.Pauses = append(t.Pauses, rouse.Span{From: p.From.Instant(), To: p.To.Instant()})
	}
	if o.PassTo != 0 && len(t.Pauses) == 0 {
		t.Pauses = rouse.PausedUntil(o.PassTo.Instant())
	}
	if b := o.Backlog; b != nil {
		t.Backlog = rouse.Span{From: b.From.Instant(), To: b.To.Instant()}
	}
	if a := o.Answer; a != nil {
		t.Answer = &rouse.Answer{ContentType: a.ContentType, Payload: a.PayloadBase64, Cut: a.Cut}
	}
	if t.PauseCause, err = rouse.ParsePauseCause(o.PauseCause); err != nil {
		return rouse.Timer{}, err
	}
	for _, r := range o.Runs {
		t.Runs = append(t.Runs, r.Instant())
	}
	for _, a := range o.Failures {
		t.Failures = append(t.Failures, rouse.Attempt{Sent: a.Sent.Instant(), Took: time.Duration(a.Took), Code: a.Code,
			Detail: a.Detail})
	}
	for i, w := range o.Waits {
		cause, ok := rouse.ParseCause(w.Cause)
		if !ok {
			return rouse.Timer{}, rouse.Refuse(fmt.Sprintf("waits[%d].cause", i), w.Cause, "is no cause",
				"send what a list returned")
		}
		t.Waits = append(t.Waits, rouse.Wait{Cause: cause, From: w.From.Instant(), To: w.To.Instant()})
	}
	if state == rouse.StateAccepted {
		t.Token = 1
	}
	if is := t.State(); is != state {
		return rouse.Timer{}, rouse.Refuse("state", o.State,
			"does not go with the other members, which are those of state "+is.String(), "send what a list returned")
	}
	return t, nil
}

// NewTimer asks for a new timer. Without a name one is made up.
type NewTimer struct {
	Name string `json:"name,omitzero" schema:"Name"` // without one a name is made up
	Spec
}

// CreateTimer asks for a new timer, or, with debounce or throttle, for one fire of many calls. Without a name
// one is made up.
type CreateTimer struct {
	Name         string `json:"name,omitzero" schema:"Name"` // without one a name is made up
	ValidateOnly bool   `json:"validate_only,omitzero"`      // all checks are made, and nothing is written
	Spec
	Coalesce `schema:"replaces=schedule"`
}

// PutTimer asks for a timer of the name in the request's path.
type PutTimer struct {
	Name             string `json:"name,omitzero" schema:"Name"` // if given, the one of the path
	ExpectedRevision uint64 `json:"expected_revision,omitzero"`
	ValidateOnly     bool   `json:"validate_only,omitzero"` // all checks are made, and nothing is written
	Spec
	Coalesce `schema:"replaces=schedule"`
}

// Coalesce makes one fire of many calls with one name. The spec then has no schedule.
type Coalesce struct {
	Debounce *Debounce `json:"debounce,omitzero"`
	Throttle *Throttle `json:"throttle,omitzero"`
}

// Coalesced returns the coalescing of the members; nil if they are left out. It refuses, with a
// *rouse.Invalid, a debounce or throttle without its time; the rest is for rouse.Coalesce.Check.
func (o *Coalesce) Coalesced() (*rouse.Coalesce, error) {
	var c rouse.Coalesce
	if d := o.Debounce; d != nil {
		if d.Quiet == 0 {
			return nil, rouse.Refuse("debounce.quiet", "", "is missing", "say how long there must be no call")
		}
		c.Quiet, c.MaxWait = time.Duration(d.Quiet), time.Duration(d.MaxWait)
	}
	if t := o.Throttle; t != nil {
		if t.Every == 0 {
			return nil, rouse.Refuse("throttle.every", "", "is missing", "say how long it is between fires at least")
		}
		c.Every = time.Duration(t.Every)
	}
	if c == (rouse.Coalesce{}) {
		return nil, nil
	}
	return &c, nil
}

// Debounce fires when there was no call for a while.
type Debounce struct {
	Quiet   Duration `json:"quiet"`             // fire when there was no call for so long
	MaxWait Duration `json:"max_wait,omitzero"` // but at most so long after the first call; default no bound
}

// Throttle fires at once, then at most once in so long.
type Throttle struct {
	Every Duration `json:"every"` // fire at once, then at most once in so long
}

// BatchCreate asks for many timers.
type BatchCreate struct {
	// create_only (the default), create_or_replace or replace_only
	Mode   string     `json:"mode,omitzero" schema:"enum=create_only|create_or_replace|replace_only,default=create_only"`
	Timers []NewTimer `json:"timers" schema:"maxItems=5000"`

	ValidateOnly bool `json:"validate_only,omitzero"` // all checks are made, and nothing is written
}

// BatchCreated is the answer to BatchCreate: the result of each timer, in the order of the request.
type BatchCreated struct {
	Created []Created `json:"created"`
	Failed  int       `json:"failed" schema:"Number"` // how many of them have a problem
}

// Created is the result of one timer of a batch. With a problem it was not created.
type Created struct {
	Name       string   `json:"name,omitzero" schema:"Name"`
	Generation uint64   `json:"generation,omitzero"`
	Revision   uint64   `json:"revision,omitzero"`
	Due        Time     `json:"due,omitzero"`
	InFlight   bool     `json:"in_flight,omitzero"` // as in Timer
	Unchanged  bool     `json:"unchanged,omitzero"` // as in Timer
	Notes      []string `json:"notes,omitempty"`    // as in Timer
	Problem    *Problem `json:"problem,omitzero"`
}

// TimerList is a page of timers or dead letters.
type TimerList struct {
	Timers        []Timer `json:"timers"`
	NextPageToken string  `json:"next_page_token,omitzero"` // left out at the end; a page can be empty before that
	// only if the search stopped at its bound, before the page was full: how many timers it compared
	Searched int64 `json:"searched,omitzero"`
	Of       int64 `json:"of,omitzero"` // so many there are at most
}

// Count is how many timers match.
type Count struct {
	Count int64 `json:"count" schema:"Number"`
}

// Deleted is the answer to a delete.
type Deleted struct {
	// an attempt had started already and may still arrive; none starts after this answer
	InFlight   bool   `json:"in_flight"`
	Generation uint64 `json:"generation"`
}

// Pause is why a timer is paused, and for how long.
type Pause struct {
	Reason string `json:"reason,omitzero" schema:"maxLength=256"`
	Until  Time   `json:"until,omitzero"` // when the pause ends by itself; default never
}

// Ran is the answer to a run that was asked for.
type Ran struct {
	FireID string `json:"fire_id" schema:"FireID"`
	Due    Time   `json:"due"`
}

// Skip gives up the next occurrences.
type Skip struct {
	Count  uint32 `json:"count,omitzero" schema:"maximum=10000,default=1"` // default 1
	Reason string `json:"reason,omitzero" schema:"maxLength=256"`
}

// Reschedule changes when a timer fires. What is left out of it has its default, not what the timer had.
type Reschedule struct {
	ExpectedRevision uint64 `json:"expected_revision,omitzero"`
	ValidateOnly     bool   `json:"validate_only,omitzero"` // all checks are made, and nothing is written
	When
}

// Backfill asks for the occurrences that a range of time had.
type Backfill struct {
	From   Time `json:"from"`  // the first due time
	Until  Time `json:"until"` // before this one; not after now
	DryRun bool `json:"dry_run,omitzero"`
	// at most so many start in a second, 0.01 to 10,000; left out, all start now
	PerSecond float64 `json:"per_second,omitzero"`
}

// Backfilled is the answer to Backfill.
type Backfilled struct {
	Count   uint64   `json:"count"`   // occurrences of the range
	Waiting uint64   `json:"waiting"` // of them on their way already, so that nothing was done
	Fires   []Coming `json:"fires"`   // the first hundred
}

// Redrive gives a dead letter new attempts.
type Redrive struct {
	// with the target, payload, headers and policies that its timer has now, instead of those that it had
	// when it died
	WithCurrentSpec bool `json:"with_current_spec,omitzero"`
}

// Redriven is the answer to Redrive.
type Redriven struct {
	Target string `json:"target"` // that it goes to
}

// ReportCheck reports on the work of a check, which runs elsewhere.
type ReportCheck struct {
	Status string `json:"status,omitzero" schema:"enum=start|success|fail,default=success"`
	Log    string `json:"log,omitzero" schema:"maxLength=10240"` // its output, at most 10 KiB
}

// Reported is the answer to ReportCheck.
type Reported struct {
	ExpectedBy Time `json:"expected_by,omitzero"` // by when it has to succeed next; left out: it has not to
}

// Import writes timers, dead letters and calendars as lists returned them, with their state.
type Import struct {
	// for timers whose name is taken
	Mode   string  `json:"mode,omitzero" schema:"enum=create_only|create_or_replace|replace_only,default=create_only"`
	Timers []Timer `json:"timers,omitzero" schema:"maxItems=1000"` // up to 1,000
	// written before the timers; they replace those of their names
	Calendars []Calendar `json:"calendars,omitzero" schema:"maxItems=100"`
}

// Version is which server answers.
type Version struct {
	Version string `json:"version"`
	API     string `json:"api"`
	Go      string `json:"go"`
}

// TimerPath returns where the HTTP API has a timer. A ':' within a name is escaped: unescaped it begins a
// verb.
func TimerPath(namespace, name string) string {
	return "/v1/namespaces/" + url.PathEscape(namespace) + "/timers/" +
		strings.ReplaceAll(url.PathEscape(name), ":", "%3A")
}

// Badge is the state of a timer in one word, and where it is shown without credentials.
type Badge struct {
	State string `json:"state" schema:"enum=ok|late|failing|paused|new"`
	// of the picture; with .json in place of .svg it is the data of an endpoint badge of shields.io
	Path string `json:"path"`
}
