package engine

import (
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/boottime"
)

// env has the values that every part of the engine needs: its options, the strategy, the store with its
// clock, and this node's hindrances.
type env struct {
	opts       Options
	strategy   rouse.Strategy
	runner     rouse.Runner // the strategy, if it has a loop of its own; nil otherwise
	store      rouse.Store
	others     rouse.Shared  // the store, if other nodes write to it; nil otherwise
	hints      rouse.Watcher // the same, if it reports writes of others; nil otherwise
	clock      clock
	hindrances hindrances
	stopping   atomic.Bool // Run is ending: nothing new begins
	full       mark        // since when fires wait, no delivery is free, and none has ended
}

// newEnv returns the environment of an engine on a store.
func newEnv(store rouse.Store, strategy rouse.Strategy, o Options) *env {
	v := &env{opts: o, strategy: strategy}
	v.store = watched{Available(store), v}
	v.runner, _ = strategy.(rouse.Runner)
	if o.Shared {
		v.others = store.(rouse.Shared)
		v.hints, _ = store.(rouse.Watcher)
	}
	v.clock.direct, v.clock.store = o.Direct, v.store
	v.clock.jumped = func(from, to rouse.Instant) { v.hindrances.addHindrance(rouse.CauseClockMoved, from, to) }
	return v
}

// Now returns the earliest estimate of the store's clock; 0 before Run has started.
func (v *env) Now() rouse.Instant { return v.clock.earliestNow() }

// quietPoll is the age of the last answer of a shared store after which a node claims again while nothing
// else writes to the store. It is less than sharedLook, so that the claim is what reads the store's clock.
const quietPoll = sharedLook - syncEvery

// isQuiet reports whether nothing else writes to the store without this node being told, and its own writes
// are found without a claim.
func (v *env) isQuiet() bool {
	return !v.opts.Scatter && v.opts.Alone != nil && v.opts.Alone() && (v.hints == nil || v.hints.Watching())
}

// quietWait returns how long not to claim because nothing else writes to the store; 0 otherwise.
func (v *env) quietWait() time.Duration {
	if !v.isQuiet() {
		return 0
	}
	return quietPoll - v.clock.answerAge()
}

// NotifyRules returns who is told of timers of a namespace that do not name a target themselves.
func (v *env) NotifyRules(namespace string) []rouse.NotifyRule {
	if v.opts.NotifyRules == nil {
		return nil
	}
	return v.opts.NotifyRules(namespace)
}

// Unclaimed reports whether no live node claims a namespace, so that its timers wait.
func (v *env) Unclaimed(namespace string) bool {
	return v.opts.Claims != nil && !v.opts.Claims.Has(namespace)
}

// WarnUnclaimed reports a namespace in which a timer is created although no live node claims it.
func (v *env) WarnUnclaimed(namespace string) {
	if v.opts.Claims != nil && !v.opts.Claims.All() && v.Unclaimed(namespace) {
		v.opts.Events.emitUnclaimed(namespace, 0)
	}
}

// updateClock updates the estimate of the store's clock from a response.
func (v *env) updateClock(asked time.Time, now rouse.Instant) {
	if v.others != nil {
		v.clock.updateBounds(now, asked, boottime.Now(), false)
	}
}
