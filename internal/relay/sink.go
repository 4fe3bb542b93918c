package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/queue"
)

// SinkOptions tune a Sink. Zero fields have the defaults that their comments name.
type SinkOptions struct {
	// Allowance is how long a fire may be in the queue and with executors, beside its attempt's timeout, until it is given up: the
	// attempt has failed then. It has to be longer than executors may all be away. Default 5 min.
	Allowance time.Duration

	// Limit is how many fires may be on their way into the queue at a time. Default 16,384.
	Limit int
	// Batch is how many fires are published at a time, at most. Default 512.
	Batch int

	// Patience is how long fires wait for a queue that is full, or away, until they are put off. Default 10 s.
	Patience time.Duration

	// Now is the store's clock. Default is the machine's.
	Now func() rouse.Instant
}

func (o SinkOptions) withDefaults() SinkOptions {
	if o.Allowance == 0 {
		o.Allowance = 5 * time.Minute
	}
	if o.Limit == 0 {
		o.Limit = 16_384
	}
	if o.Batch == 0 {
		o.Batch = 512
	}
	if o.Patience == 0 {
		o.Patience = 10 * time.Second
	}
	if o.Now == nil {
		o.Now = machineClock
	}
	return o
}

func machineClock() rouse.Instant { return rouse.Reached(time.Now()) }

// Sink is the scheduler's end of a queue: it publishes fires, and reports those that are confirmed as accepted. What is published
// is delivered by the executors' sinks, of which it has one to check specs with. It is safe for concurrent use.
type Sink struct {
	checks rouse.Sink
	queue  queue.Publisher
	opts   SinkOptions
	wrong  atomic.Pointer[string] // why the last publishing failed; nil if it did not
}

// NewSink returns a sink that hands the fires of another one to a queue.
func NewSink(checks rouse.Sink, q queue.Publisher, o SinkOptions) *Sink {
	return &Sink{checks: checks, queue: q, opts: o.withDefaults()}
}

// Check is the other sink's.
func (s *Sink) Check(spec *rouse.Spec) error { return s.checks.Check(spec) }

// Lane is one for all fires whose rate of catching up is bounded, and one for those that receivers pace: how many a target takes at a time is for the executors to heed. No attempt is spent before it is
// published, as publishing ends no process.
func (s *Sink) Lane(namespace string, spec *rouse.Spec) rouse.Lane {
	if s.checks.Lane(namespace, spec).Paced {
		return rouse.Lane{Name: "queue paced", Limit: s.opts.Limit, Batch: s.opts.Batch, Paced: true}
	}
	return rouse.Lane{Name: "queue", Limit: s.opts.Limit, Batch: s.opts.Batch}
}

// Obstacle says why the queue does not take fires; if it does, what the other sink says.
func (s *Sink) Obstacle(namespace string, spec *rouse.Spec) string {
	if why := s.wrong.Load(); why != nil {
		return *why
	}
	if o, ok := s.checks.(rouse.Obstructed); ok {
		return o.Obstacle(namespace, spec)
	}
	return ""
}

// Deliver publishes the fires. Those that the queue refuses are published again for as long as its patience lasts, and then put
// off; so are those that it did not confirm, which may be in the queue all the same: they will have a newer token.
func (s *Sink) Deliver(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	messages := make([]queue.Message, 0, len(fires))
	index := make([]int, 0, len(fires)) // of each message's fire
	allowances := make([]time.Duration, len(fires))
	for i := range fires {
		p := s.parcel(&fires[i])
		allowances[i] = p.Allowance
		m := queue.Message{ID: messageID(&fires[i]), Body: p.encode()}
		if err := m.Check(); err != nil { // it will be too large the next time as well
			settle(i, rouse.Outcome{Verdict: rouse.Rejected, Detail: rouse.Shorten("cannot be queued: "+err.Error(), rouse.MaxDetail)})
			continue
		}
		messages, index = append(messages, m), append(index, i)
	}
	patience, cancel := context.WithTimeout(ctx, s.opts.Patience)
	defer cancel()
	for b := backoff.New(20*time.Millisecond, time.Second); len(messages) > 0; {
		errs := s.queue.Publish(patience, messages)
		left := 0
		var refused error
		for n, err := range errs {
			i := index[n]
			switch {
			case err == nil:
				settle(i, rouse.Outcome{Verdict: rouse.Accepted, After: allowances[i], Detail: "queued"})
			case patience.Err() == nil && (errors.Is(err, queue.ErrFull) || errors.Is(err, queue.ErrUnavailable)):
				messages[left], index[left] = messages[n], i
				left++
				refused = err
			default:
				refused = err
				settle(i, putOff(err))
			}
		}
		messages, index = messages[:left], index[:left]
		s.note(refused)
		if left > 0 && !b.Pause(patience) {
			for _, i := range index {
				settle(i, putOff(refused))
			}
			return
		}
	}
}

// parcel is what the executors get of a fire.
func (s *Sink) parcel(f *rouse.Fire) parcel {
	p := parcel{Fire: *f, Allowance: f.Spec.Retry.Effective().Timeout + s.opts.Allowance}
	late := s.opts.Now().Sub(f.At)
	p.Asked = f.Spec.Deadline != 0 && !f.Manual && late > f.Spec.Deadline // otherwise the engine would not have sent it
	return p
}

// putOff is the outcome of a fire that is not known to be in the queue. No attempt is spent.
func putOff(err error) rouse.Outcome {
	return rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBrokerUnavailable, After: time.Second + rand.N(time.Second), Detail: rouse.Shorten(err.Error(), rouse.MaxDetail)}
}

func (s *Sink) note(err error) {
	if err == nil {
		s.wrong.Store(nil)
		return
	}
	why := fmt.Sprintf("cannot be published: %v", err)
	s.wrong.Store(&why)
}
