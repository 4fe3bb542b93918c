// Package watch is the sink of targets "dapr:job/APP" and "dapr:actor/TYPE": it delivers fires to the
// sidecars that watch for them, over the streams of Dapr's WatchJobs.
//
//	Deliver ─► channel: waiting triggers ─► stream: triggers to send ─► Send, with an id     (deliver.go, serve.go)
//	outcomes ◄── results by id, policies of jobs, the end of ctx                         (stream.go)
//
// It promises:
//   - A trigger is with one stream at a time. Streams of one app, or of one actor type, take turns.
//   - A trigger without a stream waits in memory. When a stream comes, the engine immediately checks again
//     whether to send it: it may have been deleted, replaced or paused while it waited.
//   - When a stream ends, its unanswered triggers have failed, and go to the next one: immediately the first
//     time, and as dead letters after rouse.MaxLost times in a row.
//   - A stream that reads or answers slowly holds up to its limit and delays no other stream.
//   - Answers have no deadline: a trigger belongs to its stream until it is answered or the stream ends.
//   - Concurrency limits hold (gate.go): a trigger that waits for one does not delay triggers without it.
//
// The channels, turns, gates and contexts are those of internal/hub. A stream has two goroutines.
package watch

import (
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/dapr/job"
	"github.com/rousehq/rouse/internal/hub"
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

func (o Options) withWatchDefaults() Options {
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

// maxPerChannel is the maximum number of triggers of a channel in memory, unacked that of a stream.
func (o *Options) maxPerChannel() int { return max(o.MaxHeld/2, 1) }
func (o *Options) maxPerStream() int  { return max(o.MaxHeld/4, 1) }

// batch is the maximum number of fires in one Deliver.
const batch = 256

// Sink is safe for concurrent use.
type Sink struct {
	opts  Options
	lanes hub.Lanes
	hub   *streams // its lock guards the fields below

	members   int               // how many share the limits; 0: not known yet
	changed   time.Time         // when the list of members changed
	counts    Counts            // counters for Counts
	throttled map[string]uint64 // triggers that had to wait, by the name of their gate
}

// New returns a sink without streams.
func New(o Options) *Sink {
	s := &Sink{opts: o.withWatchDefaults(), throttled: map[string]uint64{}}
	s.hub = hub.New(hub.Options[job.Channel, watch, state]{MaxSubs: s.opts.MaxStreams, MaxHeld: s.opts.MaxHeld,
		Names: true,
		Now:   func() rouse.Instant { return rouse.Reached(time.Now()) }, Clone: cloneChannel, Key: channelOfTrigger,
		Gate:   concurrencyKey,
		Arrive: s.offerTrigger, Ready: s.hasStreamRoom, Assigned: s.assignTriggerID, Back: dropUnacked,
		Parted:  s.placeTriggers,
		Refused: func(t *trigger) { s.triggerCounts(t.Channel().Key).Undelivered++ }})
	return s
}

// cloneChannel copies the strings of a key, which may be parts of a timer's row.
func cloneChannel(key job.Channel) job.Channel {
	key.Namespace, key.Owner = strings.Clone(key.Namespace), strings.Clone(key.Owner)
	return key
}

// Check refuses a spec that was not made from a job.
func (s *Sink) Check(spec *rouse.Spec) error {
	if err := job.CheckTarget(spec.Target); err != nil {
		return err
	}
	w := &spec.Webhook
	switch {
	case w.Any():
		return rouse.Refuse("webhook", "", "does not go with a target of Dapr's", "leave it out")
	case spec.Retry.Timeout != 0:
		return rouse.Refuse("retry.timeout", spec.Retry.Timeout.String(),
			"does not go with a target of Dapr's: a trigger is its stream's until it is answered", "leave it out")
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
	return rouse.Lane{Name: s.lanes.Name(namespace, spec.Target), Limit: s.opts.maxPerChannel(), Batch: batch, Paced: true}
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
	s.hub.Lock()
	defer s.hub.Unlock()
	if c := s.hub.Find(ref.Channel()); c == nil || len(c.Subs) == 0 {
		return "no sidecar watches for " + spec.Target[len(job.Scheme):] + " here"
	}
	return ""
}

// Share sets this member's index and the number of members that share each concurrency limit. It is called
// when the list of members has changed.
func (s *Sink) Share(index, of int) {
	s.hub.Share(index, of)
	s.hub.Lock()
	defer s.hub.Unlock()
	if s.members > 0 {
		s.changed = time.Now()
	}
	s.members = of
}

// Drain defers waiting and new triggers, so that a stopping engine does not wait for streams. Triggers with a
// stream stay there.
func (s *Sink) Drain() { s.hub.Drain(nil) }

// Close ends all streams and refuses new ones.
func (s *Sink) Close() { s.hub.Close() }

// Wait waits for the goroutines of streams whose Serve has returned.
func (s *Sink) Wait() { s.hub.Wait() }

var _ interface {
	rouse.Sink
	rouse.Obstructed
} = (*Sink)(nil)
