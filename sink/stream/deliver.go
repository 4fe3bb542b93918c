package stream

import (
	"context"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// delivery is what one Deliver brought. Its fires are read until each is reported.
type delivery struct {
	fires  []rouse.Fire
	settle func(i int, o rouse.Outcome)
	watch  *watch
	until  time.Duration // when fires that nobody took are deferred
}

// report is an outcome on its way to who delivered the fire. Reports are gathered under the mutex and made without it.
type report struct {
	item
	o rouse.Outcome
}

// stopping is the outcome of fires that the service's end leaves: soon for another node, or for the next start.
var stopping = rouse.Outcome{Verdict: rouse.Deferred, After: time.Second, Detail: "the service is stopping"}

// Deliver hands fires of one channel to its subscribers. It returns before they are settled, but for one Deliver at a time
// that stays as the keeper.
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
	d := &delivery{fires: fires, settle: settle, until: now.at + s.opts.Wait}
	w, keeper := s.dispatch(ctx, d, channelKey{fires[0].Namespace, name}, now)
	if w == nil {
		for i := range fires {
			settle(i, stopping)
		}
		return
	}
	if keeper {
		s.keep(w)
	}
}

// dispatch gives a delivery to its channel. It returns no watch if nothing is delivered any more.
func (s *Sink) dispatch(ctx context.Context, d *delivery, key channelKey, now moment) (w *watch, keeper bool) {
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
	d.watch, keeper = s.watch(ctx, len(d.fires))
	c := s.channel(key)
	c.dispatch(*items, now)
	if c.waiting.live > 0 {
		s.sooner(d.until)
	}
	return d.watch, keeper
}

// itemLists are lists of fires to dispatch, to be used again.
var itemLists = sync.Pool{New: func() any { return new([]item) }}

// finish makes reports. The mutex is not held: who hears of them may take one of its own.
func finish(reports []report) {
	for i := range reports {
		r := &reports[i]
		r.d.settle(int(r.i), r.o)
	}
}

// putOff is how long a fire is put off at most, unless Options say otherwise.
const putOff = 30 * time.Second

// deferral is the outcome of a fire that nobody took: the later it is already, the longer until it is tried again.
func deferral(late, most time.Duration) rouse.Outcome {
	return rouse.Outcome{Verdict: rouse.Deferred, After: min(max(late/2, time.Second), most), Detail: "no subscriber has taken it"}
}
