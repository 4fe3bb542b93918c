package rouse

import "slices"

// Cause is why an occurrence ended: one of a closed set. It is set where the end is decided. Records store
// its number, so numbers are never reused; APIs and logs show its name.
type Cause uint8

// The causes. Next to each are the endings that it goes with.
const (
	CauseUnknown Cause = 0 // any: the record was written before records had causes, or by a later version

	CauseDelivered Cause = 1 // fired: the target has it

	CauseRejected          Cause = 2 // dead: the target refused it permanently
	CauseAttemptsExhausted Cause = 3 // dead: its last attempt failed
	CauseGiveUp            Cause = 4 // dead: the next attempt would have come after the retry policy's give_up
	CauseGone              Cause = 5 // dead: the target asked for no further fires of the timer
	CauseDeadline          Cause = 6 // dead: it had begun, and its deadline passed before the next attempt

	CausePaused           Cause = 7 // skipped, missed: the timer was paused when it was due
	CauseSkippedByRequest Cause = 8 // skipped: a client asked for it
	CauseDeleted          Cause = 9 // skipped: the timer was deleted while it was in progress
	// skipped: the timer was replaced, rescheduled or merged with a newer call while it was in progress
	CauseReplaced Cause = 10
	// skipped, missed: another occurrence of the timer was in progress when it was due; the record names it
	CauseOverlapped Cause = 11
	// missed: no server ran that could send it, or the node that had it stopped or was suspended
	CauseServerDown        Cause = 12
	CauseStoreUnavailable  Cause = 13 // missed: the store did not answer
	CauseClockMoved        Cause = 14 // missed: the store's clock was set forward, or its machine was suspended
	CauseNoSubscriber      Cause = 15 // missed: nothing was there to take it: no subscriber, worker, sidecar or function
	CauseCircuitOpen       Cause = 16 // missed: its target kept failing, so that nothing was sent to it
	CauseBrokerUnavailable Cause = 17 // missed: the broker or queue that leads to its target could not be reached
	CauseRateLimited       Cause = 18 // missed: it waited for a rate: its target's, its namespace's or that of catching up
	// missed: it waited for its turn: behind other fires of its target, or in a node that was behind
	CauseBacklog      Cause = 19
	CauseDeferred     Cause = 20 // missed: the sink of its target put it off and gave no cause
	CauseCreatedLate  Cause = 21 // missed: the timer was created or imported after it was due
	CauseInvalid      Cause = 22 // dead: the draft that a transaction wrote was invalid
	CauseOverlapLimit Cause = 23 // skipped: as many occurrences of the timer were in progress as may be
	CauseNoSecret     Cause = 24 // missed: a secret that its request needs did not exist, could not be opened, or gave no token
	CauseNotice       Cause = 25 // fired: a notice or a callback (Spec.TargetOf), no occurrence of the schedule
	CausePoison       Cause = 26 // dead: as many receivers in a row as may be have gone with it in hand
	CauseLimit        Cause = 27 // missed: it waited for its named limit
	CauseReported     Cause = 28 // fired, dead: the work of a check reported this
	CauseNotReported  Cause = 29 // missed: the work of a check has not reported a success in time
	CauseNoticeLimit  Cause = 30 // skipped: as many notices and callbacks of the timer or its namespace waited as may be
	lastCause               = CauseNoticeLimit
)

