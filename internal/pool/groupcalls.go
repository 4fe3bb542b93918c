package pool

import (
	"context"
	"errors"
	"time"
)

// groupCall is the last call for a key.
type groupCall struct {
	what    string // start or drain
	busy    bool
	since   uint64 // after its end: lists with a higher number show its effect
	told    bool   // such a list has arrived
	missing int    // how many workers a start was to bring
	// by how many workers the group differed from its goal when the call was made, or in the last list after
	// it
	left int

	// A driver may take long to execute a call, or may never do it, as noop does. Calls are retried with a
	// backoff that doubles.
	pause time.Duration
	retry time.Time // no similar call before; zero if a list must come first
}

// longestAsk is the longest backoff between two calls for a key that have no effect.
const longestAsk = time.Minute

// longestFailing is the longest backoff between two calls for a key that fail.
const longestFailing = 15 * time.Second

// askedPause returns how long an error asks to wait before the next call, as a busy server does; at most
// longestAsk.
func askedPause(err error) time.Duration {
	var asks interface{ RetryAfter() time.Duration }
	if !errors.As(err, &asks) {
		return 0
	}
	return min(asks.RetryAfter(), longestAsk)
}

// applyListing reads the effect of a call from a list: left is how many workers still differ from the goal.
// If the number went down, the next call may follow immediately, otherwise after a backoff.
func (c *groupCall) applyListing(left int, now time.Time, first time.Duration) {
	switch {
	case left < c.left:
		c.pause, c.retry = 0, now
	case !c.told && c.retry.IsZero(): // it did not fail
		c.pause = min(max(2*c.pause, first), max(longestAsk, first))
		c.retry = now.Add(c.pause)
	}
	c.told, c.left = true, left
}

// differenceToGoal returns by how many workers a key differs from the goal of the call.
func (l *groupLoop) differenceToGoal(what, key string) int {
	n := l.servingWorkers(key)
	if what == "drain" {
		return n
	}
	return max(l.size-n, n-l.size)
}

// replaceWorkers drains the workers of a key, which kills those that do not end. The next pass starts new
// ones.
func (l *groupLoop) replaceWorkers(ctx context.Context, key string, now time.Time) {
	l.startGroupCall(ctx, key, now, "drain", func(ctx context.Context) error {
		err := l.driver.Drain(ctx, key)
		if err == nil {
			l.mu.Lock()
			delete(l.stalled, key)
			l.mu.Unlock()
		}
		return err
	})
}

// ensureWorkers starts the workers of a key, if the limits allow it.
func (l *groupLoop) ensureWorkers(ctx context.Context, key string, now time.Time) {
	if c := l.inProgress[key]; c != nil && (c.busy || c.retry.IsZero() || c.what == "start" && c.retry.After(now)) {
		if !c.busy && !c.retry.IsZero() {
			l.deferKey(key, c.retry)
		}
		return
	}
	missing := l.missingWorkers(key)
	limit, again := l.mayStart(key, now)
	if limit != "" {
		if !again.IsZero() {
			l.deferKey(key, again)
		}
		return
	}
	l.startGroupCall(ctx, key, now, "start", func(ctx context.Context) error { return l.driver.Ensure(ctx, l.group(key)) })
	l.countAsked(l.inProgress[key], missing)
}

// publishWaits publishes which keys wait for which limit.
func (l *groupLoop) publishWaits() {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.limited)
	clear(l.limited)
	for _, key := range l.starts.line {
		l.limited[key] = LimitStarts
		if !l.hasWorkerRoom(l.missingWorkers(l.starts.line[0])) {
			l.limited[key] = LimitWorkers
		}
	}
	if before == 0 && len(l.limited) > 0 && l.reached != nil {
		l.reached()
	}
}

// startGroupCall makes a call, unless another call for the key is in flight or the effect of the last one is
// not known yet. In that case a later pass looks at the key again.
func (l *groupLoop) startGroupCall(ctx context.Context, key string, now time.Time, what string,
	f func(context.Context) error) {
	c := l.inProgress[key]
	switch {
	case c == nil:
		c = &groupCall{what: what}
	case c.busy || c.retry.IsZero(): // the next list decides
		return
	case c.what != what:
		c.what, c.pause = what, 0 // a different call starts without backoff
	case c.retry.After(now):
		l.deferKey(key, c.retry)
		return
	}
	delete(l.asleep, key)
	c.busy, c.told, c.left, c.retry = true, false, l.differenceToGoal(what, key), time.Time{}
	l.inProgress[key] = c
	l.mu.Lock()
	l.touched[key] = true
	l.mu.Unlock()
	l.startLoopCall(ctx, func(calling context.Context) func() {
		err := f(calling)
		return func() {
			c.busy, c.since, l.relist = false, l.lists, true
			l.recordOutcome(ctx, key, what, err)
			if err == nil {
				if what == "start" && l.planWorkers(key) == run {
					l.ensured[key] = true
				}
				return
			}
			l.discountAsked(c)
			c.pause = min(max(2*c.pause, l.timing.Interval), max(longestFailing, l.timing.Interval))
			c.retry = time.Now().Add(max(c.pause, askedPause(err)))
			l.deferKey(key, c.retry)
			l.metrics.failures.WithLabelValues(what).Inc()
		}
	})
}

// recordOutcome publishes and logs why the last call for a key failed, if it did.
func (l *groupLoop) recordOutcome(ctx context.Context, key, what string, err error) {
	l.mu.Lock()
	before := l.failed[key]
	l.mu.Unlock()
	now := l.failing.noteCallFailure(ctx, before, err, "cannot "+what+" the workers of a key", "key", GroupName(key))
	l.mu.Lock()
	defer l.mu.Unlock()
	if now == nil {
		delete(l.failed, key)
	} else {
		l.failed[key] = now
	}
}
