package rouse

import (
	"fmt"
	"slices"
)

// PauseCause is why a timer is paused: one of a closed set, which programs read; Timer.Reason has the
// details, for people. Timers are kept with its number, so that numbers are never used again.
type PauseCause uint8

// The causes of pauses.
const (
	// a client asked for it, or the timer was paused by a version that kept no causes
	PauseRequested       PauseCause = iota
	PauseDeadLetters                // as many of its occurrences in a row as Spec.PauseAfter ended as dead letters
	PauseScheduleCost               // finding its next occurrence takes more than MaxScheduleSteps
	PauseUnreadable                 // its row is invalid
	PauseCalendar                   // its calendars leave no occurrence
	PauseScheduleInvalid            // its schedule cannot be compiled any more
)

var pauseCauseNames = [...]string{PauseRequested: "requested", PauseDeadLetters: "dead_letters",
	PauseScheduleCost: "schedule_cost", PauseUnreadable: "unreadable",
	PauseCalendar: "calendar", PauseScheduleInvalid: "schedule_invalid"}

func (c PauseCause) String() string {
	if int(c) >= len(pauseCauseNames) || pauseCauseNames[c] == "" {
		return "unknown" // written by a later version
	}
	return pauseCauseNames[c]
}

// ParsePauseCause reads the name of a cause; empty is PauseRequested.
func ParsePauseCause(name string) (PauseCause, error) {
	if name == "" {
		return PauseRequested, nil
	}
	if i := slices.Index(pauseCauseNames[:], name); i >= 0 {
		return PauseCause(i), nil
	}
	return 0, Refuse("pause_cause", name, "is no cause of a pause", "send what a list returned")
}

// pauseItself pauses a timer from now on for a cause that no client asked for. It lasts until a client
// resumes the timer.
func (t *Timer) pauseItself(c PauseCause, now Instant, reason string) {
	t.Paused, t.PausedAt, t.Until, t.Reason, t.PauseCause = true, now, 0, reason, c
}

// BrokenSchedule is the schedule of a timer that has none: it cannot be compiled, because of Err. Its due
// times are unknown, so that the step that asks for the next one pauses the timer.
type BrokenSchedule struct{ Err error }

// Next finds nothing.
func (BrokenSchedule) Next(Instant) (Instant, bool) { return 0, false }

// Look gives up.
func (BrokenSchedule) Look(Instant, int) (next Instant, ok bool, steps int) {
	return 0, false, MaxScheduleSteps + 1
}

// Broken returns why there is no schedule.
func (b BrokenSchedule) Broken() error { return b.Err }

// stopUnknown pauses a timer whose next due time is unknown.
func (t *Timer) stopUnknown(now Instant, s Schedule) {
	if b, is := s.(interface{ Broken() error }); is {
		if err := b.Broken(); err != nil {
			t.pauseItself(PauseScheduleInvalid, now,
				CleanText("its schedule cannot be read: replace the timer or reschedule it: "+err.Error(), MaxDetail))
			return
		}
	}
	t.pauseItself(PauseScheduleCost, now,
		fmt.Sprintf("its schedule takes more than %d steps to find the next occurrence: replace the timer or reschedule it",
			MaxScheduleSteps))
}

// countDead counts a dead letter of the timer's schedule, and reports whether Spec.PauseAfter now pauses the
// timer. Requested runs and detached occurrences do not count.
func (t *Timer) countDead(occ Occurrence) bool {
	most := t.Spec.PauseAfter
	if occ.Manual {
		return false
	}
	t.ConsecutiveDead++
	return most != 0 && t.ConsecutiveDead >= most && !t.Paused
}

// stopAfterDead pauses a timer whose latest occurrence ended as a dead letter with that detail, unless
// nothing is left of it.
func (t *Timer) stopAfterDead(now Instant, latest string) {
	if t.Paused || t.Over() {
		return
	}
	n := fmt.Sprintf("its last %d occurrences ended as dead letters", t.ConsecutiveDead)
	if t.ConsecutiveDead == 1 {
		n = "its last occurrence ended as a dead letter"
	}
	t.pauseItself(PauseDeadLetters, now, Shorten(n+": "+latest, MaxDetail))
	t.Visible = t.nextAttention(now)
}
