package rouse

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"time"
)

// State is the state of a row, such as scheduled or dead. It follows from the timer's other fields; stores
// keep it to filter lists.
type State uint8

const (
	StateScheduled State = iota + 1 // waits for its due time
	StateRetrying                   // an attempt failed; waits for the next
	StateAccepted                   // the receiver answered 202 and will report through the API
	StatePaused                     // fires nothing but runs asked for
	StateDead                       // a dead letter
	StateFiring                     // an occurrence in flight next to its timer: overlapping, backfilled or redriven
	StateEnded                      // the schedule has ended; the row is kept for a while
	StateNote                       // no timer: a row that rouse keeps for itself, such as a calendar
	StateOverdue                    // the expectation of a timer that has not succeeded in time, a row next to the timer
)

var stateNames = [...]string{StateScheduled: "scheduled", StateRetrying: "retrying", StateAccepted: "accepted",
	StatePaused: "paused", StateDead: "dead",
	StateFiring: "firing", StateEnded: "ended", StateNote: "note", StateOverdue: "overdue"}

func (s State) String() string {
	if s == 0 || int(s) >= len(stateNames) {
		return "unknown"
	}
	return stateNames[s]
}

// ParseState reads the name of a state.
func ParseState(name string) (State, error) {
	if i := slices.Index(stateNames[:], name); i > 0 && State(i) != StateNote {
		return State(i), nil
	}
	return 0, Refuse("state", name, "is no state",
		"give one of scheduled, retrying, accepted, paused, ended, firing, dead, overdue")
}

// Detached reports whether rows of the state belong to a timer instead of being one: lists show them only on
// request.
func (s State) Detached() bool {
	return s == StateDead || s == StateFiring || s == StateNote || s == StateOverdue
}

// ListedStates are the states of timers: those that a Query without States returns.
var ListedStates = []State{StateScheduled, StateRetrying, StateAccepted, StatePaused, StateEnded}

// EveryState are those of all rows that a store has.
var EveryState = slices.Concat(ListedStates, []State{StateDead, StateFiring, StateNote, StateOverdue})

// AllStates are those of all rows that clients see: of timers, of occurrences next to them, and of dead
// letters.
var AllStates = slices.Concat(ListedStates, []State{StateFiring, StateDead})

// Timer is the durable row in its readable form.
type Timer struct {
	Key        Key
	Bucket     uint32
	Generation uint64
	Revision   uint64
	Spec       Spec

	// LimitKey is the key that Spec.LimitKey stands for, if that has references (Spec.ExpandLimitKey); empty
	// if it has none.
	LimitKey string

	Paused     bool
	PauseCause PauseCause // why it is paused, for programs; Reason has the details, for people
	Reason     string
	PausedAt   Instant // when the pause began; 0: it is not paused, or was by a version that did not keep this
	Until      Instant // when the pause ends by itself; 0 is never
	Created    Instant
	Updated    Instant // by a client
	Anchor     Instant // where a fixed interval's phase starts

	Visible Instant   // when the row next needs attention
	Due     Instant   // of the scheduled occurrence that is next or in progress; Never when the schedule has ended
	Runs    []Instant // runs asked for and not ended, oldest first
	Skips   uint32    // how many occurrences after the one in progress are to be skipped
	// pauses that are over, oldest first, at most MaxPauses: occurrences due after From, until To, are
	// skipped when their turn comes
	Pauses  []Span
	Backlog Span   // occurrences due in it came due while another one was in progress; empty when none of them is left
	Waits   []Wait // causes that keep the next scheduled occurrence from beginning, oldest first, at most MaxWaits

	// The occurrence in progress, if Attempts is not 0: the scheduled one at Due, or Runs[0] if Manual.
	Attempts  uint32 // spent
	Manual    bool
	Token     uint64  // not 0: the receiver accepted the attempt with this fencing token and will report until Visible
	Began     Instant // when its first attempt was sent
	LastError string
	Failures  []Attempt // the latest that failed, oldest first, at most MaxFailures

	// Lost is how many receivers in a row have gone with the occurrence in hand. An attempt that is stored
	// before its receiver can have gone counts from then on: see Lane.Spend.
	Lost uint32

	Ended  uint64 // how many occurrences have ended, however they did
	Passed uint64 // how many of them the schedule made; Spec.MaxOccurrences limits it

	// How many of the ended occurrences fired, ended as dead letters and were missed; the others were
	// skipped. Detached occurrences (OverlapAllow) are in none of these.
	Fired, Dead, Missed uint64

	// ConsecutiveDead is how many occurrences of the schedule have ended as dead letters since the last one
	// that fired, or since the timer was resumed. It is counted for Spec.PauseAfter only.
	ConsecutiveDead uint32

	// Of a timer with Spec.Expect, and in part of the row of its expectation:
	Succeeded  Instant // when an occurrence of it ended last as fired; 0: none did
	ExpectFrom Instant // when it was created, replaced or resumed: from then on it has to succeed
	Overdue    Instant // by when it had to succeed, if it has not since; 0: it is not overdue

	Notices NoticeState // of a timer with notices, by Spec.Notify or a NotifyRule

	Trace *TraceContext // of the call that created or replaced it; nil if that had none, or was not traced

	// of a timer that is kept after its schedule has ended: the answer to its last occurrence; of a check:
	// the log of its last report; nil if there is none
	Answer *Answer

	// Of a row next to its timer (Key.Fire is not empty):
	Live  bool // it is on its way, not dead
	Asked bool // a client asked for it, by redrive or backfill, or it is a notice: it has no deadline

	Notice Notice // it is a notice about its timer, to Spec.TargetOf; 0: it is an occurrence
	// it is an occurrence that ended with its timer for this cause, unless a record shows otherwise by then;
	// 0: it is not
	Cut Cause

	// Redacted is set if payload, headers, answer and the texts of failures are left out, because the caller
	// may not see them. It is not stored.
	Redacted bool
}

