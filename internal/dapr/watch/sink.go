// Package watch is the sink of targets "dapr:job/APP" and "dapr:actor/TYPE": it delivers fires to the
// sidecars that watch for them, over the streams of Dapr's WatchJobs.
//
//	Deliver ─► channel: waiting triggers ─► stream: triggers to send ─► Send, with an id     (deliver.go, channel.go, serve.go)
//	outcomes ◄── results by id, policies of jobs, the end of ctx                         (stream.go, waiter.go)
//
// It promises:
//   - A trigger is with one stream at a time. Streams of one app, or of one actor type, take turns.
//   - A trigger without a stream waits in memory. When a stream comes, the engine immediately checks again whether
//     to send it: it may have been deleted, replaced or paused while it waited.
//   - When a stream ends, its unanswered triggers go to the next one immediately. That is no failure and uses no retry.
//   - A stream that reads or answers slowly holds up to its limit and delays no other stream.
//   - Answers have no deadline: a trigger belongs to its stream until it is answered or the stream ends.
//   - Concurrency limits hold (gate.go): a trigger that waits for one does not delay triggers without it.
//
// There is one mutex. A stream has two goroutines. One of the running Deliver calls waits for the end of ctx
// (waiter.go).
package watch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/dapr/job"
)

// Options configure a sink. Zero fields have the defaults in their comments.
type Options struct {
	MaxStreams int // open watches; default 65,536
	MaxUnsent  int // triggers waiting to be written to one stream; default 1024

	// MaxHeld bounds the triggers in memory, waiting or with streams. It should be well below the engine's
	// MaxRows. An app or actor type gets up to half of it, a stream up to a quarter. Beyond it, only triggers
	// of apps and types with few are accepted, and others are deferred. Default 131,072.
	MaxHeld int
}

func (o Options) withDefaults() Options {
	or := func(p *int, d int) {
		if *p == 0 {
			*p = d
		}
	}
	or(&o.MaxStreams, 65_536)
	or(&o.MaxUnsent, 1024)
	or(&o.MaxHeld, 131_072)
	return o
}

// outstanding is the maximum number of triggers of a channel in memory, unacked that of a stream; few is the
// maximum of a channel when the total is too high.
func (o *Options) outstanding() int { return max(o.MaxHeld/2, 1) }
func (o *Options) unacked() int     { return max(o.MaxHeld/4, 1) }
func (o *Options) few() int         { return min(max(o.MaxHeld/8, 1), 1024) }

// batch is the maximum number of fires in one Deliver.
const batch = 256

// Sink is safe for concurrent use.
type Sink struct {
	opts      Options
	receivers sync.WaitGroup
	lanes     laneCache

	mu        sync.Mutex
	channels  map[job.Channel]*channel
	waiters   []*waiter
	streams   map[*stream]struct{}
	held      int // triggers in memory
	share     share
	draining  bool              // waiting and new triggers are deferred
	closed    bool              // no streams any more
	counts    Counts            // counters for Counts
	throttled map[string]uint64 // triggers that had to wait, by the name of their gate
}

// New returns a sink without streams.
func New(o Options) *Sink {
	return &Sink{opts: o.withDefaults(), channels: map[job.Channel]*channel{}, streams: map[*stream]struct{}{}, share: share{of: 1}, throttled: map[string]uint64{}}
}

// Check refuses a spec that was not made from a job.
func (s *Sink) Check(spec *rouse.Spec) error {
	if err := job.CheckTarget(spec.Target); err != nil {
		return err
	}
	w := &spec.Webhook
	switch {
	case w.Method != "" || len(w.Headers) > 0 || w.Structured || w.Batch != 0 || w.Accept != 0:
		return rouse.Refuse("webhook", "", "does not go with a target of Dapr's", "leave it out")
	case spec.Retry.Timeout != 0:
		return rouse.Refuse("retry.timeout", spec.Retry.Timeout.String(), "does not go with a target of Dapr's: a trigger is its stream's until it is answered", "leave it out")
	}
	named, err := job.Read(spec)
	if err != nil {
		return err
	}
	ref, err := job.Of(named.Name, named.Metadata)
	if err != nil {
		return rouse.Under("payload", err)
	}
	if want := ref.Target(); spec.Target != want {
		return rouse.Refuse("target", spec.Target, "is not that of the job in the payload", "give "+want)
	}
	return nil
}

// Lane returns one lane per app or actor type of a namespace.
func (s *Sink) Lane(namespace string, spec *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: s.lanes.name(namespace, spec.Target), Limit: s.opts.outstanding(), Batch: batch, Paced: true}
}

