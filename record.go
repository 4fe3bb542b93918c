package rouse

import "slices"

// Ending is how an occurrence ended.
type Ending uint8

const (
	EndFired   Ending = iota + 1 // the target has it
	EndDead                      // out of attempts, or rejected
	EndSkipped                   // on purpose: see Cause
	EndMissed                    // too late by the misfire policy or the deadline: see Cause
)

var endingNames = [...]string{EndFired: "fired", EndDead: "dead", EndSkipped: "skipped", EndMissed: "missed"}

func (e Ending) String() string {
	if e == 0 || int(e) >= len(endingNames) {
		return "unknown"
	}
	return endingNames[e]
}

// ParseEnding reads the name of an ending.
func ParseEnding(name string) (Ending, error) {
	if i := slices.Index(endingNames[:], name); i > 0 {
		return Ending(i), nil
	}
	return 0, Refuse("ending", name, "is no ending", "give one of fired, dead, skipped, missed")
}

// Record is the short story of one ended occurrence, or of a run of occurrences that ended alike without an
// attempt.
type Record struct {
	Namespace  string
	Name       string
	Generation uint64
	Ending     Ending
	Cause      Cause // why it ended so, for programs; Reason has the details, for people
	Manual     bool
	Due        Instant // of the occurrence; of the first of a run
	LastDue    Instant // of the last of a run; 0 for a single occurrence
	Count      uint32  // occurrences in a run; 0 for a single one
	Attempts   uint32
	Code       int       // of the last attempt
	Reason     string    // why it ended so, or the head of the last answer
	Target     string    // of the timer, unless the occurrence fired
	Began      Instant   // when the first attempt began; 0 if none did, or it is not known
	Sent       Instant   // when the last attempt began; 0 if none did
	Ended      Instant   // store's clock at the settle
	Failures   []Attempt // attempts that failed before the last one, oldest first, at most MaxFailures

	// Answer is that of the target to the last attempt, up to Spec.KeepAnswer bytes; nil if none is kept.
	Answer *Answer

	// Other is the due time of the occurrence that CauseOverlapped is about: the one in progress when this
	// one was due or, of several that followed one another, the last one that this one waited for.
	// OtherManual is set if it was a run. Otherwise 0.
	Other       Instant
	OtherManual bool
}

// FireID returns the id that the occurrence's fire carried.
func (r *Record) FireID() string {
	return FireID(r.Namespace, r.Name, r.Generation, r.Due, r.Manual)
}

// OtherID returns the id of the fire of Other; empty without Other.
func (r *Record) OtherID() string {
	if r.Other == 0 {
		return ""
	}
	return FireID(r.Namespace, r.Name, r.Generation, r.Other, r.OtherManual)
}