// Span is the time from From on until To, both included. The zero Span is empty.
type Span struct{ From, To Instant }

// Attempt is how one attempt of an occurrence failed.
type Attempt struct {
	Sent   Instant
	Took   time.Duration // in whole milliseconds
	Code   int
	Detail string // at most MaxFailureDetail bytes
}

// MaxFailures and MaxFailureDetail bound the stored data about failed attempts.
const (
	MaxFailures      = 8
	MaxFailureDetail = 128
)

// State returns the state of the timer.
func (t *Timer) State() State {
	switch {
	case t.Key.Fire == ExpectFire && t.Overdue != 0:
		return StateOverdue
	case t.Key.Fire == ExpectFire, t.Cut != 0:
		return StateNote
	case t.Key.Fire != "" && t.Live:
		return StateFiring
	case t.Key.Fire != "":
		return StateDead
	case t.Paused:
		return StatePaused
	case t.Token != 0:
		return StateAccepted
	case t.Attempts != 0:
		return StateRetrying
	case t.Over():
		return StateEnded
	}
	return StateScheduled
}

// Occurrence is one logical time of a timer, with the attempt that it is at.
type Occurrence struct {
	Due     Instant
	Manual  bool
	Attempt uint32 // the number of the next attempt, or of the one in progress
}

// Current returns the occurrence that is next or in progress. ok is false if the timer has ended, if it is
// paused and no run was requested, if it is a check, or if the row is a dead letter.
func (t *Timer) Current() (o Occurrence, ok bool) {
	manual := len(t.Runs) > 0 && (t.Attempts == 0 || t.Manual)
	switch {
	case t.Key.Fire != "" && !t.Live:
		return Occurrence{}, false
	case manual:
		return Occurrence{t.Runs[0], true, t.Attempts + 1}, true
	case t.Due == Never || t.Paused && t.Attempts == 0 || t.Spec.IsCheck():
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
		At:         t.firstSentAt(o),
		Attempt:    o.Attempt,
		Token:      t.Revision,
		Manual:     o.Manual,
		Last:       o.Attempt >= t.Spec.Retry.Effective().Attempts,
		Lost:       t.Lost,
		Spec:       &t.Spec,
		Origin:     t.Trace,
		Bucket:     t.Bucket,
	}
}

// firstSentAt returns when an occurrence is first sent: when it is due, or later by its jitter.
func (t *Timer) firstSentAt(o Occurrence) Instant {
	if o.Manual {
		return o.Due
	}
	return t.SentAt(o.Due)
}

// SentAt returns when the scheduled occurrence of a due time is first sent. The jitter in it is a function of
// namespace, name and due time, so it is the same on every node and after every restart.
func (t *Timer) SentAt(due Instant) Instant {
	if t.Spec.Jitter <= 0 || due == Never {
		return due
	}
	h := fnv.New64a()
	h.Write([]byte(t.Key.Namespace))
	h.Write([]byte{0})
	h.Write([]byte(t.Key.Name))
	var buf [9]byte
	binary.LittleEndian.PutUint64(buf[1:], uint64(due))
	h.Write(buf[:])
	return due.Add(time.Duration(mixBits(h.Sum64())%uint64(t.Spec.Jitter/time.Millisecond+1)) * time.Millisecond)
}

// mixBits spreads differences in few bits over all bits (the finalizer of MurmurHash3).
func mixBits(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
