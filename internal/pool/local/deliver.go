package local

import (
	"context"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/target"
)

// delivery is the content of one Deliver.
type delivery struct {
	ctx    context.Context
	fires  []rouse.Fire
	settle func(i int, o rouse.Outcome)
}

// reportAll reports one outcome for all fires.
func (d *delivery) reportAll(o rouse.Outcome) {
	for i := range d.fires {
		d.settle(i, o)
	}
}

// Outcomes of requests that no worker has received.
var (
	stopping = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseServerDown, After: time.Second,
		Detail: "the service is stopping"}
	idle = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: time.Second,
		Detail: "the pool is not managed now"}
	tooMany = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBacklog, After: time.Second,
		Detail: "too many requests are in memory"}
	noQueue = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: time.Second,
		Detail: "the queue of the key is not there yet"}
	overLimit = rouse.Outcome{Verdict: rouse.Deferred, After: time.Second,
		Detail: "the group of the key waits, as a limit of the pool is reached"}
	unknown = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: 30 * time.Second,
		Detail: "this node does not have the pool"}
)

// Deliver passes the requests of one key to its workers, or keeps them until the key has a queue. It returns
// before they are answered, except for one Deliver at a time, which also handles deadlines.
func (s *Sink) Deliver(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	if len(fires) == 0 {
		return
	}
	d := &delivery{ctx, fires, settle}
	name, key, err := target.Parse(fires[0].Spec.Target)
	if err != nil {
		d.reportAll(rouse.Outcome{Verdict: rouse.Rejected, Code: CodeRejected,
			Detail: rouse.Shorten(err.Error(), rouse.MaxDetail)})
		return
	}
	p := s.poolNamed(name)
	if p == nil {
		d.reportAll(unknown)
		return
	}
	// both may be parts of the timer's row
	came, key := s.opts.Now(), p.groupOfKey(strings.Clone(fires[0].Namespace), strings.Clone(key))
	d.settle = func(i int, o rouse.Outcome) {
		p.recordRequestEnd(key, &fires[i], o, came)
		settle(i, o)
	}
	switch {
	case s.life.Err() != nil || ctx.Err() != nil:
		d.reportAll(stopping)
		return
	case s.held.Add(int64(len(fires))) > int64(s.opts.MaxHeld):
		s.held.Add(-int64(len(fires)))
		d.reportAll(tooMany)
		return
	}
	settled := d.settle
	d.settle = func(i int, o rouse.Outcome) {
		s.held.Add(-1)
		if o.Verdict == rouse.Rejected && o.Code == 0 {
			o.Code = CodeRejected
		}
		if o.Verdict == rouse.Done {
			s.opts.Answered(&fires[i], o.Answer)
		}
		settled(i, o)
	}
	p.enqueueDelivery(key, d)()
}

// recordRequestEnd records the outcome of a request that arrived at a given time.
func (p *Pool) recordRequestEnd(key string, f *rouse.Fire, o rouse.Outcome, came rouse.Instant) {
	_, plain := pool.SplitGroup(key)
	args := []any{"key", plain, "namespace", f.Namespace, "timer", f.Name, "attempt", f.Attempt, "why", o.Detail}
	switch o.Verdict {
	case rouse.Done, rouse.Rejected:
		p.mu.Lock()
		term := p.term
		p.mu.Unlock()
		if term != nil {
			term.Note(key, pool.RequestDone)
		}
	case rouse.Deferred:
		if p.expiresWithin(f, o.After, came) {
			p.lines.Warn(p.manager.Log(), "a request expires: no worker takes it before its deadline", args...)
		}
	}
	if o.Verdict == rouse.Rejected || o.Verdict == rouse.Failed {
		p.lines.Warn(p.manager.Log(), "a worker did not answer a request",
			append(args, "rejected", o.Verdict == rouse.Rejected)...)
	}
}

// expiresWithin reports whether the deadline of a request passes before the engine looks at it again, after a
// delay. A request that arrived after its deadline was sent nevertheless and does not count.
func (p *Pool) expiresWithin(f *rouse.Fire, after time.Duration, came rouse.Instant) bool {
	if f.Spec.Deadline == 0 || f.Manual {
		return false
	}
	deadline := f.At.Add(f.Spec.Deadline)
	return came <= deadline && p.sink.opts.Now().Add(after) > deadline
}
