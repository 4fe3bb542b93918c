package front

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

var (
	errNotYet   = errors.New("not reached yet")
	errReplaced = errors.New("another one was created")
	errBehind   = errors.New("it missed too many changes to repair them one by one")
)

// state is the state of the index as far as this store knows it.
type state struct {
	mu     sync.Mutex
	at     stand  // without an id: unavailable
	period uint64 // increases each time that the index becomes available
	was    error  // why it is unavailable
	hinted bool   // a write has bypassed the index
}

// view is the state that a call uses from its beginning to its end.
type view struct {
	stand
	period uint64
}

func (v view) isIndexAway() bool { return v.id == 0 }

func (t *state) currentView() view {
	t.mu.Lock()
	defer t.mu.Unlock()
	return view{t.at, t.period}
}

// recordLevel records the level of the index with this id; a higher level is outdated and ignored. It reports
// whether the index has just become complete.
func (t *state) recordLevel(id int64, level int) (complete bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at.id != id || level >= t.at.level {
		return false
	}
	t.at.level = level
	return level == 0
}

// recordLoss records that the index which a call used is unavailable. It reports whether that is new.
func (t *state) recordLoss(v view, err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at.id == 0 || t.period != v.period {
		return false
	}
	t.at, t.was = stand{}, err
	return true
}

// recordReturn records that the index is available.
func (t *state) recordReturn(s stand) (period uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.period++
	t.at, t.was = s, nil
	return t.period
}

func (t *state) setHint() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hinted = true
}

// takeHint reports whether there was a hint, and resets it.
func (t *state) takeHint() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.hinted
	t.hinted = false
	return was
}

// errIndex means that a call to the index failed, after which it counts as unavailable.
var errIndex = errors.New("the index is unavailable")

// callIndex makes a call to the index that a caller waits for.
func (s *Store) callIndex(ctx context.Context, v view, call func(ctx context.Context) error) error {
	return s.askFor(ctx, v, s.o.Timeout, call)
}

func (s *Store) askFor(ctx context.Context, v view, timeout time.Duration, call func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := call(limited)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	s.suspendIndex(v, err)
	return fmt.Errorf("%w: %w", errIndex, err)
}

// suspendIndex stops the use of the index until maintainIndex has reached it again.
func (s *Store) suspendIndex(v view, err error) {
	if s.state.recordLoss(v, err) {
		s.counts.lost.Add(1)
		s.o.Log.Warn("the index of due times is unavailable: only timers of sufficient criticality fire until it is back",
			"criticality", s.o.Criticality, "error", err)
		s.pending.signalPending()
	}
}
