package rouse

import (
	"slices"
	"strings"
	"time"
)

// State is what a row is doing. It follows from the timer's other fields; stores keep it to filter lists.
type State uint8

const (
	StateScheduled State = iota + 1 // waits for its due time
	StateRetrying                   // an attempt failed; waits for the next
	StateAccepted                   // the receiver answered 202 and will report through the API
	StatePaused                     // fires nothing but runs asked for
	StateDead                       // a dead letter
)

var stateNames = [...]string{StateScheduled: "scheduled", StateRetrying: "retrying", StateAccepted: "accepted", StatePaused: "paused", StateDead: "dead"}

func (s State) String() string {
	if s == 0 || int(s) >= len(stateNames) {
		return "unknown"
	}
	return stateNames[s]
}

// ParseState reads the name of a state.
func ParseState(name string) (State, error) {
	if i := slices.Index(stateNames[:], name); i > 0 {
		return State(i), nil
	}
	return 0, Refuse("state", name, "is no state", "give one of scheduled, retrying, accepted, paused, dead")
}

// Spec is what a client says about a timer. Zero fields have the defaults that their comments name.
type Spec struct {
	Schedule    string // when: an RFC 3339 instant, "@after 90s", "@every 5m", cron and more: docs/schedules.md
	Timezone    string // IANA name that a cron expression or calendar period is read in; empty is UTC; refused elsewhere
	Target      string // where: a URL whose scheme names the sink
	Payload     []byte // what
	ContentType string // of the payload; empty with a payload is application/octet-stream
	Labels      map[string]string
	Retry       Retry
	Misfire     Misfire
	Webhook     Webhook
}

// Retry says how often an occurrence is attempted, and when again: the n-th retry comes Interval·2^(n-1) plus a jitter of
// up to Jitter after the failure, at most Max.
type Retry struct {
	Attempts uint32        // in all, the first included; default 8
	Interval time.Duration // default 1 s
	Max      time.Duration // default 10 min
	Jitter   time.Duration // default 500 ms; negative is none
	Timeout  time.Duration // of one attempt; default 30 s
}

// DefaultRetry has the values that zero fields stand for.
var DefaultRetry = Retry{Attempts: 8, Interval: time.Second, Max: 10 * time.Minute, Jitter: 500 * time.Millisecond, Timeout: 30 * time.Second}

// Effective returns r with defaults in place of zero fields.
func (r Retry) Effective() Retry {
	d := DefaultRetry
	if r.Attempts != 0 {
		d.Attempts = r.Attempts
	}
	if r.Interval != 0 {
		d.Interval = r.Interval
	}
	if r.Max != 0 {
		d.Max = r.Max
	} else if d.Max < d.Interval {
		d.Max = d.Interval
	}
	if r.Jitter != 0 {
		d.Jitter = max(0, r.Jitter)
	}
	if r.Timeout != 0 {
		d.Timeout = r.Timeout
	}
	return d
}

// Misfire says what becomes of occurrences that nobody noticed in time, because nothing ran or an earlier one took long.
type Misfire uint8

const (
	MisfireLatest Misfire = iota // the default: the latest one fires, late; the ones before it are recorded as missed
	MisfireAll                   // all fire, in order
	MisfireSkip                  // those that a later one has overtaken do not fire, nor does that; all are recorded as missed
)

var misfireNames = [...]string{MisfireLatest: "latest", MisfireAll: "all", MisfireSkip: "skip"}

func (m Misfire) String() string {
	if int(m) >= len(misfireNames) {
		return "unknown"
	}
	return misfireNames[m]
}

// ParseMisfire reads a misfire policy; empty is the default.
func ParseMisfire(name string) (Misfire, error) {
	if name == "" {
		return MisfireLatest, nil
	}
	if i := slices.Index(misfireNames[:], name); i >= 0 {
		return Misfire(i), nil
	}
	return 0, Refuse("misfire", name, "is no misfire policy", "give one of latest, all, skip")
}

// Webhook holds what concerns webhook targets only.
type Webhook struct {
	Method     string            // default POST
	Headers    map[string]string // sent with each request
	Structured bool              // CloudEvents structured mode instead of binary mode
	Batch      uint32            // up to so many fires to one URL in one request (CloudEvents batch); 0 and 1 are single requests
	Accept     time.Duration     // how long after a 202 the receiver may take to report; default 10 min
}

// DefaultAccept is how long a receiver that answered 202 may take when the timer does not say.
const DefaultAccept = 10 * time.Minute

// Timer is the durable row in its readable form.
type Timer struct {
	Key        Key
	Bucket     uint32
	Generation uint64
	Revision   uint64
	Spec       Spec

	Paused  bool
	Reason  string // why it is paused
	Created Instant
	Updated Instant // by a client
	Anchor  Instant // where a fixed interval's phase starts

	Visible Instant   // when the row next needs attention
	Due     Instant   // of the scheduled occurrence that is next or in progress; Never when the schedule has ended
	Runs    []Instant // runs asked for and not ended, oldest first

	// The occurrence in progress, if Attempts is not 0: the scheduled one at Due, or Runs[0] if Manual.
	Attempts  uint32 // spent
	Manual    bool
	Token     uint64 // not 0: the receiver accepted the attempt with this fencing token and will report until Visible
	LastError string

	Ended uint64 // how many occurrences have ended, however they did
}

// Recurring says whether the schedule can have more than one occurrence.
func (s *Spec) Recurring() bool {
	return len(s.Schedule) > 0 && !isOneShot(s.Schedule)
}

// isOneShot tells the forms apart by their first bytes: "@after …" or an RFC 3339 instant, "YYYY-…". No number in a cron
// expression has four digits.
func isOneShot(s string) bool {
	if strings.HasPrefix(s, "@after ") {
		return true
	}
	if len(s) < 5 || s[4] != '-' {
		return false
	}
	for _, c := range []byte(s[:4]) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// State returns what the timer is doing.
func (t *Timer) State() State {
	switch {
	case t.Key.Fire != "":
		return StateDead
	case t.Paused:
		return StatePaused
	case t.Token != 0:
		return StateAccepted
	case t.Attempts != 0:
		return StateRetrying
	}
	return StateScheduled
}

// Occurrence is one logical time of a timer, with the attempt that it is at.
type Occurrence struct {
	Due     Instant
	Manual  bool
	Attempt uint32 // the number of the next attempt, or of the one in progress
}

// Current returns the occurrence that is next or in progress. ok is false when there is none: the timer has ended, or it is
// paused with no run asked for.
func (t *Timer) Current() (o Occurrence, ok bool) {
	manual := len(t.Runs) > 0
	if t.Attempts != 0 {
		manual = t.Manual
	}
	switch {
	case manual:
		return Occurrence{t.Runs[0], true, t.Attempts + 1}, true
	case t.Due == Never || t.Paused && t.Attempts == 0:
		return Occurrence{}, false
	}
	return Occurrence{t.Due, false, t.Attempts + 1}, true
}

// Fire returns the fire of an occurrence of the timer.
func (t *Timer) Fire(o Occurrence) Fire {
	return Fire{
		ID:         FireID(t.Key.Namespace, t.Key.Name, t.Generation, o.Due, o.Manual),
		Namespace:  t.Key.Namespace,
		Name:       t.Key.Name,
		Generation: t.Generation,
		Due:        o.Due,
		Attempt:    o.Attempt,
		Token:      t.Revision,
		Manual:     o.Manual,
		Last:       o.Attempt >= t.Spec.Retry.Effective().Attempts,
		Spec:       &t.Spec,
	}
}
