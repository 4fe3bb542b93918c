package watch

import (
	"context"
	"slices"

	"github.com/rousehq/rouse/internal/notify"
)

// Triggers may wait for hours, and the end of the delivery context must still be noticed. Instead of starting
// a goroutine for that, the sink keeps the caller of the context's first Deliver until no trigger of that
// context is outstanding. That caller is the waiter.

// waiter counts the outstanding triggers of the deliveries with one context.
type waiter struct {
	ctx  context.Context
	open int           // unreported triggers
	idle chan struct{} // signaled when there are none
}

// watch adds n triggers to the waiter of a context. Contexts with the same Done channel share a waiter. mine
// means that the waiter is new and that the caller must run it.
func (s *Sink) watch(ctx context.Context, n int) (w *waiter, mine bool) {
	for _, w := range s.waiters {
		if w.ctx.Done() == ctx.Done() {
			w.open += n
			return w, false
		}
	}
	w = &waiter{ctx: ctx, open: n, idle: make(chan struct{}, 1)}
	s.waiters = append(s.waiters, w)
	return w, true
}

// done counts a trigger as reported.
func (s *Sink) done(w *waiter) {
	if w.open--; w.open == 0 {
		notify.Send(w.idle)
	}
}

// wait blocks until no trigger of the context is outstanding. When the context ends, all are reported.
func (s *Sink) wait(w *waiter) {
	for {
		select {
		case <-w.idle:
		case <-w.ctx.Done():
			finish(s.abandon(w))
		}
		s.mu.Lock()
		over := w.open == 0
		if over {
			s.waiters = slices.DeleteFunc(s.waiters, func(other *waiter) bool { return other == w })
		}
		s.mu.Unlock()
		if over {
			return
		}
	}
}

// abandon defers all triggers of a context that has ended. As after a crash, a sent trigger may have arrived
// and may come again; it spends no attempt.
func (s *Sink) abandon(w *waiter) (out []report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.streams {
		for _, t := range st.unacked {
			if t.d.waiter == w {
				out = append(out, s.put(t, stopping))
			}
		}
		st.unsent = slices.DeleteFunc(st.unsent, func(t *trigger) bool { return t.stream != st })
	}
	for _, c := range s.channels {
		for _, q := range c.queues {
			for t := q.head; t != nil; {
				next := t.next
				if t.d.waiter == w {
					out = append(out, s.put(t, stopping))
				}
				t = next
			}
		}
		s.dropUnused(c)
	}
	return out
}
