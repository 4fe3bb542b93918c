package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// phase is the state of the queue of a key.
type phase uint8

const (
	absent  phase = iota // there is no queue
	bound                // it receives requests
	unbound              // it receives no more requests
	closing              // as unbound, but empty and unwanted: its workers may end
)

// groupStatus returns the corresponding status of a group.
func (p phase) groupStatus() Status {
	switch p {
	case bound:
		return Active
	case unbound, closing:
		return Unbound
	}
	return Inactive
}

// queueLoop creates, binds, unbinds and deletes request queues, so that they match the target. Nothing else
// changes them, so its view of them is accurate.
type queueLoop struct {
	*loop
	queues  Queues
	tracker *liveTracker
	log     *slog.Logger
	failing failureLog
	metrics *Metrics
	gone    func(key string) bool // reports whether the key has no workers left
	moved   *signal               // of the group loop: a phase may be another one

	// free reports whether the workers of a key may end, whose queue has been unbound since a time: they hold
	// no request, or have held it for too long.
	free func(key string, unbound time.Time) bool

	pending map[string]bool // keys whose queue may differ from the target; owned by the loop's goroutine

	// old has the groups that the pool would not make any more, by their names, which may be routing keys of
	// others.
	old map[string]string

	mu      sync.Mutex // guards the fields below; only the loop's goroutine writes states and target
	target  Target
	states  map[string]*queueState
	waiting map[string][]*waiter
	doubted map[string]bool // keys whose queue must be created and bound again, in any phase
	touched map[string]bool // keys whose state or target has changed since the last call of changedPlans
}

// queueState is the loop's view of the queue of one key.
type queueState struct {
	phase  phase
	busy   bool             // a call is in flight that may have changed it already
	failed *repeatedFailure // of the last call, if it did
	retry  time.Time        // no call before, as the last one failed
	since  time.Time        // since when an unbound queue certainly is
	look   time.Time        // no inspection of an unwanted queue before
	quiet  time.Time        // since when a closing queue is empty and unused; zero if it is used
	rest   time.Time        // the name is not used before

	suspect bool // whether it exists must be verified first

	// old means that its group is one that the pool would not make any more: it is not bound again. left,
	// that requests were found in it, for which its workers have to run.
	old, left bool
}

// waiter waits until the loop has reached a generation and the queue of a key is bound.
type waiter struct {
	generation Generation
	released   chan struct{}
}

func newQueueLoop(q Queues, c *Config, there []Queue) *queueLoop {
	l := &queueLoop{loop: newLoop(c.Timing), queues: q, old: map[string]string{}, pending: map[string]bool{},
		states:  map[string]*queueState{},
		waiting: map[string][]*waiter{}, doubted: map[string]bool{}, touched: map[string]bool{}}
	for _, queue := range there {
		st := &queueState{phase: unbound, since: time.Now()}
		if queue.Bound {
			st.phase = bound
		}
		if !c.ownsGroup(queue.Key) {
			st.old = true
			l.old[GroupName(queue.Key)] = queue.Key
		}
		l.states[queue.Key] = st
		l.pending[queue.Key], l.touched[queue.Key] = true, true
	}
	return l
}

// passQueues adopts a new target and starts the calls that are due.
func (l *queueLoop) passQueues(ctx context.Context, now time.Time) time.Time {
	if target := l.tracker.currentTarget(); target.Generation != l.target.Generation {
		l.adoptTarget(target)
	}
	l.resolveDoubts()
	var next time.Time
	for key := range l.pending {
		if l.atCallLimit() {
			break // the end of a call causes another pass
		}
		st := l.states[key]
		if st.busy {
			continue
		}
		call, due := l.nextQueueCall(key, st, now)
		switch {
		case call == nil && due.IsZero():
			l.markConverged(key, st)
		case due.After(now):
			next = earlierNonZero(next, due)
		default:
			l.startQueueCall(ctx, key, st, call)
		}
	}
	return next
}

// nextQueueCall returns the next call that a queue needs and when it is due; nil and a zero time if it
// matches the target.
func (l *queueLoop) nextQueueCall(key string, st *queueState, now time.Time) (call operation, due time.Time) {
	want := l.target.Groups[key]
	switch {
	case st.suspect:
		return l.verifyQueue, st.retry
	case want == Active && st.phase != bound && l.takenBy(key):
		return l.openRequestQueue, now.Add(l.timing.Interval) // or when the other one is unbound
	case want == Active && st.phase == absent:
		return l.openRequestQueue, latestTime(st.retry, st.rest)
	case want == Active && st.phase != bound:
		return l.openRequestQueue, st.retry
	case want != Active && st.phase == bound:
		return l.unbindQueue, st.retry
	case want == Inactive && st.phase == unbound:
		return l.inspectQueue, latestTime(st.retry, st.look)
	case want == Inactive && st.phase == closing:
		if !st.quiet.IsZero() && now.Sub(st.quiet) >= l.timing.Settle && l.gone(key) {
			return l.deleteQueue, st.retry
		}
		return l.inspectQueue, latestTime(st.retry, st.look)
	case want == Inactive && st.phase == absent && st.rest.After(now):
		return nil, st.rest
	}
	return nil, time.Time{}
}

