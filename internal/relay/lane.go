package relay

import (
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/throttle"
)

// lane is a queue of fires that share the limits of a sink. It is guarded by the executor's mutex.
type lane struct {
	key     laneKey
	limit   rouse.Lane
	waiting []*job
	out     int
	blocked bool // it is in Executor.blocked

	busy   time.Time // since when it has more fires than it can send at once; zero if it has not
	speed  throttle.Speed
	tokens throttle.TokenBucket
	next   time.Time // when the next deferred fire would have its turn
}

type laneKey struct{ namespace, name string }

// How many fires a lane may hold while room is short: as many as it delivers within backlog, once its speed
// has been measured for trial, and at least a few if there is any room.
const (
	backlog = 2 * time.Second
	trial   = time.Second
)

// enqueueJob adds a job to its lane. The caller holds the mutex.
func (x *Executor) enqueueJob(j *job) {
	f := &j.Fire
	limit := x.opts.Limit(f.Namespace, f.Spec, x.sink.Lane(f.Namespace, f.Spec))
	key := laneKey{f.Namespace, limit.Name}
	ln := x.lanes[key]
	now := time.Now()
	if ln == nil {
		ln = &lane{key: key}
		x.lanes[key] = ln
	}
	ln.limit = limit
	ln.tokens.Set(limit.Rate, limit.Burst, now)
	if ln.busy.IsZero() {
		ln.busy = now
	}
	j.state = waiting
	ln.waiting = append(ln.waiting, j)
	x.pumpLane(ln, now)
	x.deferBacklog(ln, now)
}

// pumpLane passes waiting fires of a lane to its sink, as far as the limits allow. The caller holds the
// mutex.
func (x *Executor) pumpLane(ln *lane, now time.Time) {
	for len(ln.waiting) > 0 && ln.out < ln.limit.Limit && !x.stopping {
		if !x.hasPlace(ln) {
			if !ln.blocked {
				ln.blocked = true
				x.blocked = append(x.blocked, ln)
			}
			return
		}
		n := ln.tokens.Allows(min(len(ln.waiting), max(1, ln.limit.Batch), ln.limit.Limit-ln.out), now)
		if n == 0 {
			return // the next tick retries
		}
		jobs := slices.Clone(ln.waiting[:n])
		clear(ln.waiting[:n])
		if ln.waiting = ln.waiting[n:]; len(ln.waiting) == 0 {
			ln.waiting, ln.busy = nil, time.Time{}
		}
		for _, j := range jobs {
			j.state = running
		}
		ln.out += n
		ln.tokens.Take(n)
		x.out += n
		x.outOf[ln.key.namespace] += n
		x.work.Go(func() { x.deliverJobs(ln, jobs) })
	}
}

// hasPlace reports whether a lane may begin a delivery by the rules for sharing the room: its namespace takes
// its share of all, and the lane its share of that.
func (x *Executor) hasPlace(ln *lane) bool {
	out := x.outOf[ln.key.namespace]
	most := throttle.Share(out+x.opts.Prefetch-x.out, x.opts.Prefetch, x.opts.Reserve, 1)
	return out < most && ln.out < throttle.Share(ln.out+most-out, most, throttle.Reserve, 1)
}

// deliverJobs makes one delivery.
func (x *Executor) deliverJobs(ln *lane, jobs []*job) {
	jobs = x.recheckJobs(ln, jobs)
	if len(jobs) == 0 {
		return
	}
	fires := make([]rouse.Fire, len(jobs))
	for i, j := range jobs {
		fires[i] = j.Fire
	}
	x.opts.Events.Sent(fires)
	defer func() {
		// A panic of a sink is a failure of these fires only, because others are being delivered as well.
		if p := recover(); p != nil {
			x.opts.Events.Failed("deliver", fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			o := rouse.Outcome{Verdict: rouse.Failed, Detail: rouse.Shorten(fmt.Sprintf("the sink panicked: %v", p),
				rouse.MaxDetail)}
			for _, j := range jobs {
				x.acceptOutcome(ln, j, o)
			}
		}
	}()
	x.sink.Deliver(x.deliver, fires, func(i int, o rouse.Outcome) { x.acceptOutcome(ln, jobs[i], o) })
}

// acceptOutcome accepts an outcome from the sink without blocking it.
func (x *Executor) acceptOutcome(ln *lane, j *job, o rouse.Outcome) {
	x.releaseCapacity(ln, j, func() { x.startReport(j, o) })
}

// releaseCapacity frees the sink's capacity used by a job, and continues with next. A job that has ended
// before is ignored.
func (x *Executor) releaseCapacity(ln *lane, j *job, next func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if j.state != running {
		return
	}
	now := time.Now()
	ln.out--
	x.out--
	if x.outOf[ln.key.namespace]--; x.outOf[ln.key.namespace] == 0 {
		delete(x.outOf, ln.key.namespace)
	}
	ln.speed.Add(1, now)
	next()
	x.pumpLane(ln, now)
	// one waits for the room of its namespace, the next may not
	for n := len(x.blocked); n > 0 && x.out < x.opts.Prefetch; n-- {
		other := x.blocked[0]
		x.blocked = x.blocked[1:]
		other.blocked = false
		x.pumpLane(other, now)
	}
	x.dropIdle(ln)
}

// dropIdle deletes an idle lane if there are many lanes, and its rate limit is as a new one.
func (x *Executor) dropIdle(ln *lane) {
	if len(x.lanes) > x.opts.Prefetch && ln.out == 0 && len(ln.waiting) == 0 && !ln.blocked && ln.tokens.Full(time.Now()) {
		delete(x.lanes, ln.key)
	}
}

// deferBacklog defers fires of a slow lane while room is short: they return to the store, and come again when
// they may have their turn. The caller holds the mutex.
func (x *Executor) deferBacklog(ln *lane, now time.Time) {
	if len(x.jobs) < x.opts.Prefetch/2 || ln.busy.IsZero() || now.Sub(ln.busy) < trial {
		return
	}
	rate := ln.speed.PerSecond(now)
	few := min(max(2*ln.limit.Batch, 8), x.opts.Prefetch-len(x.jobs))
	keep := max(few, int(rate*backlog.Seconds()), 0)
	if len(ln.waiting) <= keep {
		return
	}
	if ln.next.Before(now) {
		ln.next = now.Add(backlog)
	}
	for _, j := range ln.waiting[keep:] {
		ln.next = ln.next.Add(time.Duration(float64(time.Second) / max(rate, 0.1)))
		after := min(max(ln.next.Sub(now), time.Second), j.Allowance)
		x.startReport(j, rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBacklog, After: after,
			Detail: "its target takes longer than others may wait"})
	}
	if limit := now.Add(time.Hour); ln.next.After(limit) {
		ln.next = limit
	}
	clear(ln.waiting[keep:])
	ln.waiting = ln.waiting[:keep]
}