// Obstacle reports that no sidecar watches.
func (s *Sink) Obstacle(_ string, spec *rouse.Spec) string {
	named, err := job.Read(spec)
	if err != nil {
		return err.Error()
	}
	ref, err := job.Of(named.Name, named.Metadata)
	if err != nil {
		return err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.channels[ref.Channel()]; c == nil || len(c.streams) == 0 {
		return "no sidecar watches for " + spec.Target[len(job.Scheme):] + " here"
	}
	return ""
}

// Delete drops the triggers of a job that was deleted, or replaced by the given generation: an older trigger
// that waits is not sent any more, and one that is with a stream does not go to another.
func (s *Sink) Delete(ref job.Ref, generation uint64) {
	key := ref.Key()
	s.mu.Lock()
	var out []report
	if c := s.channels[ref.Channel()]; c != nil {
		for t := c.byName[key.Name]; t != nil; {
			next := t.namesake
			switch {
			case t.fire().Generation >= generation:
			case t.queue != nil:
				out = append(out, s.put(t, gone))
			default:
				t.dead = true
			}
			t = next
		}
		s.dropUnused(c)
	}
	s.mu.Unlock()
	finish(out)
}

// gone is the outcome of a trigger whose job no longer exists.
var gone = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBacklog, After: time.Millisecond, Detail: "the job was deleted or replaced"}

// Share sets this member's index and the number of members that share each concurrency limit.
func (s *Sink) Share(index, of int) {
	s.mu.Lock()
	s.share = share{index: max(index, 0), of: max(of, 1)}
	var out []report
	for _, c := range s.channels {
		out = s.pump(c, out)
	}
	s.mu.Unlock()
	finish(out)
}

// Release gives back triggers of timers that are leaving this node: those that wait for a stream or a gate,
// and those that were sent before the given time and are unanswered. They come again immediately from the
// node that then has them. Later answers are ignored.
func (s *Sink) Release(leaving func(rouse.Key) bool, before time.Time) {
	s.mu.Lock()
	var out []report
	is := func(t *trigger) bool {
		f := t.fire()
		return leaving(rouse.Key{Namespace: f.Namespace, Name: f.Name})
	}
	for st := range s.streams {
		for _, t := range st.unacked {
			if t.sent.Before(before) && is(t) {
				out = append(out, s.put(t, moving))
			}
		}
		st.unsent = slices.DeleteFunc(st.unsent, func(t *trigger) bool { return t.stream != st })
	}
	for _, c := range slices.Collect(maps.Values(s.channels)) {
		for _, q := range c.queues {
			for t := q.head; t != nil; {
				next := t.next
				if is(t) {
					out = append(out, s.put(t, moving))
				}
				t = next
			}
		}
		out = s.pump(c, out)
		s.dropUnused(c)
	}
	s.mu.Unlock()
	finish(out)
}

// moving is the outcome of a trigger that another node is to send. The delay gives the owner of the timer
// time to find it; with a shorter one, the timer would stay with the node that writes it.
var moving = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: time.Second, Detail: "its bucket moves to another member"}

// Drain defers waiting and new triggers, so that a stopping engine does not wait for streams. Triggers with a
// stream stay there.
func (s *Sink) Drain() {
	s.mu.Lock()
	s.draining = true
	var out []report
	for _, c := range slices.Collect(maps.Values(s.channels)) {
		out = s.release(c, stopping, out)
		s.dropUnused(c)
	}
	s.mu.Unlock()
	finish(out)
}

// Close ends all streams and refuses new ones.
func (s *Sink) Close() {
	s.mu.Lock()
	s.closed, s.draining = true, true
	open := slices.Collect(maps.Keys(s.streams))
	s.mu.Unlock()
	for _, st := range open {
		s.leave(st, rouse.ErrClosed)
	}
}

// Wait waits for the goroutines of streams whose Serve has returned.
func (s *Sink) Wait() { s.receivers.Wait() }

var _ interface {
	rouse.Sink
	rouse.Obstructed
} = (*Sink)(nil)

// response is the message for a trigger, without its id.
func response(named *schedulerv1.NamedJob) *schedulerv1.WatchJobsResponse {
	return &schedulerv1.WatchJobsResponse{Name: named.Name, Data: named.Job.Data, Metadata: named.Metadata}
}

// ending reports whether deliveries with ctx have ended.
func (s *Sink) ending(ctx context.Context) bool { return s.draining || ctx.Err() != nil }
