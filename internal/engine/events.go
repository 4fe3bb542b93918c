package engine

import (
	"time"

	"github.com/rousehq/rouse"
)

// Events are called from the engine's goroutines as things happen. They must be quick and may be called
// concurrently. Any of them may be nil.
type Events struct {
	Sent func(fires []rouse.Fire, now rouse.Instant) // a delivery starts
	// an attempt ended; t is nil if its row has changed
	Reported func(t *rouse.Timer, o rouse.Outcome, took time.Duration)
	// the outcome of an accepted attempt is known, durably
	Concluded func(t *rouse.Timer, o rouse.Outcome)
	// an attempt ended, or the outcome of an accepted one is known
	Attempted func(now rouse.Instant, a rouse.Attempted)
	Recorded  func(records []rouse.Record) // occurrences ended, durably
	Created   func(n int)                  // clients wrote timers, durably
	Committed func(changes int, took time.Duration, err error)
	Failed    func(what string, err error) // an operation that will be retried failed
	Shed      func(rows int)               // rows deferred because memory is full
	Conflict  func(writes int)             // settles that named an old revision

	Paused func(t *rouse.Timer) // a timer paused itself, because of its PauseCause
	// a timer has reached a limit on rows next to it; limit is the setting's name
	Limited func(limit string, key rouse.Key)

	// Unclaimed is called when a timer is created in a namespace that no live node claims, and when timers of
	// such namespaces are overdue, with their minimum number.
	Unclaimed func(namespace string, overdue int)
}

func (ev *Events) emitSent(fires []rouse.Fire, now rouse.Instant) {
	if ev.Sent != nil {
		ev.Sent(fires, now)
	}
}

func (ev *Events) emitReported(t *rouse.Timer, o rouse.Outcome, took time.Duration) {
	if ev.Reported != nil {
		ev.Reported(t, o, took)
	}
}

func (ev *Events) emitConcluded(t *rouse.Timer, o rouse.Outcome) {
	if ev.Concluded != nil {
		ev.Concluded(t, o)
	}
}

func (ev *Events) emitAttempted(now rouse.Instant, a rouse.Attempted) {
	if ev.Attempted != nil {
		ev.Attempted(now, a)
	}
}

func (ev *Events) emitRecorded(records []rouse.Record) {
	if ev.Recorded != nil {
		ev.Recorded(records)
	}
}

func (ev *Events) emitCommitted(n int, took time.Duration, err error) {
	if ev.Committed != nil {
		ev.Committed(n, took, err)
	}
}

func (ev *Events) emitFailed(what string, err error) {
	if ev.Failed != nil {
		ev.Failed(what, err)
	}
}

func (ev *Events) emitShed(n int) {
	if ev.Shed != nil {
		ev.Shed(n)
	}
}

func (ev *Events) emitPaused(t *rouse.Timer) {
	if ev.Paused != nil {
		ev.Paused(t)
	}
}

func (ev *Events) emitLimited(limit string, key rouse.Key) {
	if ev.Limited != nil {
		ev.Limited(limit, key)
	}
}

func (ev *Events) emitUnclaimed(namespace string, overdue int) {
	if ev.Unclaimed != nil {
		ev.Unclaimed(namespace, overdue)
	}
}

func (ev *Events) emitConflict(n int) {
	if ev.Conflict != nil {
		ev.Conflict(n)
	}
}
