package docker

import (
	"context"
	"sync"
	"time"

	"github.com/rousehq/rouse/internal/notify"
)

// agenda is the work queue of the reconcile loop: keys with due times.
type agenda struct {
	wake chan struct{}

	mu    sync.Mutex
	due   map[string]task
	sweep bool // all keys must be looked at
}

type task struct {
	at   time.Time
	mode mode
}

func newAgenda() *agenda { return &agenda{wake: make(chan struct{}, 1), due: map[string]task{}} }

// scheduleKey schedules a key, unless at is zero. A mode other than look replaces look.
func (a *agenda) scheduleKey(key string, at time.Time, m mode) {
	if at.IsZero() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	t, ok := a.due[key]
	switch {
	case !ok:
		t = task{at, m}
	default:
		t.at, t.mode = earlierSet(t.at, at), max(t.mode, m)
	}
	a.due[key] = t
	a.wakeLoop()
}

// addAll schedules a look at all keys.
func (a *agenda) addAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sweep = true
	a.wakeLoop()
}

func (a *agenda) wakeLoop() {
	notify.Send(a.wake)
}

// takeSweep reports whether all keys must be looked at, and resets that.
func (a *agenda) takeSweep() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	is := a.sweep
	a.sweep = false
	return is
}

// takeDue removes and returns the due entries, and returns when the next one is due.
func (a *agenda) takeDue(now time.Time) (due map[string]mode, next time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	due = map[string]mode{}
	for key, t := range a.due {
		if t.at.After(now) {
			next = earlierSet(next, t.at)
			continue
		}
		due[key] = t.mode
		delete(a.due, key)
	}
	return due, next
}

// keyLocks lets only one goroutine at a time change the containers of a key.
type keyLocks struct {
	mu   sync.Mutex
	held map[string]*keyLock
}

type keyLock struct {
	free  chan struct{} // has a value while the lock is free
	users int           // that hold it or wait for it
}

func newKeyLocks() *keyLocks { return &keyLocks{held: map[string]*keyLock{}} }

// lockKey waits for the lock of a key, until ctx ends.
func (l *keyLocks) lockKey(ctx context.Context, key string) (unlock func(), err error) {
	l.mu.Lock()
	k := l.held[key]
	if k == nil {
		k = &keyLock{free: make(chan struct{}, 1)}
		k.free <- struct{}{}
		l.held[key] = k
	}
	k.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.held, key)
		}
	}
	select {
	case <-k.free:
		return func() { k.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
