package stream

import (
	"context"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// delivery is the batch of one Deliver. Its fires are read until each is reported.
type delivery struct {
	fires  []rouse.Fire
	settle func(i int, o rouse.Outcome)
	watch  *watch
	came   moment
	until  time.Duration // when waiting fires are deferred
}

// report is an outcome to be reported. Reports are collected under the mutex and made without it.
type report struct {
	item
	o rouse.Outcome
}

// stopping is the outcome of fires at shutdown: due soon at another node, or after the next start.
var stopping = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseServerDown, After: time.Second, Detail: "the service is stopping"}

// Deliver passes fires of one channel to its subscribers. It returns before they are settled, except for
// one Deliver at a time, which stays as the timekeeper.
func (s *Sink) Deliver(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	if len(fires) == 0 {
		return
	}
	now := s.now()
	name, err := channelOf(fires[0].Spec.Target)
	if err != nil {
		for i := range fires {
			settle(i, rouse.Outcome{Verdict: rouse.Rejected, Detail: rouse.Shorten(err.Error(), rouse.MaxDetail)})
		}
		return
	}
	s.put(ctx, channelKey{fires[0].Namespace, name}, fires, settle, now)()
}

// Put passes fires to the subscribers of a channel, whatever their targets, as Deliver does, but returns
// immediately. The caller has to call the returned function, which returns when nothing of the context is
// outstanding.
func (s *Sink) Put(ctx context.Context, namespace, name string, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) (stay func()) {
	return s.put(ctx, channelKey{namespace, name}, fires, settle, s.now())
}

func (s *Sink) put(ctx context.Context, key channelKey, fires []rouse.Fire, settle func(i int, o rouse.Outcome), now moment) (stay func()) {
	d := &delivery{fires: fires, settle: settle, came: now, until: now.at + s.opts.Wait}
	w, first := s.dispatch(ctx, d, key, now)
	switch {
	case w == nil:
		for i := range fires {
			settle(i, stopping)
		}
	case first:
		return func() { s.keep(w) }
	}
	return func() {}
}

// Load is the state of a channel.
type Load struct {
	Waiting     int // fires without a subscriber
	Held        int // unsettled fires at subscribers
	Subscribers int
}

// Load returns the current state of a channel.
func (s *Sink) Load(namespace, name string) (l Load) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.channels[channelKey{namespace, name}]; c != nil {
		l.Waiting, l.Subscribers = c.waiting.live, len(c.subs)
		for _, sub := range c.subs {
			l.Held += sub.slots.live
		}
	}
	return l
}

// dispatch passes a delivery to its channel. It returns no watch after Close.
func (s *Sink) dispatch(ctx context.Context, d *delivery, key channelKey, now moment) (w *watch, first bool) {
	items := itemLists.Get().(*[]item)
	defer itemLists.Put(items)
	*items = (*items)[:0]
	for i := range d.fires {
		*items = append(*items, item{d, int32(i)})
	}
	defer clear(*items)

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || ctx.Err() != nil {
		return nil, false
	}
	d.watch, first = s.watch(ctx, len(d.fires))
	c := s.channel(key)
	s.sooner(c.dispatch(*items, now))
	return d.watch, first
}

// itemLists are reusable lists of fires to dispatch.
var itemLists = sync.Pool{New: func() any { return new([]item) }}

// finish makes reports. The mutex must not be held: the callee may lock one of its own.
func finish(reports []report) {
	for i := range reports {
		r := &reports[i]
		r.d.settle(int(r.i), r.o)
	}
}

// putOff is the default maximum deferral of a fire.
const putOff = 30 * time.Second

// deferral is the outcome of a fire without a subscriber: the later it is already, the longer until it is
// tried again.
func deferral(cause rouse.Cause, late, most time.Duration) rouse.Outcome {
	return rouse.Outcome{Verdict: rouse.Deferred, Cause: cause, After: min(max(late/2, time.Second), most), Detail: "no subscriber has taken it"}
}
