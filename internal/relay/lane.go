package relay

import (
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/throttle"
)

// lane is a queue of fires that share a sink's limits. The executor's mutex guards it.
type lane struct {
	key     laneKey
	limit   rouse.Lane
	waiting []*job
	out     int
	blocked bool // it is in Executor.blocked

	busy   time.Time // since when it has more than it gets rid of at once; zero if it has not
	speed  throttle.Speed
	tokens throttle.TokenBucket
	next   time.Time // when the next one that is put off would have its turn
}

type laneKey struct{ namespace, name string }

// What a lane may have waiting here while room is short: what it gets rid of in backlog, once it has shown for trial how fast it is,
// or a few as long as there is room at all.
const (
	backlog = 2 * time.Second
	trial   = time.Second
)

// enqueue puts a job into its lane. The mutex is held.
func (x *Executor) enqueue(j *job) {
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
	x.pump(ln, now)
	x.relieve(ln, now)
}

// pump hands what waits in a lane to its sink, as far as limits allow. The mutex is held.
func (x *Executor) pump(ln *lane, now time.Time) {
	for len(ln.waiting) > 0 && ln.out < ln.limit.Limit && !x.stopping {
		if !throttle.MayTake(ln.out, x.out, x.opts.Prefetch) {
			if !ln.blocked {
				ln.blocked = true
				x.blocked = append(x.blocked, ln)
			}
			return
		}
		n := ln.tokens.Allows(min(len(ln.waiting), max(1, ln.limit.Batch), ln.limit.Limit-ln.out), now)
		if n == 0 {
			return // the next tick looks again
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
		x.work.Go(func() { x.send(ln, jobs) })
	}
}

// send is one delivery.
func (x *Executor) send(ln *lane, jobs []*job) {
	jobs = x.recheck(ln, jobs)
	if len(jobs) == 0 {
		return
	}
	fires := make([]rouse.Fire, len(jobs))
	for i, j := range jobs {
		fires[i] = j.Fire
	}
	x.opts.Events.Sent(fires)
	defer func() {
		// A sink that panics has failed; it is one fire's target that does it, and others are out here as well.
		if p := recover(); p != nil {
			x.opts.Events.Failed("deliver", fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			o := rouse.Outcome{Verdict: rouse.Failed, Detail: rouse.Shorten(fmt.Sprintf("the sink panicked: %v", p), rouse.MaxDetail)}
			for _, j := range jobs {
				x.settled(ln, j, o)
			}
		}
	}()
	x.sink.Deliver(x.deliver, fires, func(i int, o rouse.Outcome) { x.settled(ln, jobs[i], o) })
}

// settled takes an outcome from the sink, which does not wait for what follows.
func (x *Executor) settled(ln *lane, j *job, o rouse.Outcome) {
	x.ended(ln, j, func() { x.conclude(j, o) })
}

// ended frees the place of a job that was with the sink, and lets it go on as next says. What has ended already stays as it is.
func (x *Executor) ended(ln *lane, j *job, next func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if j.state != running {
		return
	}
	now := time.Now()
	ln.out--
	x.out--
	ln.speed.Add(1, now)
	next()
	x.pump(ln, now)
	for n := len(x.blocked); n > 0; n-- {
		other := x.blocked[0]
		x.blocked = x.blocked[1:]
		other.blocked = false
		before := other.out
		if x.pump(other, now); other.out == before {
			break // no room after all
		}
	}
	x.forget(ln)
}

// forget drops a lane that has nothing left, when there are many.
func (x *Executor) forget(ln *lane) {
	if len(x.lanes) > x.opts.Prefetch && ln.out == 0 && len(ln.waiting) == 0 && !ln.blocked {
		delete(x.lanes, ln.key)
	}
}

// relieve puts off what a slow lane will not get rid of soon, while room is short: it goes back to the store, and comes again when
// it may have its turn. The mutex is held.
func (x *Executor) relieve(ln *lane, now time.Time) {
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
		x.conclude(j, rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBacklog, After: after, Detail: "its target takes longer than others may wait"})
	}
	if limit := now.Add(time.Hour); ln.next.After(limit) {
		ln.next = limit
	}
	clear(ln.waiting[keep:])
	ln.waiting = ln.waiting[:keep]
}