// causes are the names of the causes, and the endings that they go with.
var causes = [lastCause + 1]struct {
	name    string
	endings []Ending
}{
	CauseUnknown:           {"unknown", []Ending{EndFired, EndDead, EndSkipped, EndMissed}},
	CauseDelivered:         {"delivered", []Ending{EndFired}},
	CauseRejected:          {"rejected", []Ending{EndDead}},
	CauseAttemptsExhausted: {"attempts_exhausted", []Ending{EndDead}},
	CauseGiveUp:            {"give_up", []Ending{EndDead}},
	CauseGone:              {"gone", []Ending{EndDead}},
	CauseDeadline:          {"deadline", []Ending{EndDead}},
	CausePaused:            {"paused", []Ending{EndSkipped, EndMissed}},
	CauseSkippedByRequest:  {"skipped_by_request", []Ending{EndSkipped}},
	CauseDeleted:           {"deleted", []Ending{EndSkipped}},
	CauseReplaced:          {"replaced", []Ending{EndSkipped}},
	CauseOverlapped:        {"overlapped", []Ending{EndSkipped, EndMissed}},
	CauseServerDown:        {"server_down", []Ending{EndMissed}},
	CauseStoreUnavailable:  {"store_unavailable", []Ending{EndMissed}},
	CauseClockMoved:        {"clock_moved", []Ending{EndMissed}},
	CauseNoSubscriber:      {"no_subscriber", []Ending{EndMissed}},
	CauseCircuitOpen:       {"circuit_open", []Ending{EndMissed}},
	CauseBrokerUnavailable: {"broker_unavailable", []Ending{EndMissed}},
	CauseRateLimited:       {"rate_limited", []Ending{EndMissed}},
	CauseBacklog:           {"backlog", []Ending{EndMissed}},
	CauseDeferred:          {"deferred", []Ending{EndMissed}},
	CauseCreatedLate:       {"created_late", []Ending{EndMissed}},
	CauseOverlapLimit:      {"overlap_limit", []Ending{EndSkipped}},
	CauseInvalid:           {"invalid", []Ending{EndDead}},
	CauseNoSecret:          {"no_secret", []Ending{EndMissed}},
	CauseNotice:            {"notice", []Ending{EndFired}},
	CausePoison:            {"poison", []Ending{EndDead}},
	CauseLimit:             {"limit", []Ending{EndMissed}},
	CauseReported:          {"reported", []Ending{EndFired, EndDead}},
	CauseNotReported:       {"not_reported", []Ending{EndMissed}},
	CauseNoticeLimit:       {"notice_limit", []Ending{EndSkipped}},
}

func (c Cause) String() string {
	if c > lastCause {
		return causes[CauseUnknown].name
	}
	return causes[c].name
}

// ParseCause reads the name of a cause.
func ParseCause(name string) (c Cause, ok bool) {
	for c := range causes {
		if causes[c].name == name {
			return Cause(c), true
		}
	}
	return CauseUnknown, false
}

// isMissedCause reports whether the cause belongs to EndMissed, so that a deferral may have it.
func (c Cause) isMissedCause() bool {
	return c <= lastCause && c != CauseUnknown && slices.Contains(causes[c].endings, EndMissed)
}

// Causes returns the causes of an ending, except CauseUnknown.
func Causes(e Ending) (list []Cause) {
	for c := CauseUnknown + 1; c <= lastCause; c++ {
		if slices.Contains(causes[c].endings, e) {
			list = append(list, c)
		}
	}
	return list
}

// Wait is a time in which the next occurrence of a timer was due and could not begin, or be settled, and the
// cause.
type Wait struct {
	Cause    Cause
	From, To Instant
}

// MaxWaits bounds the waits of a timer that are kept: the latest ones.
const MaxWaits = 4

// Waited records that the timer's next occurrence could not begin, or be settled, between two times. A wait
// that continues the last one, for the same cause, extends it. The previous slice of t is not changed.
func (t *Timer) Waited(c Cause, from, to Instant) {
	if n := len(t.Waits); n > 0 {
		last := t.Waits[n-1]
		from = max(from, last.To)
		if last.Cause == c && from.Sub(last.To) <= unbroken {
			t.Waits = slices.Clone(t.Waits)
			t.Waits[n-1].To = max(last.To, to)
			return
		}
	}
	if to <= from {
		return
	}
	kept := t.Waits
	if len(kept) >= MaxWaits {
		kept = kept[len(kept)-MaxWaits+1:]
	}
	t.Waits = append(slices.Clip(slices.Clone(kept)), Wait{c, from, to})
}

// streak is the time in which occurrences of a timer were in progress, one right after another, and the last
// of them. The zero value is no streak.
type streak struct {
	Span
	occ Occurrence
}
