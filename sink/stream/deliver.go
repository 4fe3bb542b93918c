package stream

import (
	"context"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/hub"
)

// The parts of the hub: a subscriber has a state, and a fire at a subscriber has a ticket.
type (
	streams    = hub.Hub[channelKey, state, ticket]
	channel    = hub.Channel[channelKey, state, ticket]
	subscriber = hub.Sub[channelKey, state, ticket]
	item       = hub.Item[channelKey, state, ticket]
)

type channelKey struct{ namespace, name string }

// cloneKey copies the strings, which may be parts of a timer's row.
func (k channelKey) cloneKey() channelKey {
	return channelKey{strings.Clone(k.namespace), strings.Clone(k.name)}
}

// ticket is the state of a fire in the sink.
type ticket struct {
	tag     uint64        // at its subscriber, if it was sent
	latest  time.Duration // bound of extensions
	sent    time.Duration
	size    int  // in a message; 0: not computed yet
	expires bool // its wait ends because of the timer's deadline
}

// Deliver passes fires of one channel to its subscribers. It returns before they are settled, except for
// one Deliver at a time, which stays as the timekeeper.
func (s *Sink) Deliver(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	if len(fires) == 0 {
		return
	}
	name, err := channelOf(fires[0].Spec.Target)
	if err != nil {
		for i := range fires {
			settle(i, rouse.Outcome{Verdict: rouse.Rejected, Detail: rouse.Shorten(err.Error(), rouse.MaxDetail)})
		}
		return
	}
	s.Put(ctx, fires[0].Namespace, name, fires, settle)()
}

// Put passes fires to the subscribers of a channel, whatever their targets, as Deliver does, but returns
// immediately. The caller has to call the returned function, which returns when nothing of the context is
// outstanding.
func (s *Sink) Put(ctx context.Context, namespace, name string, fires []rouse.Fire,
	settle func(i int, o rouse.Outcome)) (stay func()) {
	d := s.hub.NewDelivery(ctx, fires, settle)
	d.Key = channelKey{namespace, name}
	return s.hub.Take(d)
}

// Load is the state of a channel.
type Load struct {
	Waiting     int // fires without a subscriber
	Held        int // unsettled fires at subscribers
	Subscribers int
}

// Load returns the current state of a channel.
func (s *Sink) Load(namespace, name string) (l Load) {
	s.hub.Lock()
	defer s.hub.Unlock()
	if c := s.hub.Find(channelKey{namespace, name}); c != nil {
		l = Load{Waiting: c.Waiting(), Held: c.Held() - c.Waiting(), Subscribers: len(c.Subs)}
	}
	return l
}

// waitDeadline returns when a fire that begins to wait has waited long enough. The timer's deadline ends the
// wait as well, so that the engine can report it as expired; a fire that arrived after its deadline has none.
func (s *Sink) waitDeadline(it *item) time.Duration {
	f, until := it.Fire(), s.hub.Now()+s.opts.Wait
	it.Of.expires = false
	if f.Spec.Deadline == 0 || f.Manual {
		return until
	}
	came := s.opts.Now().Add(it.Came() - s.hub.Now())
	left := f.At.Add(f.Spec.Deadline + pastDeadline).Sub(came)
	if at := it.Came() + left; left > 0 && at < until {
		it.Of.expires = true
		return at
	}
	return until
}

// pastDeadline is added to a deadline to be sure that it has passed.
const pastDeadline = 2 * time.Millisecond

// expiredOutcome returns the outcome of a fire that has waited long enough, or that was not settled in time.
func (s *Sink) expiredOutcome(it *item) rouse.Outcome {
	if it.Sent() {
		s.cancelFire(it)
		return rouse.Outcome{Verdict: rouse.Failed, Detail: "not settled in time"}
	}
	c := it.Channel()
	o := rouse.Outcome{Verdict: rouse.Deferred, Cause: untakenCause(c, it), After: time.Millisecond,
		Detail: "no subscriber has taken it"}
	if it.Of.expires {
		return o
	}
	now := s.opts.Now()
	late := now.Sub(it.Fire().Due)
	if len(c.Subs) == 0 {
		late = min(late, s.unserved.unservedFor(c.Key, now))
	}
	o.After = hub.PutOff(late, s.opts.MaxPutOff)
	return o
}

// untakenCause returns why a waiting fire was not taken: it passes no subscriber's filter, or the matching
// subscribers have no credits left.
func untakenCause(c *channel, it *item) rouse.Cause {
	for _, sub := range c.Subs {
		if passesFilter(sub, it) {
			return rouse.CauseBacklog
		}
	}
	return rouse.CauseNoSubscriber
}

// putOff is the default maximum deferral of a fire.
const putOff = 30 * time.Second

// Recall cancels fires that subscribers of a namespace have had for a while and that are no longer wanted.
// alive returns which of a bounded number of fires are; it is called without a lock, and must not keep the
// fires.
func (s *Sink) Recall(namespace string, had time.Duration, most int, alive func(fires []rouse.Fire) []bool) {
	type sent struct {
		sub *subscriber
		tag uint64
	}
	var fires []rouse.Fire
	var of []sent
	s.hub.Lock()
	now := s.hub.Now()
	for sub := range s.hub.Subs() {
		if sub.Of.key.namespace != namespace {
			continue
		}
		for it := range sub.InHand() {
			if len(fires) < most && now-it.Of.sent >= had {
				fires, of = append(fires, *it.Fire()), append(of, sent{sub, it.Of.tag})
			}
		}
	}
	s.hub.Unlock()
	if len(fires) == 0 {
		return
	}
	wanted := alive(fires)
	s.hub.Lock()
	defer s.hub.Unlock()
	for i, one := range of {
		if it, _ := one.sub.Of.slots.findTag(one.tag); it != nil && !wanted[i] {
			s.cancelFire(it)
			s.hub.Report(it, rouse.Outcome{Verdict: rouse.Failed, Detail: "it was deleted or replaced in the meantime"})
		}
	}
}
