package engine

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
)

// mark is a time by the monotonic clock, or none: the wall clock may be set at any time, which is no lack of
// progress. It is safe for concurrent use.
type mark struct{ at atomic.Pointer[time.Time] }

// setNow makes it now.
func (m *mark) setNow() {
	now := time.Now()
	m.at.Store(&now)
}

// setOnce makes it now, if it is none.
func (m *mark) setOnce() {
	if m.at.Load() == nil {
		now := time.Now()
		m.at.CompareAndSwap(nil, &now)
	}
}

// setNone makes it none.
func (m *mark) setNone() {
	if m.at.Load() != nil {
		m.at.Store(nil)
	}
}

// markedAt returns the time; zero if it is none.
func (m *mark) markedAt() time.Time {
	if at := m.at.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// health is when the engine's loops last made progress, and the obstacles to it.
type health struct {
	*env
	checked     rouse.Checked // the store; nil if it cannot report damage
	evaluations *evaluations
	read, fire  mark
	settle      mark // none while there is nothing to settle
	commits     flights
	failing     mark                            // start of a series of failed commits, none if the last commit succeeded
	missing     atomic.Pointer[[]rouse.Missing] // parts of the store that did not answer the last claim
}

func newHealth(v *env, store rouse.Store, ev *evaluations) *health {
	h := &health{env: v, evaluations: ev}
	h.checked, _ = store.(rouse.Checked)
	h.missing.Store(new([]rouse.Missing))
	return h
}

// missingParts returns the parts of the store that did not answer the last claim.
func (h *health) missingParts() []rouse.Missing { return *h.missing.Load() }

// flights are running calls of one kind.
type flights struct {
	mu    sync.Mutex
	began map[*time.Time]struct{}
}

// beginFlight records the start of a call; the returned function ends it.
func (f *flights) beginFlight() (end func()) {
	at := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.began == nil {
		f.began = map[*time.Time]struct{}{}
	}
	f.began[&at] = struct{}{}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.began, &at)
	}
}

// oldestStart returns the start of the longest running call; zero if there is none.
func (f *flights) oldestStart() (oldest time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for at := range f.began {
		if oldest.IsZero() || at.Before(oldest) {
			oldest = *at
		}
	}
	return oldest
}

// recordCommit records the result of a commit.
func (h *health) recordCommit(err error) {
	var partial *rouse.Partial // claims report which part does not answer
	switch {
	case err == nil || errors.As(err, &partial):
		h.failing.setNone()
	default:
		h.failing.setOnce()
	}
}

// fullFor is how long all deliveries may be in progress, and none ends: rows that come due then wait.
const fullFor = 30 * time.Second

// Degraded returns which parts of a store on several servers do not answer, or nil. It is no reason to be
// unhealthy: all other timers fire, and other nodes lack the same parts, so that a load balancer would leave
// none.
func (e *Engine) Degraded() (err error) {
	for _, p := range e.health.missingParts() {
		err = errors.Join(err, fmt.Errorf("%s, a part of the store, is missing, and timers in it wait: %w", p.Part, p.Err))
	}
	return err
}

// Healthy returns why the engine makes no progress, or nil. It checks the loops that fire, not the process.
func (e *Engine) Healthy() error { return e.health.checkProgress() }

func (h *health) checkProgress() error {
	now := time.Now()
	late := func(what string, at time.Time, limit time.Duration) error {
		if at.IsZero() {
			return fmt.Errorf("%s has not begun", what)
		}
		if d := now.Sub(at); d > limit {
			return fmt.Errorf("%s has made no progress for %v", what, d.Round(time.Millisecond))
		}
		return nil
	}
	err := errors.Join(late("the firing loop", h.fire.markedAt(), 5*time.Second),
		late("the reading loop", h.read.markedAt(), 45*time.Second))
	if at := h.settle.markedAt(); !at.IsZero() {
		err = errors.Join(err, late("the settling loop", at, 15*time.Second))
	}
	if at := h.evaluations.runningSince(); !at.IsZero() {
		err = errors.Join(err, late("the evaluation of a schedule", at, 15*time.Second))
	}
	if at := h.failing.markedAt(); !at.IsZero() {
		err = errors.Join(err, late("the store", at, 5*time.Second))
	}
	if at := h.commits.oldestStart(); !at.IsZero() {
		err = errors.Join(err, late("the commit", at, 10*time.Second))
	}
	if at := h.full.markedAt(); !at.IsZero() && now.Sub(at) > fullFor {
		err = errors.Join(err,
			fmt.Errorf(
				"fires wait, all %[2]d deliveries are in progress, and none has ended for %[1]v: see rouse targets, and raise max-deliveries or lower the timeouts of timers", now.Sub(at).Round(time.Second), h.opts.MaxDeliveries))
	}
	if h.runner != nil {
		err = errors.Join(err, h.runner.Healthy())
	}
	if h.checked != nil {
		err = errors.Join(err, h.checked.Corrupted())
	}
	return err
}

// stuckAfter is how long the firing loop may make no progress before only a restart can help: the loop waits
// for nothing but its own mutex.
const stuckAfter = 30 * time.Second

// Alive returns why only a restart of the process can help, or nil. An unavailable store is no reason: a
// restart does not bring it back.
func (e *Engine) Alive() error {
	if at := e.health.fire.markedAt(); !at.IsZero() {
		if d := time.Since(at); d > stuckAfter {
			return fmt.Errorf("the firing loop has made no progress for %v", d.Round(time.Millisecond))
		}
	}
	return nil
}
