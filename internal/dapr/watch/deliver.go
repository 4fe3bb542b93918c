package watch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/dapr/job"
	"github.com/rousehq/rouse/internal/hub"
)

// The parts of the hub: a channel is that of an app or an actor type, a subscriber a watch, an item a
// trigger.
type (
	streams = hub.Hub[job.Channel, watch, state]
	channel = hub.Channel[job.Channel, watch, state]
	stream  = hub.Sub[job.Channel, watch, state]
	trigger = hub.Item[job.Channel, watch, state]
)

// state is the state of a trigger in the sink.
type state struct {
	job  *schedulerv1.NamedJob
	dead bool // its job was deleted or replaced
	id   uint64
	sent time.Time
}

// Outcomes of triggers that were not sent.
var (
	again = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: time.Millisecond,
		Detail: "a sidecar has come that watches for it"}
	gone = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBacklog, After: time.Millisecond,
		Detail: "the job was deleted or replaced"}

	// moving is that of a trigger that another node is to send. The delay gives the owner of the timer time
	// to find it; with a shorter one, the timer would stay with the node that writes it.
	moving = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: time.Second,
		Detail: "its bucket moves to another member"}

	// shared is that of a trigger whose stream has ended soon after the list of members changed.
	shared = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: time.Second,
		Detail: "the sidecar watches all members again, as they have changed"}
)

// Deliver hands triggers to the streams that watch for them, or queues them. It returns before they are
// answered, except for one call per context, which stays to wait for the end of the context.
func (s *Sink) Deliver(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	d := s.hub.NewDelivery(ctx, fires, settle)
	for i := range d.Items {
		t := &d.Items[i]
		named, err := job.Read(t.Fire().Spec)
		if err == nil {
			_, err = job.Of(named.Name, named.Metadata)
		}
		if err != nil {
			s.hub.Reject(t, rouse.Outcome{Verdict: rouse.Rejected, Detail: rouse.Shorten(err.Error(), rouse.MaxDetail)})
			continue
		}
		t.Of.job = named
	}
	s.hub.Take(d)()
}

// channelOfTrigger returns the channel of a trigger.
func channelOfTrigger(t *trigger) job.Channel {
	ref, _ := job.Within(t.Of.job.Metadata)
	return ref.Channel()
}

// offerTrigger gives a new trigger to a stream, or makes it wait.
func (s *Sink) offerTrigger(t *trigger) {
	c := t.Channel()
	if len(c.Subs) == 0 {
		s.triggerCounts(c.Key).Undelivered++
	}
	s.hub.Offer(t)
	if key, is := s.hub.Blocked(t); is {
		s.countThrottled(c, key)
	}
}

// assignTriggerID gives a trigger its id, and dropUnacked takes it from its stream.
func (s *Sink) assignTriggerID(st *stream, t *trigger) {
	st.Of.ids++
	t.Of.id, t.Of.sent = st.Of.ids, time.Now()
	st.Of.unacked[t.Of.id] = t
	s.counts.Sent++
}

func dropUnacked(st *stream, t *trigger) { delete(st.Of.unacked, t.Of.id) }

// placeTriggers ends the triggers that were sent to a stream that has ended, and makes the others wait in
// order, in front of those that wait already.
func (s *Sink) placeTriggers(st *stream, triggers []*trigger, sent int) {
	for typ, limits := range st.Of.limits {
		s.hub.Unlimit(s.hub.Channel(st.Of.actorChannel(typ)), limits)
	}
	for n, t := range slices.Backward(triggers) {
		switch c := t.Channel(); {
		case t.Of.dead:
			s.hub.Report(t, gone)
		case s.hub.Draining():
			s.hub.Report(t, hub.Stopping)
		case n < sent:
			s.loseTrigger(st, t)
		default:
			if len(c.Subs) == 0 {
				s.triggerCounts(c.Key).Undelivered++
			}
			s.hub.Await(t, true)
		}
	}
}

// rewatch is how long after a change of the list of members the end of a stream is no loss: a sidecar ends
// all its watches, at the members that stay as well, and opens them again.
const rewatch = 30 * time.Second

// loseTrigger ends a trigger that was sent to a stream that has ended. Versions before rouse.MaxLost gave
// jobs without retries one attempt, because the end of a stream spent none. Such jobs are in stores: their
// losses are counted without it.
func (s *Sink) loseTrigger(st *stream, t *trigger) {
	if !s.changed.IsZero() && time.Since(s.changed) < rewatch {
		s.hub.Report(t, shared)
		return
	}
	const detail = "the sidecar's stream has ended"
	f := t.Fire()
	if f.Attempt > 1 || !f.Last || f.Lost+1 >= rouse.MaxLost {
		s.hub.Lose(st, t, detail)
		return
	}
	o := rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber,
		Lost: !errors.Is(st.Err(), rouse.ErrUnauthenticated), Detail: detail}
	if f.Lost > 0 {
		o.After = time.Second // as after a loss that spends an attempt
	}
	s.hub.Report(t, o)
}

// Delete drops the triggers of a job that was deleted, or replaced by the given generation: a trigger of
// another one that waits is not sent any more, and one that is with a stream does not go to another.
// Generations have no order, as timers from other stores keep theirs. If the job has been replaced again by
// now, triggers of the new generation come again at once.
func (s *Sink) Delete(ref job.Ref, generation uint64) {
	s.hub.Lock()
	defer s.hub.Unlock()
	for t := range s.hub.Named(ref.Key().Name) {
		switch {
		case t.Channel().Key != ref.Channel() || t.Fire().Generation == generation:
		case t.Waiting():
			s.hub.Report(t, gone)
		default:
			t.Of.dead = true
		}
	}
}

// Release gives back triggers of timers that are leaving this node: those that wait for a stream or a gate,
// and those that were sent before the given time and are unanswered. They come again immediately from the
// node that then has them. Later answers are ignored.
func (s *Sink) Release(leaving func(*rouse.Fire) bool, before time.Time) {
	s.hub.Lock()
	defer s.hub.Unlock()
	for t := range s.hub.Items() {
		f := t.Fire()
		if (t.Waiting() || t.Of.sent.Before(before)) && leaving(f) {
			s.hub.Report(t, moving)
		}
	}
}
