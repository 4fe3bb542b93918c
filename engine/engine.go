// Package engine runs timers: claim, wheel, lanes, delivery, settle.
package engine

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
)

// Mode says what Put does with a name that is taken.
type Mode uint8

const (
	CreateOnly      Mode = iota // rouse.ErrExists
	CreateOrReplace             // replace; a new generation begins
	ReplaceOnly                 // rouse.ErrNotFound for a name that is not taken
)

// Put is a timer to write. Its key has no Fire; its spec is checked by Put.
type Put struct {
	Key        rouse.Key
	Spec       rouse.Spec
	Mode       Mode
	IfRevision uint64 // not 0: only if the timer has this revision, else rouse.ErrConflict
}

// PutResult is what became of one Put.
type PutResult struct {
	Timer rouse.Timer
	Err   error // *rouse.Invalid, rouse.ErrExists, rouse.ErrNotFound, rouse.ErrConflict
}

// Deleted is what Delete answers.
type Deleted struct {
	Generation uint64
	InFlight   bool // an attempt had started and may still arrive; none starts after the answer
}

// Report is what the receiver of an accepted fire says about it: the outcome (Done, Failed or Rejected), or with Verdict 0 a
// heartbeat that moves the deadline to Outcome.After from now.
type Report struct {
	FireID  string
	Token   uint64
	Outcome rouse.Outcome
}

type Engine struct{}

func (e *Engine) Run(ctx context.Context) error                               { panic("soon") }
func (e *Engine) Put(ctx context.Context, puts []Put) ([]PutResult, error)    { panic("soon") }
func (e *Engine) Get(ctx context.Context, key rouse.Key) (rouse.Timer, error) { panic("soon") }
func (e *Engine) List(ctx context.Context, q rouse.Query) ([]rouse.Timer, *rouse.Key, error) {
	panic("soon")
}
func (e *Engine) Count(ctx context.Context, q rouse.Query) (int64, error) { panic("soon") }
func (e *Engine) Records(ctx context.Context, q rouse.RecordQuery) (rouse.RecordPage, error) {
	panic("soon")
}
func (e *Engine) Delete(ctx context.Context, key rouse.Key, ifRevision uint64) (Deleted, error) {
	panic("soon")
}
func (e *Engine) Pause(ctx context.Context, key rouse.Key, reason string) (rouse.Timer, error) {
	panic("soon")
}
func (e *Engine) Resume(ctx context.Context, key rouse.Key) (rouse.Timer, error) { panic("soon") }

// RunNow asks for a fire now and returns its id and due time.
func (e *Engine) RunNow(ctx context.Context, key rouse.Key) (id string, due rouse.Instant, err error) {
	panic("soon")
}

// Report settles or extends an accepted fire; it returns the deadline in force after it (0 when settled).
func (e *Engine) Report(ctx context.Context, key rouse.Key, r Report) (rouse.Instant, error) {
	panic("soon")
}

// Redrive and Purge concern the dead letter that key.Fire names.
func (e *Engine) Redrive(ctx context.Context, key rouse.Key) error { panic("soon") }
func (e *Engine) Purge(ctx context.Context, key rouse.Key) error   { panic("soon") }

// Preview returns the next due times of a schedule after from (0: now).
func (e *Engine) Preview(schedule, timezone string, from rouse.Instant, count int) ([]rouse.Instant, error) {
	panic("soon")
}

// Now returns the store's clock as the engine estimates it, the earlier end of its uncertainty.
func (e *Engine) Now() rouse.Instant { panic("soon") }

// Follow calls f with records as they are settled until ctx ends; dropped counts those that a slow f missed before this call.
func (e *Engine) Follow(ctx context.Context, f func(records []rouse.Record, dropped uint64) error) error {
	panic("soon")
}

// Healthy returns why the firing loop does not make progress, or nil.
func (e *Engine) Healthy() error { panic("soon") }

var _ = time.Second
