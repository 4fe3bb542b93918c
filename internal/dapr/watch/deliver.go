package watch

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/dapr/job"
)

// delivery is one call of Deliver. Its fires are read until each is reported.
type delivery struct {
	fires  []rouse.Fire
	settle func(i int, o rouse.Outcome)
	waiter *waiter
	came   time.Time
}

// trigger is a fire in progress. It is in a queue of its channel, with a stream, or reported.
type trigger struct {
	d       *delivery
	i       int32
	dead    bool // its job was deleted or replaced
	channel *channel
	job     *schedulerv1.NamedJob
	gates   []*gate // gates in which it takes a place

	namesake *trigger // another trigger of the same job
	queue    *queue   // the queue in which it waits, or nil
	prev     *trigger
	next     *trigger
	turn     uint64 // its place among the waiting triggers of its channel

	stream *stream
	id     uint64
	sent   time.Time
}

func (t *trigger) fire() *rouse.Fire { return &t.d.fires[t.i] }

// report is an outcome for the engine. Reports are collected under the mutex and made without it.
type report struct {
	d *delivery
	i int32
	o rouse.Outcome
}

// finish makes reports. The mutex is not held, because the receiver may take its own locks.
func finish(reports []report) {
	for i := range reports {
		r := &reports[i]
		r.d.settle(int(r.i), r.o)
	}
}

// Outcomes of triggers that were not sent, or whose result will not be known.
var (
	stopping = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseServerDown, After: time.Second, Detail: "the service is stopping"}
	again    = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: time.Millisecond, Detail: "a sidecar has come that watches for it"}
)

// Deliver hands triggers to the streams that watch for them, or queues them. It returns before they are
// answered, except for one call per context, which stays to wait for the end of the context (waiter.go).
func (s *Sink) Deliver(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	d := &delivery{fires: fires, settle: settle, came: time.Now()}
	triggers := make([]trigger, 0, len(fires))
	var out []report
	for i := range fires {
		named, err := job.Read(fires[i].Spec)
		if err == nil {
			_, err = job.Of(named.Name, named.Metadata)
		}
		if err != nil {
			out = append(out, report{d, int32(i), rouse.Outcome{Verdict: rouse.Rejected, Detail: rouse.Shorten(err.Error(), rouse.MaxDetail)}})
			continue
		}
		triggers = append(triggers, trigger{d: d, i: int32(i), job: named})
	}
	finish(out)
	if len(triggers) == 0 {
		return
	}
	if waiter, mine := s.take(ctx, triggers); mine {
		s.wait(waiter)
	}
}

// take gives triggers to their channels. mine means that the caller must stay.
func (s *Sink) take(ctx context.Context, triggers []trigger) (waiter *waiter, mine bool) {
	var out []report
	defer func() { finish(out) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	d := triggers[0].d
	if s.ending(ctx) {
		for i := range triggers {
			out = append(out, report{d, triggers[i].i, stopping})
		}
		return nil, false
	}
	d.waiter, mine = s.watch(ctx, len(triggers))
	var c *channel
	for i := range triggers {
		t := &triggers[i]
		ref, _ := job.Within(t.job.Metadata)
		if key := ref.Channel(); c == nil || c.key != key {
			c = s.channel(key)
		}
		t.channel = c
		c.name(t)
		c.held++
		if s.held++; s.held > s.opts.MaxHeld && c.held > s.opts.few() {
			s.kind(c.key).Undelivered++
			out = append(out, s.put(t, rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: putOff(t.fire()), Detail: "too many wait"}))
			continue
		}
		if len(c.streams) == 0 {
			s.kind(c.key).Undelivered++
		}
		c.push(t)
		out = s.pump(c, out)
		s.throttle(c, t)
	}
	return d.waiter, mine
}

// putOff is how long a trigger is deferred for which there is no room: longer if it is later already.
func putOff(f *rouse.Fire) time.Duration {
	const least, most = time.Second, 30 * time.Second
	late := time.Since(f.Due.Time())
	return min(max(late/2, least), most)
}

// put removes a trigger from wherever it is, and returns the report to make.
func (s *Sink) put(t *trigger, o rouse.Outcome) report {
	c := t.channel
	if t.queue != nil {
		t.queue.remove(t)
	}
	if t.stream != nil {
		delete(t.stream.unacked, t.id)
		t.stream = nil
	}
	t.leaveGates()
	c.unname(t)
	c.held--
	s.held--
	s.done(t.d.waiter)
	return report{t.d, t.i, o}
}