// takenBy reports whether an old group still gets the requests that are routed by the name of a group, which
// would go to both.
func (l *queueLoop) takenBy(key string) bool {
	old, ok := l.old[GroupName(key)]
	return ok && l.states[old] != nil && l.states[old].phase == bound
}

// oldGroup returns the group with a name that is to end, while it is there.
func (l *queueLoop) oldGroup(name string) (group string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, ok := l.old[name]
	return old, ok && l.states[old] != nil
}

func latestTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// markConverged is called for a key whose queue matches the target.
func (l *queueLoop) markConverged(key string, st *queueState) {
	delete(l.pending, key)
	if st.phase == absent && l.target.Groups[key] == Inactive {
		l.mu.Lock()
		delete(l.states, key)
		l.mu.Unlock()
	}
}

// adoptTarget takes a new target.
func (l *queueLoop) adoptTarget(target Target) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, st := range l.states {
		if target.Groups[key] != l.target.Groups[key] {
			l.pending[key], l.touched[key] = true, true
			st.retry = time.Time{}
		}
	}
	for key := range target.Groups {
		if l.states[key] == nil {
			l.states[key] = &queueState{}
			l.pending[key], l.touched[key] = true, true
		}
	}
	l.target = target
	for key := range l.waiting {
		l.releaseWaiters(key)
	}
	l.moved.sendSignal()
}

// operation is a call to the transport. The loop's goroutine runs the outcome that it returns.
type operation func(ctx context.Context, key string) (outcome func(st *queueState, now time.Time), err error)

func (l *queueLoop) startQueueCall(ctx context.Context, key string, st *queueState, f operation) {
	l.mu.Lock()
	st.busy = true
	l.touched[key] = true
	l.mu.Unlock()
	l.startLoopCall(ctx, func(calling context.Context) func() {
		outcome, err := f(calling, key)
		return func() {
			now := time.Now()
			l.mu.Lock()
			defer l.mu.Unlock()
			st.busy = false
			if errors.Is(err, ErrNoQueue) || errors.Is(err, ErrInUse) {
				st.failed = &repeatedFailure{err: err} // which is the answer
			} else {
				st.failed = l.failing.noteCallFailure(ctx, st.failed, err, "a call for a request queue failed and is retried",
					"key", GroupName(key))
			}
			switch {
			case err == nil:
				outcome(st, now)
			case errors.Is(err, ErrNoQueue): // deleted by another client
				st.phase, st.suspect, st.rest = absent, false, now.Add(l.timing.Rest)
			case errors.Is(err, ErrInUse):
				st.phase = unbound // inspect it again
				st.retry = now.Add(l.timing.Interval)
			default:
				st.retry = now.Add(l.timing.Interval)
				l.metrics.failures.WithLabelValues("queue").Inc()
			}
			l.pending[key], l.touched[key] = true, true
			l.releaseWaiters(key)
			l.moved.sendSignal()
		}
	})
}

func (l *queueLoop) openRequestQueue(ctx context.Context, key string) (func(*queueState, time.Time), error) {
	err := l.queues.Open(ctx, key)
	return func(st *queueState, _ time.Time) { st.phase = bound }, err
}

func (l *queueLoop) unbindQueue(ctx context.Context, key string) (func(*queueState, time.Time), error) {
	err := l.queues.Unbind(ctx, key)
	return func(st *queueState, now time.Time) { st.phase, st.since, st.look = unbound, now, time.Time{} }, err
}

// verifyQueue finds out whether a queue exists.
func (l *queueLoop) verifyQueue(ctx context.Context, key string) (func(*queueState, time.Time), error) {
	_, err := l.queues.Load(ctx, key)
	return func(st *queueState, _ time.Time) { st.suspect = false }, err
}

// inspectQueue looks into an unwanted queue. If it contains requests, its group becomes Active again. Workers
// may end when they hold none: no further requests can enter the queue.
func (l *queueLoop) inspectQueue(ctx context.Context, key string) (func(*queueState, time.Time), error) {
	load, err := l.queues.Load(ctx, key)
	return func(st *queueState, now time.Time) {
		switch {
		case l.target.Groups[key] != Inactive: // it was requested in the meantime
		case load.Ready > 0 && st.old:
			st.phase, st.left, st.look = unbound, true, l.nextInspection(now)
		case load.Ready > 0:
			l.log.Info("requests are left in a queue that was to be stopped", "key", GroupName(key), "requests", load.Ready)
			l.tracker.requireGroup(key, 0)
		case st.phase == unbound && !l.free(key, st.since):
			st.look = l.nextInspection(now)
		case st.phase == unbound:
			st.phase, st.quiet, st.look = closing, time.Time{}, now
		default:
			switch {
			case load.Consumers > 0 || !l.gone(key):
				st.quiet = time.Time{}
			case st.quiet.IsZero():
				st.quiet = now
			}
			st.look = l.nextInspection(now)
		}
	}, err
}

