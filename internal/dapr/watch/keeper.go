package watch

import (
	"context"
	"slices"

	"github.com/rousehq/rouse/internal/notify"
)

// Who waits for the end of ctx, when triggers may wait for hours and nobody does anything? Instead of a goroutine of its own, whose
// life somebody would have to manage, the sink keeps the caller of the first Deliver of a context until nothing of that context
// is outstanding: the keeper.

// watching counts what is outstanding of the deliveries of one context.
type watching struct {
	ctx  context.Context
	open int           // triggers that are not reported
	idle chan struct{} // there are none
}

// watch adds n triggers to those of a context. Contexts that end together are one. mine says that it is new, and needs the
// caller's care.
func (s *Sink) watch(ctx context.Context, n int) (w *watching, mine bool) {
	for _, w := range s.keepers {
		if w.ctx.Done() == ctx.Done() {
			w.open += n
			return w, false
		}
	}
	w = &watching{ctx: ctx, open: n, idle: make(chan struct{}, 1)}
	s.keepers = append(s.keepers, w)
	return w, true
}

// done counts a trigger as reported.
func (s *Sink) done(w *watching) {
	if w.open--; w.open == 0 {
		notify.Send(w.idle)
	}
}

// keep stays until nothing of the context is outstanding; when it ends, nothing is.
func (s *Sink) keep(w *watching) {
	for {
		select {
		case <-w.idle:
		case <-w.ctx.Done():
			finish(s.abandon(w))
		}
		s.mu.Lock()
		over := w.open == 0
		if over {
			s.keepers = slices.DeleteFunc(s.keepers, func(other *watching) bool { return other == w })
		}
		s.mu.Unlock()
		if over {
			return
		}
	}
}

// abandon gives up all triggers of a context that has ended. As after a crash, what was sent may have arrived and may come again;
// no attempt is spent on the service's own end.
func (s *Sink) abandon(w *watching) (out []report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.streams {
		for _, t := range st.unacked {
			if t.d.keeper == w {
				out = append(out, s.put(t, stopping))
			}
		}
		st.unsent = slices.DeleteFunc(st.unsent, func(t *trigger) bool { return t.stream != st })
	}
	for _, c := range s.channels {
		for _, q := range c.queues {
			for t := q.head; t != nil; {
				next := t.next
				if t.d.keeper == w {
					out = append(out, s.put(t, stopping))
				}
				t = next
			}
		}
		s.forget(c)
	}
	return out
}
