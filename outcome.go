package rouse

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// Verdict is a sink's result of an attempt.
type Verdict uint8

const (
	Done     Verdict = iota + 1 // the target has it
	Accepted                    // the target has it and reports later, until Outcome.After from now
	Failed                      // it failed; another attempt may succeed, after Outcome.After if that is set
	Rejected                    // it failed, and would again: dead letter
	Gone                        // the target asked for no further fires of this timer
	Deferred                    // it was not attempted; look again after Outcome.After; no attempt is spent
	// it was not attempted, as the timer's deadline has passed; the engine's own word, not for sinks
	Expired
)

var verdictNames = [...]string{Done: "done", Accepted: "accepted", Failed: "failed", Rejected: "rejected", Gone: "gone",
	Deferred: "deferred", Expired: "expired"}

func (v Verdict) String() string {
	if v == 0 || int(v) >= len(verdictNames) {
		return "unknown"
	}
	return verdictNames[v]
}

// Outcome is how an attempt ended. Times are durations from the moment of the report, because a sink has no
// store clock.
type Outcome struct {
	Verdict Verdict
	// Accepted: the deadline; Failed: when to try again, 0 for the timer's own backoff, AtOnce for now;
	// Deferred: when to look again
	After time.Duration
	Code  int // the status that the technology gave, such as 503; 0 if none
	// Deferred: the obstacle to the attempt, one of those of EndMissed; CauseDeferred if it is not given
	Cause     Cause
	Unreached bool   // Failed: the host of the target could not be reached
	Lost      bool   // Failed, and Deferred without an attempt: the receiver has gone with it in hand
	Detail    string // the error, or the head of the answer; stored up to MaxDetail bytes

	// Answer is the target's answer, where a kind of target has answers that a client can fetch. Of the last
	// occurrence of a timer that is kept (Spec.Keep) it is kept with it, and of each occurrence with its
	// record if Spec.KeepAnswer is set; else it is not stored.
	Answer *Answer
}

// Answered is the text of a code and a detail, as people read them. A detail that begins with the code, as
// that of a webhook does, is not preceded by it again.
func Answered(code int, detail string) string {
	if code == 0 {
		return detail
	}
	text := strconv.Itoa(code)
	if first, _, _ := strings.Cut(detail, " "); strings.TrimSuffix(first, ":") == text {
		return detail
	}
	return strings.TrimSpace(text + " " + detail)
}

// Answer is a target's reply to a fire. It is not changed once it is in an Outcome.
type Answer struct {
	ContentType string // empty if it was not given
	Payload     []byte // at most MaxPayload bytes
	Cut         bool   // of a Record: Payload is the beginning of a longer answer
}

// cleanAnswer returns the answer with a printable content type; a target may send anything.
func (a *Answer) cleanAnswer() *Answer {
	if a == nil || textFault(a.ContentType, MaxContentType) == "" {
		return a
	}
	return &Answer{ContentType: CleanText(a.ContentType, MaxContentType), Payload: a.Payload}
}

// MaxKeptAnswer is the largest Spec.KeepAnswer, in bytes. Lists of records have the answers, too.
const MaxKeptAnswer = 16 << 10

// recordedAnswer returns the answer as a record has it, at most n bytes; nil if that is nothing.
func (a *Answer) recordedAnswer(n int) *Answer {
	if n == 0 || a == nil || len(a.Payload) == 0 {
		return nil
	}
	clean := *a.cleanAnswer()
	if len(clean.Payload) > n {
		clean.Payload, clean.Cut = bytes.Clone(clean.Payload[:n]), true // the rest is not kept in memory
	}
	return &clean
}

// MaxDetail bounds the text of an outcome that is kept, in bytes.
const MaxDetail = 256

// AtOnce as Outcome.After of a failure asks for the next attempt without backoff.
const AtOnce time.Duration = 1
