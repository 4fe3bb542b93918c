package engine

import (
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// Why an occurrence is late is known where it waits, and is noted on its timer there: in a sink that defers it, in its lane, in a store
// that does not answer, or, for what reaches this node late, here. Timer.Waits has it when the misfire policy gives the occurrence up.

const (
	// noticeable is how long a wait is that is noted.
	noticeable = 100 * time.Millisecond
	// standstill is how long the firing loop has to make no progress to count as a process that stood still.
	standstill = 5 * time.Second
	// maxHindrances bounds the hindrances of the node that are kept: the latest ones.
	maxHindrances = 8
)

// hindrances are the times in which this node could not do its work, whatever the timer.
type hindrances struct {
	mu   sync.Mutex
	list []rouse.Wait
	away rouse.Instant // since when the store does not answer; 0 if it does
}

// note adds a hindrance. One that goes on from the last one for the same cause extends that one. The mutex is held.
func (h *hindrances) note(c rouse.Cause, from, to rouse.Instant) {
	if to.Sub(from) < noticeable {
		return
	}
	if n := len(h.list); n > 0 && h.list[n-1].Cause == c && from.Sub(h.list[n-1].To) <= time.Second {
		h.list[n-1].To = max(h.list[n-1].To, to)
		return
	}
	if len(h.list) == maxHindrances {
		h.list = append(h.list[:0], h.list[1:]...)
	}
	h.list = append(h.list, rouse.Wait{Cause: c, From: from, To: to})
}

// hindered notes that this node could not do its work between two times.
func (e *Engine) hindered(c rouse.Cause, from, to rouse.Instant) {
	e.hindrances.mu.Lock()
	defer e.hindrances.mu.Unlock()
	e.hindrances.note(c, from, to)
}

// answered notes whether the store answered a call that was made at a time.
func (e *Engine) answered(ok bool, asked rouse.Instant) {
	h := &e.hindrances
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case ok && h.away != 0:
		h.note(rouse.CauseStoreUnavailable, h.away, e.Now())
		h.away = 0
	case !ok && h.away == 0:
		h.away = max(asked, 1)
	}
}

// hindrance returns what hindered this node for most of the time between two times.
func (e *Engine) hindrance(from, to rouse.Instant) (c rouse.Cause, ok bool) {
	h := &e.hindrances
	h.mu.Lock()
	defer h.mu.Unlock()
	most := to.Sub(from) / 2
	for _, w := range h.list {
		if d := min(w.To, to).Sub(max(w.From, from)); d >= most {
			most, c, ok = d, w.Cause, true
		}
	}
	if h.away != 0 && to.Sub(max(h.away, from)) >= most {
		return rouse.CauseStoreUnavailable, true
	}
	return c, ok
}

// origin is how a row comes into memory.
type origin uint8

const (
	fromClient origin = iota // a client wrote it just now
	fromStore                // it was in the store
	fromDead                 // it was in the store, held by a node that is dead
)

// arrived enqueues an entry that needs attention as soon as it comes into memory. The mutex is held.
func (e *Engine) arrived(en *entry, how origin, now rouse.Instant) {
	e.noteLate(en, now, func(t *rouse.Timer, from rouse.Instant) rouse.Cause {
		switch c, ok := e.hindrance(from, now); {
		case how == fromClient, t.Created.Sub(from) > now.Sub(from)/2:
			return rouse.CauseCreatedLate
		case ok:
			return c
		case e.window.crowded > from, how == fromStore && en.row.Visible <= from && e.hadSince(en.row.Bucket, from): // no hold has ended
			return rouse.CauseBacklog
		}
		return rouse.CauseServerDown
	})
	e.enqueue(en, now)
}

// hadSince says whether this node could read or claim the rows of a bucket all the time since then: what it finds there only now has waited
// for its turn. The mutex is held.
func (e *Engine) hadSince(bucket uint32, from rouse.Instant) bool {
	at, ok := e.swept.gained[bucket]
	return ok && at <= from && e.grant.Load().has(bucket)
}

// woken enqueues an entry from the wheel. The mutex is held.
func (e *Engine) woken(en *entry, now rouse.Instant) {
	if now.Sub(en.row.Visible) >= noticeable {
		e.noteLate(en, now, func(_ *rouse.Timer, from rouse.Instant) rouse.Cause {
			if c, ok := e.hindrance(from, now); ok {
				return c
			}
			return rouse.CauseBacklog
		})
	}
	e.enqueue(en, now)
}

// taken notes that an entry has waited in its lane. The mutex is held.
func (e *Engine) taken(ln *lane, en *entry, now rouse.Instant) {
	if now.Sub(en.row.Visible) < noticeable {
		return
	}
	e.noteLate(en, now, func(*rouse.Timer, rouse.Instant) rouse.Cause {
		if ln.slowed {
			return rouse.CauseRateLimited
		}
		return rouse.CauseBacklog
	})
}

// noteLate notes why a timer has not got any further since it needed attention, if an occurrence may be given up for that. The timer
// that the entry had may be known to others: it is left as it is.
func (e *Engine) noteLate(en *entry, now rouse.Instant, why func(t *rouse.Timer, from rouse.Instant) rouse.Cause) {
	t, err := e.decoded(en)
	if err != nil || t.Over() || t.Key.Fire != "" && !t.Live || !t.Spec.Recurring() && t.Spec.Misfire < rouse.MisfireSkip && t.Spec.Deadline == 0 {
		return
	}
	from := en.row.Visible
	if t.Attempts == 0 && !t.Paused && len(t.Runs) == 0 {
		from = min(from, t.SentAt(t.Due)) // where others write, it may be the end of a hold of a node that is gone
	}
	if n := len(t.Waits); n > 0 {
		from = max(from, t.Waits[n-1].To)
	}
	if now.Sub(from) < noticeable {
		return
	}
	to := *t
	to.Waited(why(t, from), from, now)
	en.timer = &to
}
