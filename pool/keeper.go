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
