package pool

import (
	"context"
	"sync"
	"time"
)

// keeper has the tracker of a term: it gives it the time, and tells of new targets.
type keeper struct {
	changed func()  // there is a new target; must not block
	moved   *signal // the next deadline may be another one

	mu      sync.Mutex
	tracker *Tracker
	told    Generation
}

func newKeeper(t *Tracker, changed func()) *keeper {
	return &keeper{tracker: t, changed: changed, moved: newSignal(), told: t.generation}
}

// require makes a group Active; cold says that it was Inactive.
func (k *keeper) require(key string, extra time.Duration) (g Generation, cold bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	k.tracker.Advance(now)
	cold = k.tracker.groups[key] == nil
	g = k.tracker.Require(now, key, extra)
	k.tell()
	return g, cold
}

// ask makes a group Active, if no limit speaks against it.
func (k *keeper) ask(key, owner string) (g Generation, cold, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	k.tracker.Advance(now)
	cold = k.tracker.groups[key] == nil
	g, ok = k.tracker.Ask(now, key, owner, 0)
	k.tell()
	return g, cold && ok, ok
}

// do changes the tracker.
func (k *keeper) do(change func(t *Tracker, now time.Time)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	k.tracker.Advance(now)
	change(k.tracker, now)
	k.tell()
}

// known says whether a key has a group.
func (k *keeper) known(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tracker.groups[key] != nil
}

func (k *keeper) target() Target {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tracker.Target()
}

// waiting returns the keys that wait for a limit.
func (k *keeper) waiting() []waitingKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tracker.Waiting()
}

// changes says how often groups got each status.
func (k *keeper) changes() [Unbound + 1]uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tracker.changes
}

// tell tells of a new target, if there is one.
func (k *keeper) tell() {
	if k.tracker.generation != k.told {
		k.told = k.tracker.generation
		k.changed()
		k.moved.send()
	}
}

// run lets time pass for the tracker, until ctx ends.
func (k *keeper) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.moved.c:
		case <-timer.C:
		}
		k.mu.Lock()
		now := time.Now()
		k.tracker.Advance(now)
		k.tell()
		next, ok := k.tracker.Next()
		k.mu.Unlock()
		timer.Stop()
		if ok {
			timer.Reset(max(0, next.Sub(now)))
		}
	}
}
