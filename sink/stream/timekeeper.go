package stream

import (
	"context"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// Fires wait, deadlines pass and contexts end even when no subscriber does anything. The sink has no
// goroutine of its own for that, because its caller would have to manage it. Instead, the caller of the
// first Deliver of a context stays as the timekeeper until nothing of that context is outstanding. So the
// goroutine belongs to the engine, and returns when it is not needed.

// watch counts what is outstanding of the deliveries of one context.
type watch struct {
	ctx  context.Context
	open int           // fires that are not reported
	wake chan struct{} // something earlier is due, or nothing is outstanding
}

// coarse bounds how often deadlines are checked: they are up to this much late.
const coarse = 10 * time.Millisecond

// watch adds n fires to the watch of a context. Contexts that end together share one. first reports that
// the watch is new: the caller has to call keep.
func (s *Sink) watch(ctx context.Context, n int) (w *watch, first bool) {
	for _, w := range s.watches {
		if w.ctx.Done() == ctx.Done() {
			w.open += n
			return w, false
		}
	}
	w = &watch{ctx: ctx, open: n, wake: make(chan struct{}, 1)}
	s.watches = append(s.watches, w)
	return w, true
}

// keep handles deadlines until nothing of the watch is outstanding.
func (s *Sink) keep(w *watch) {
	timer := time.NewTimer(coarse)
	defer timer.Stop()
	for {
		s.mu.Lock()
		if w.open == 0 {
			s.watches = slices.DeleteFunc(s.watches, func(other *watch) bool { return other == w })
			s.mu.Unlock()
			return
		}
		next := s.next
		s.mu.Unlock()
		timer.Reset(max(next-time.Since(s.start), coarse))
		select {
		case <-w.ctx.Done():
			finish(s.abandon(w))
		case <-timer.C:
			finish(s.expire())
		case <-w.wake:
		}
	}
}

// sooner tells timekeepers about an earlier deadline.
func (s *Sink) sooner(at time.Duration) {
	if at >= s.next {
		return
	}
	s.next = at
	for _, w := range s.watches {
		notify.Send(w.wake)
	}
}

// count subtracts the fires of reports from their watches, before the reports are made.
func count(reports []report) {
	for i := range reports {
		w := reports[i].d.watch
		if w.open--; w.open == 0 {
			notify.Send(w.wake)
		}
	}
}

// expire ends waits and deadlines that have passed, and computes the next check.
func (s *Sink) expire() (out []report) {
	now := s.now()
	var overdue []channelKey
	defer func() { // without the mutex
		for _, key := range overdue {
			s.opts.Happened(key.namespace, key.name, Overdue)
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = never
	next := never
	for _, c := range s.channels {
		out = c.overdue(out, now, s.unserved, s.opts.MaxPutOff)
		for _, sub := range c.subs {
			before := len(out)
			if out = sub.expire(out, now); len(out) > before && !sub.sending {
				c.feed(sub, now)
			}
			is, owed := sub.overdue(now)
			if is {
				overdue = append(overdue, c.key)
			}
			next = min(next, sub.slots.earliest, owed)
		}
		next = min(next, c.nextOverdue())
		s.dropUnused(c)
	}
	s.next = next
	count(out)
	return out
}

// abandon defers all fires of a context that has ended.
func (s *Sink) abandon(w *watch) (out []report) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.channels {
		at, last := c.waiting.from(0)
		for ; at < last; at++ {
			if it := c.waiting.at(at); it.d != nil && it.d.watch == w {
				out = append(out, report{it, stopping})
				c.waiting.remove(at)
			}
		}
		for _, sub := range c.subs {
			out = sub.abandon(out, w)
			if !sub.sending {
				c.feed(sub, now)
			}
		}
		s.dropUnused(c)
	}
	count(out)
	return out
}

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
	now := s.now()
	s.mu.Lock()
	for key, c := range s.channels {
		if key.namespace != namespace {
			continue
		}
		for _, sub := range c.subs {
			sub.slots.each(func(sl *slot) {
				if len(fires) < most && now.at-sl.sent >= had {
					fires, of = append(fires, *sl.item.fire()), append(of, sent{sub, sl.tag})
				}
			})
		}
	}
	s.mu.Unlock()
	if len(fires) == 0 {
		return
	}
	wanted := alive(fires)
	var out []report
	s.mu.Lock()
	for i, one := range of {
		if sl, _ := one.sub.slots.find(one.tag); sl != nil && !wanted[i] {
			if one.sub.strict {
				one.sub.owes[one.tag] = now.at + OverdueGrace
				s.sooner(now.at + OverdueGrace)
			}
			out = append(out, report{one.sub.cancel(sl), rouse.Outcome{Verdict: rouse.Failed, Detail: "it was deleted or replaced in the meantime"}})
		}
	}
	count(out)
	s.mu.Unlock()
	finish(out)
}
