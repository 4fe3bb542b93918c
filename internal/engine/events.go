package engine

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
)

// Events are called from the engine's goroutines as things happen. They must be quick and may be called
// concurrently. Any of them may be nil.
type Events struct {
	Sent      func(fires []rouse.Fire, now rouse.Instant)               // a delivery starts
	Reported  func(t *rouse.Timer, o rouse.Outcome, took time.Duration) // an attempt ended; t is nil if its row has changed
	Recorded  func(records []rouse.Record)                              // occurrences ended, durably
	Committed func(changes int, took time.Duration, err error)
	Failed    func(what string, err error) // an operation that will be retried failed
	Shed      func(rows int)               // rows deferred because memory is full
	Conflict  func(writes int)             // settles that named an old revision

	Paused  func(t *rouse.Timer)              // a timer paused itself, because of its PauseCause
	Limited func(limit string, key rouse.Key) // a timer has reached a limit on rows next to it; limit is the setting's name

	// Unclaimed is called when a timer is created in a namespace that no live node claims, and when timers of
	// such namespaces are overdue, with their minimum number.
	Unclaimed func(namespace string, overdue int)
}

func (ev *Events) sent(fires []rouse.Fire, now rouse.Instant) {
	if ev.Sent != nil {
		ev.Sent(fires, now)
	}
}

func (ev *Events) reported(t *rouse.Timer, o rouse.Outcome, took time.Duration) {
	if ev.Reported != nil {
		ev.Reported(t, o, took)
	}
}

func (ev *Events) recorded(records []rouse.Record) {
	if ev.Recorded != nil {
		ev.Recorded(records)
	}
}

func (ev *Events) committed(n int, took time.Duration, err error) {
	if ev.Committed != nil {
		ev.Committed(n, took, err)
	}
}

func (ev *Events) failed(what string, err error) {
	if ev.Failed != nil {
		ev.Failed(what, err)
	}
}

func (ev *Events) shed(n int) {
	if ev.Shed != nil {
		ev.Shed(n)
	}
}

func (ev *Events) paused(t *rouse.Timer) {
	if ev.Paused != nil {
		ev.Paused(t)
	}
}

func (ev *Events) limited(limit string, key rouse.Key) {
	if ev.Limited != nil {
		ev.Limited(limit, key)
	}
}

func (ev *Events) unclaimed(namespace string, overdue int) {
	if ev.Unclaimed != nil {
		ev.Unclaimed(namespace, overdue)
	}
}

func (ev *Events) conflicted(n int) {
	if ev.Conflict != nil {
		ev.Conflict(n)
	}
}

// health is when the engine's loops last made progress, in Unix nanoseconds.
type health struct {
	store      rouse.Checked // nil if it cannot report damage
	read, fire atomic.Int64
	settle     atomic.Int64 // 0 while there is nothing to settle
	commits    flights
	failing    atomic.Int64 // start of a series of failed commits, 0 if the last commit succeeded
}

// flights are running commits.
type flights struct {
	mu    sync.Mutex
	began map[*int64]struct{} // start times in Unix nanoseconds
}

// begin records the start of a commit; the returned function ends it.
func (f *flights) begin() (end func()) {
	at := time.Now().UnixNano()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.began == nil {
		f.began = map[*int64]struct{}{}
	}
	f.began[&at] = struct{}{}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.began, &at)
	}
}

// oldest returns the start of the longest running commit; 0 if there is none.
func (f *flights) oldest() (oldest int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for at := range f.began {
		if oldest == 0 || *at < oldest {
			oldest = *at
		}
	}
	return oldest
}

// commit records the result of a commit.
func (h *health) commit(err error) {
	var partial *rouse.Partial // claims report which part does not answer
	switch {
	case err == nil || errors.As(err, &partial):
		h.failing.Store(0)
	case h.failing.Load() == 0:
		h.failing.Store(time.Now().UnixNano())
	}
}

// Healthy returns why the engine makes no progress, or nil. It checks the loops that fire, not the process.
func (e *Engine) Healthy() error {
	now := time.Now()
	late := func(what string, at int64, limit time.Duration) error {
		if at == 0 {
			return fmt.Errorf("%s has not begun", what)
		}
		if d := now.Sub(time.Unix(0, at)); d > limit {
			return fmt.Errorf("%s has made no progress for %v", what, d.Round(time.Millisecond))
		}
		return nil
	}
	err := errors.Join(late("the firing loop", e.health.fire.Load(), 5*time.Second), late("the reading loop", e.health.read.Load(), 45*time.Second))
	if at := e.health.settle.Load(); at != 0 {
		err = errors.Join(err, late("the settling loop", at, 15*time.Second))
	}
	if at := e.evaluations.since(); !at.IsZero() {
		err = errors.Join(err, late("the evaluation of a schedule", at.UnixNano(), 15*time.Second))
	}
	if at := e.health.failing.Load(); at != 0 {
		err = errors.Join(err, late("the store", at, 5*time.Second))
	}
	if at := e.health.commits.oldest(); at != 0 {
		err = errors.Join(err, late("the commit", at, 10*time.Second))
	}
	for _, p := range e.missingParts() {
		err = errors.Join(err, fmt.Errorf("%s, a part of the store, does not answer: timers in it wait", p.Part))
	}
	if r, ok := e.strategy.(rouse.Runner); ok {
		err = errors.Join(err, r.Healthy())
	}
	if e.health.store != nil {
		err = errors.Join(err, e.health.store.Corrupted())
	}
	return err
}

// stuckAfter is how long the firing loop may make no progress before only a restart can help: the loop waits
// for nothing but its own mutex.
const stuckAfter = 30 * time.Second

// Alive returns why only a restart of the process can help, or nil. An unavailable store is no reason: a
// restart does not bring it back.
func (e *Engine) Alive() error {
	if at := e.health.fire.Load(); at != 0 {
		if d := time.Since(time.Unix(0, at)); d > stuckAfter {
			return fmt.Errorf("the firing loop has made no progress for %v", d.Round(time.Millisecond))
		}
	}
	return nil
}

// Stats counts what is in memory.
type Stats struct {
	Window  int // rows in memory
	Bytes   int // size of these rows
	Queued  int // due and waiting in lanes
	Out     int // fires with sinks
	Running int // running calls of Sink.Deliver
	Lanes   int
	Missing int // parts of the store that did not answer the last claim
}

// Stats returns the current counts.
func (e *Engine) Stats() Stats {
	e.memory.Lock()
	defer e.memory.Unlock()
	s := Stats{Window: len(e.memory.window.entries) + e.memory.window.orphans, Bytes: e.memory.window.bytes, Out: e.memory.lanes.out, Running: e.memory.lanes.running,
		Lanes: len(e.memory.lanes.byName), Missing: len(e.rescans.missing)}
	for _, ln := range e.memory.lanes.byName {
		s.Queued += ln.queued
	}
	return s
}