// nextInspection returns when an unwanted queue is inspected again.
func (l *queueLoop) nextInspection(now time.Time) time.Time {
	return now.Add(max(l.timing.Interval, l.timing.Settle/4))
}

func (l *queueLoop) deleteQueue(ctx context.Context, key string) (func(*queueState, time.Time), error) {
	lost, err := l.queues.Delete(ctx, key)
	return func(st *queueState, now time.Time) {
		st.phase, st.rest, st.quiet = absent, now.Add(l.timing.Rest), time.Time{}
		if l.metrics.lost.Add(float64(lost)); lost > 0 {
			l.log.Error("requests were lost with the queue that they were in", "key", GroupName(key), "requests", lost)
		}
	}, err
}

// doubtQueue is called when a queue may differ from the loop's view, for example because it was deleted by
// hand. The loop then creates and binds it again.
func (l *queueLoop) doubtQueue(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubted[key] = true
	l.wake.sendSignal()
}

// resolveDoubts applies doubts to the states.
func (l *queueLoop) resolveDoubts() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.doubted {
		st := l.states[key]
		if st != nil && st.busy {
			continue // after the call in flight
		}
		if delete(l.doubted, key); st != nil && st.phase == bound {
			st.phase, st.since, st.suspect = unbound, time.Now(), true
			l.pending[key], l.touched[key] = true, true
		}
	}
}

// awaitBound returns when the loop has reached a generation and the queue of the key is bound.
func (l *queueLoop) awaitBound(ctx context.Context, key string, g Generation) error {
	l.mu.Lock()
	w := &waiter{g, make(chan struct{})}
	l.waiting[key] = append(l.waiting[key], w)
	l.releaseWaiters(key)
	l.mu.Unlock()
	select {
	case <-w.released:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-w.released: // released at the last moment
		return nil
	default:
	}
	l.waiting[key] = slices.DeleteFunc(l.waiting[key], func(o *waiter) bool { return o == w })
	if len(l.waiting[key]) == 0 {
		delete(l.waiting, key)
	}
	if st := l.states[key]; st != nil && st.failed != nil {
		return fmt.Errorf("%w; its queue: %w", ctx.Err(), st.failed.err)
	}
	return ctx.Err()
}

// releaseWaiters releases the waiters whose condition is met.
func (l *queueLoop) releaseWaiters(key string) {
	st := l.states[key]
	if st == nil || st.phase != bound || st.busy || l.doubted[key] {
		return
	}
	l.waiting[key] = slices.DeleteFunc(l.waiting[key], func(w *waiter) bool {
		if w.generation > l.target.Generation {
			return false
		}
		close(w.released)
		return true
	})
	if len(l.waiting[key]) == 0 {
		delete(l.waiting, key)
	}
}

// plan is the action of the loop for groups on the workers of a key.
type plan uint8

const (
	end  plan = iota // there should be none
	keep             // leave them as they are
	run              // there should be as many as the pool has for a key
)

// deriveWorkerPlan derives the plan for the workers of a key. Workers run if the key has a queue, and end
// only if it is empty.
func (l *queueLoop) deriveWorkerPlan(key string) plan {
	st, wanted := l.states[key], l.target.Groups[key] != Inactive
	switch {
	case st == nil:
		return end
	case wanted && st.phase != absent && !(st.phase == closing && st.busy): // a closing queue with a call in flight may be about to be deleted
		return run
	case st.phase == unbound && st.left:
		return run
	case wanted || st.phase == bound || st.phase == unbound:
		return keep
	}
	return end
}

// changedPlans returns the plan of each key whose plan may have changed since the last call; the first call
// returns all.
func (l *queueLoop) changedPlans() map[string]plan {
	l.mu.Lock()
	defer l.mu.Unlock()
	plans := make(map[string]plan, len(l.touched))
	for key := range l.touched {
		plans[key] = l.deriveWorkerPlan(key)
	}
	clear(l.touched)
	return plans
}

// queueStatus is the reported state of the queue of a key.
type queueStatus struct {
	actual  Status
	closing bool  // it is about to be deleted
	failed  error // the last error, if the last call failed
}

// queueStatuses returns the state of all queues, and the generation that the loop has reached.
func (l *queueLoop) queueStatuses() (Generation, map[string]queueStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make(map[string]queueStatus, len(l.states))
	for key, st := range l.states {
		list[key] = queueStatus{st.phase.groupStatus(), st.phase == closing, st.failed.callError()}
	}
	return l.target.Generation, list
}
