package pool

import (
	"context"
	"sync"
	"time"
)

// liveTracker runs the tracker of a term in real time and reports new targets.
type liveTracker struct {
	changed func()  // there is a new target; must not block
	moved   *signal // the next deadline may have changed

	mu      sync.Mutex
	tracker *Tracker
	told    Generation
}

func newLiveTracker(t *Tracker, changed func()) *liveTracker {
	return &liveTracker{tracker: t, changed: changed, moved: newSignal(), told: t.generation}
}

// requireGroup makes a group Active; cold reports that it was Inactive.
func (k *liveTracker) requireGroup(key string, extra time.Duration) (g Generation, cold bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	k.tracker.Advance(now)
	cold = k.tracker.groups[key] == nil
	g = k.tracker.Require(now, key, extra)
	k.signalTarget()
	return g, cold
}

// askForGroup makes a group Active if the limits allow it.
func (k *liveTracker) askForGroup(key, owner string) (g Generation, cold, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	k.tracker.Advance(now)
	cold = k.tracker.groups[key] == nil
	g, ok = k.tracker.Ask(now, key, owner, 0)
	k.signalTarget()
	return g, cold && ok, ok
}

// changeTracker changes the tracker.
func (k *liveTracker) changeTracker(change func(t *Tracker, now time.Time)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	k.tracker.Advance(now)
	change(k.tracker, now)
	k.signalTarget()
}

// applyLoads takes the contents of all request queues as of a time.
func (k *liveTracker) applyLoads(load map[string]Load, asOf time.Time) {
	k.changeTracker(func(t *Tracker, now time.Time) {
		for key := range t.groups {
			switch l := load[key]; {
			case l.Unknown:
			case l.Ready+l.Held > 0:
				t.Busy(now, key, asOf)
			default: // also if there is no such queue
				t.Idle(now, key, asOf)
			}
		}
	})
	k.moved.sendSignal()
}

// hasGroup reports whether a key has a group.
func (k *liveTracker) hasGroup(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tracker.groups[key] != nil
}

func (k *liveTracker) currentTarget() Target {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tracker.Target()
}

// waitingKeys returns the keys that wait for a limit.
func (k *liveTracker) waitingKeys() []waitingKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tracker.Waiting()
}

// statusChanges returns how often groups changed to each status.
func (k *liveTracker) statusChanges() [Unbound + 1]uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tracker.changes
}

// signalTarget signals a changed target.
func (k *liveTracker) signalTarget() {
	if k.tracker.generation != k.told {
		k.told = k.tracker.generation
		k.changed()
		k.moved.sendSignal()
	}
}

// runDeadlines advances the tracker at its deadlines until ctx ends.
func (k *liveTracker) runDeadlines(ctx context.Context) {
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
		k.signalTarget()
		next, ok := k.tracker.Next()
		k.mu.Unlock()
		timer.Stop()
		if ok {
			timer.Reset(max(0, next.Sub(now)))
		}
	}
}
