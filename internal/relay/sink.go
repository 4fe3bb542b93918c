package relay

import (
	"cmp"
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

// SinkOptions configure a Sink. Zero fields mean the default.
type SinkOptions struct {
	// Allowance is how long a fire may be in the queue and with executors, in addition to its attempt's
	// timeout, before the attempt fails. It must exceed the longest outage of all executors. Default 5 min.
	Allowance time.Duration

	// Limit is the maximum number of fires being published. Default 16,384.
	Limit int
	// Batch is the maximum number of fires published together. Default 512.
	Batch int

	// Patience is how long fires wait for a full or unavailable queue before they are deferred. Default 10 s.
	Patience time.Duration

	// Now is the store's clock; default the machine's.
	Now func() rouse.Instant
}

func (o SinkOptions) withSinkDefaults() SinkOptions {
	o.Allowance = cmp.Or(o.Allowance, 5*time.Minute)
	o.Limit = cmp.Or(o.Limit, 16_384)
	o.Batch = cmp.Or(o.Batch, 512)
	o.Patience = cmp.Or(o.Patience, 10*time.Second)
	if o.Now == nil {
		o.Now = machineClock
	}
	return o
}

func machineClock() rouse.Instant { return rouse.Reached(time.Now()) }

// Sink is the scheduler's end of a queue: it publishes fires, and reports the confirmed ones as accepted. The
// executors' sinks deliver them; the Sink uses one only to check specs. It is safe for concurrent use.
type Sink struct {
	checks rouse.Sink
	queue  queue.Publisher
	opts   SinkOptions
	wrong  atomic.Pointer[string] // why the last publishing failed; nil if it succeeded
}

// NewSink returns a sink that publishes fires to a queue, and checks specs with another sink.
func NewSink(checks rouse.Sink, q queue.Publisher, o SinkOptions) *Sink {
	return &Sink{checks: checks, queue: q, opts: o.withSinkDefaults()}
}

// Check validates a spec with the executors' sink.
func (s *Sink) Check(spec *rouse.Spec) error { return s.checks.Check(spec) }

// Lane returns one lane for all fires with a bounded catch-up rate, and one for fires paced by receivers: the
// limits of targets are enforced by the executors. No attempt is spent before the fire is published, as
// publishing crashes no process.
func (s *Sink) Lane(namespace string, spec *rouse.Spec) rouse.Lane {
	if s.checks.Lane(namespace, spec).Paced {
		return rouse.Lane{Name: "queue paced", Limit: s.opts.Limit, Batch: s.opts.Batch, Paced: true}
	}
	return rouse.Lane{Name: "queue", Limit: s.opts.Limit, Batch: s.opts.Batch}
}

// Obstacle returns why the queue does not accept fires; if it does, the obstacle of the other sink.
func (s *Sink) Obstacle(namespace string, spec *rouse.Spec) string {
	if why := s.wrong.Load(); why != nil {
		return *why
	}
	if o, ok := s.checks.(rouse.Obstructed); ok {
		return o.Obstacle(namespace, spec)
	}
	return ""
}

// Deliver publishes the fires. Fires that the queue refuses are retried until the patience is over, and then
// deferred. So are unconfirmed fires, although they may be in the queue: when sent again, they have a newer
// token. A fire that the queue would never accept is rejected.
func (s *Sink) Deliver(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	messages := make([]queue.Message, 0, len(fires))
	index := make([]int, 0, len(fires)) // of each message's fire
	allowances := make([]time.Duration, len(fires))
	for i := range fires {
		p := s.parcelOfFire(&fires[i])
		allowances[i] = p.Allowance
		m := queue.Message{ID: messageID(&fires[i]), Body: p.encodeParcel()}
		if err := m.Check(); err != nil { // it would be too large the next time as well
			settle(i, rejectUnfit(err))
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
			case errors.Is(err, queue.ErrRefused): // nor is that an obstacle for others
				settle(i, rejectUnfit(err))
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
		s.notePublishError(refused)
		if left > 0 && !b.Pause(patience) {
			for _, i := range index {
				settle(i, putOff(refused))
			}
			return
		}
	}
}

// parcelOfFire returns the content of a fire's message.
func (s *Sink) parcelOfFire(f *rouse.Fire) parcel {
	p := parcel{Fire: *f, Allowance: f.Spec.Retry.Effective().Timeout + s.opts.Allowance}
	late := s.opts.Now().Sub(f.At)
	p.Asked = f.Spec.Deadline != 0 && !f.Manual && late > f.Spec.Deadline // otherwise the engine would not have sent it
	return p
}

// rejectUnfit returns the outcome of a fire that the queue would never accept.
func rejectUnfit(err error) rouse.Outcome {
	return rouse.Outcome{Verdict: rouse.Rejected, Detail: rouse.Shorten("cannot be queued: "+err.Error(), rouse.MaxDetail)}
}

// putOff returns the outcome of a fire that may not be in the queue. No attempt is spent.
func putOff(err error) rouse.Outcome {
	return rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBrokerUnavailable,
		After: time.Second + rand.N(time.Second), Detail: rouse.Shorten(err.Error(), rouse.MaxDetail)}
}

func (s *Sink) notePublishError(err error) {
	if err == nil {
		s.wrong.Store(nil)
		return
	}
	why := fmt.Sprintf("cannot be published: %v", err)
	s.wrong.Store(&why)
}
