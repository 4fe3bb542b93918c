package hub

import (
	"context"
	"slices"
	"time"

	"github.com/rousehq/rouse/internal/notify"
)

// Fires wait, deadlines pass and contexts end even when no subscriber does anything. The hub has no goroutine
// of its own for that, because its caller would have to manage it. Instead, the caller of the first delivery
// of a context stays as the timekeeper until nothing of that context is outstanding. So the goroutine belongs
// to the engine, and returns when it is not needed.

// watch counts the outstanding items of the deliveries of one context.
type watch struct {
	ctx  context.Context
	open int           // items that are not reported
	wake chan struct{} // something earlier is due, or nothing is outstanding
}

// Coarse bounds how often deadlines are checked: they are up to this much late.
const Coarse = 10 * time.Millisecond

// addToWatch adds n items to the watch of a context. Contexts that end together share one. first reports that
// the watch is new: the caller has to call watchDeadlines.
func (h *Hub[K, S, T]) addToWatch(ctx context.Context, n int) (w *watch, first bool) {
	for _, w := range h.watches {
		if w.ctx.Done() == ctx.Done() {
			w.open += n
			return w, false
		}
	}
	w = &watch{ctx: ctx, open: n, wake: make(chan struct{}, 1)}
	h.watches = append(h.watches, w)
	return w, true
}

// countReported counts an item as reported.
func (w *watch) countReported() {
	if w.open--; w.open == 0 {
		notify.Send(w.wake)
	}
}

// watchDeadlines handles deadlines until nothing of the watch is outstanding.
func (h *Hub[K, S, T]) watchDeadlines(w *watch) {
	timer := time.NewTimer(Coarse)
	defer timer.Stop()
	for {
		h.mu.Lock()
		if w.open == 0 {
			h.watches = slices.DeleteFunc(h.watches, func(other *watch) bool { return other == w })
			h.mu.Unlock()
			return
		}
		next := h.next
		h.mu.Unlock()
		timer.Reset(max(next-h.Now(), Coarse))
		select {
		case <-w.ctx.Done():
			h.deferWatched(w)
		case <-timer.C:
			h.Expire()
		case <-w.wake:
		}
	}
}

// Sooner wakes the timekeepers for an earlier deadline, of an item or of the door itself, at which Check is
// called. Locked.
func (h *Hub[K, S, T]) Sooner(at time.Duration) {
	if at >= h.next {
		return
	}
	h.next = at
	for _, w := range h.watches {
		notify.Send(w.wake)
	}
}

// Expire ends waits and deadlines that have passed, and computes the next check. A door calls it repeatedly
// if it has items from elsewhere (Lend), as no delivery's caller stays for those.
func (h *Hub[K, S, T]) Expire() {
	h.Lock()
	defer h.Unlock()
	if h.next > h.Now() {
		return
	}
	now := h.Now()
	h.next = Never // the reports lower it again
	next := Never
	if h.opts.Check != nil {
		next = h.opts.Check(now)
	}
	for l := range h.allLists() {
		next = min(next, l.expireItems(now, func(it *Item[K, S, T]) { h.Report(it, h.opts.Expired(it)) }))
	}
	h.next = min(h.next, next)
}

// deferWatched defers all items of a context that has ended. As after a crash, a sent one may have arrived
// and may come again; the shutdown of the service costs no attempt.
func (h *Hub[K, S, T]) deferWatched(w *watch) {
	h.Lock()
	defer h.Unlock()
	for it := range h.Items() {
		if it.d.watch == w {
			h.Report(it, Stopping)
		}
	}
}
