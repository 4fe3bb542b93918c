package front

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

var (
	errNotYet   = errors.New("it was not reached yet")
	errReplaced = errors.New("another one was begun")
	errBehind   = errors.New("it has missed more changes than can be made up for one by one")
)

// state is how the index is, as far as this store knows.
type state struct {
	mu     sync.Mutex
	at     stand  // without an id: it is away
	period uint64 // grows each time that it comes back
	was    error  // why it is away
	hinted bool   // somebody has written past the index
}

// view is what a call goes by, from its beginning to its end.
type view struct {
	stand
	period uint64
}

func (v view) away() bool { return v.id == 0 }

func (t *state) view() view {
	t.mu.Lock()
	defer t.mu.Unlock()
	return view{t.at, t.period}
}

// reached notes how far rows are back, unless that is of another index, or old: the level does not rise. It says whether all of them
// are, and were not before.
func (t *state) reached(id int64, level int) (complete bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at.id != id || level >= t.at.level {
		return false
	}
	t.at.level = level
	return level == 0
}

// lost notes that the index that a call went by is away. It says whether that is news.
func (t *state) lost(v view, err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at.id == 0 || t.period != v.period {
		return false
	}
	t.at, t.was = stand{}, err
	return true
}

// back notes that the index is there.
func (t *state) back(s stand) (period uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.period++
	t.at, t.was = s, nil
	return t.period
}

func (t *state) hint() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hinted = true
}

// hinting returns whether there was a hint, and forgets it.
func (t *state) hinting() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.hinted
	t.hinted = false
	return was
}

// errIndex is why a call to the index failed, after which it counts as away.
var errIndex = errors.New("the index is away")

// ask makes a call to the index that somebody waits for.
func (s *Store) ask(ctx context.Context, v view, call func(ctx context.Context) error) error {
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
	s.lose(v, err)
	return fmt.Errorf("%w: %w", errIndex, err)
}

// lose gives the index up until keep has reached it again.
func (s *Store) lose(v view, err error) {
	if s.state.lost(v, err) {
		s.counts.lost.Add(1)
		s.o.Log.Warn("the index of due times is away: only timers of enough criticality fire until it is back", "criticality", s.o.Criticality, "error", err)
		s.pending.signal()
	}
}
