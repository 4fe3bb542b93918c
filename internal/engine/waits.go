package engine

import (
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// The cause of a delay is known where the occurrence waits, and is recorded in its timer there: by a sink
// that defers it, by its lane, by a store that does not answer, or here if it reaches this node late.
// Timer.Waits contains it when the misfire policy gives up the occurrence.

const (
	// noticeable is the minimum length of a wait that is recorded.
	noticeable = 100 * time.Millisecond
	// standstill is how long the firing loop must make no progress before the process counts as suspended.
	standstill = 5 * time.Second
	// maxHindrances bounds the recorded hindrances of the node; the latest are kept.
	maxHindrances = 8
)

// hindrances are the times in which this node could not work, whatever the timer.
type hindrances struct {
	mu   sync.Mutex
	list []rouse.Wait
	away rouse.Instant // since when the store has not answered; 0 if it answers
}

// note adds a hindrance, or extends the last one if it has the same cause and no gap. The mutex is held.
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

// add records that this node could not work between two times.
func (h *hindrances) add(c rouse.Cause, from, to rouse.Instant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note(c, from, to)
}

// answered records whether the store answered a call that was made at a given time.
func (h *hindrances) answered(ok bool, asked, now rouse.Instant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case ok && h.away != 0:
		h.note(rouse.CauseStoreUnavailable, h.away, now)
		h.away = 0
	case !ok && h.away == 0:
		h.away = max(asked, 1)
	}
}

// between returns what prevented this node from working for most of the time between two times.
func (h *hindrances) between(from, to rouse.Instant) (c rouse.Cause, ok bool) {
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

// origin is how a row came into memory.
type origin uint8

const (
	fromClient origin = iota // a client wrote it just now
	fromStore                // it was already in the store
	fromDead                 // it was in the store, held by a dead node
)

// arrived enqueues an entry that is already due when it comes into memory.
func (m *memory) arrived(en *entry, how origin, now rouse.Instant) {
	m.noteLate(en, now, func(t *rouse.Timer, from rouse.Instant) rouse.Cause {
		switch c, ok := m.hindrances.between(from, now); {
		case how == fromClient && t.Revision == t.Generation, t.Created.Sub(from) > now.Sub(from)/2:
			return rouse.CauseCreatedLate
		case ok:
			return c
		case m.window.crowded > from, how == fromStore && en.row.Visible <= from && m.buckets.hadSince(en.row.Bucket, from): // no hold has ended
			return rouse.CauseBacklog
		}
		return rouse.CauseServerDown
	})
	m.enqueue(en, now)
}

// woken enqueues an entry from the wheel.
func (m *memory) woken(en *entry, now rouse.Instant) {
	if now.Sub(en.row.Visible) >= noticeable {
		m.noteLate(en, now, func(_ *rouse.Timer, from rouse.Instant) rouse.Cause {
			if c, ok := m.hindrances.between(from, now); ok {
				return c
			}
			return rouse.CauseBacklog
		})
	}
	m.enqueue(en, now)
}

// taken records that an entry has waited in its lane.
func (m *memory) taken(ln *lane, en *entry, now rouse.Instant) {
	if now.Sub(en.row.Visible) < noticeable {
		return
	}
	m.noteLate(en, now, func(*rouse.Timer, rouse.Instant) rouse.Cause {
		if ln.slowed {
			return rouse.CauseRateLimited
		}
		return rouse.CauseBacklog
	})
}

// noteLate records why a timer has made no progress since it needed attention, if an occurrence may be given
// up for that. Other goroutines may use the entry's timer, so it is copied.
func (m *memory) noteLate(en *entry, now rouse.Instant, why func(t *rouse.Timer, from rouse.Instant) rouse.Cause) {
	t, err := m.look(en)
	if err != nil || t.Over() || t.Key.Fire != "" && !t.Live || !t.Spec.Recurring() && t.Spec.Misfire < rouse.MisfireSkip && t.Spec.Deadline == 0 {
		return
	}
	from := en.row.Visible
	if t.Attempts == 0 && !t.Paused && len(t.Runs) == 0 {
		from = min(from, t.SentAt(t.Due)) // on a shared store, Visible may be the end of a dead node's hold
	}
	if n := len(t.Waits); n > 0 {
		from = max(from, t.Waits[n-1].To)
	}
	if now.Sub(from) < noticeable {
		return
	}
	to := *t
	to.Waited(why(t, from), from, now)
	en.timer, en.noted = &to, true
}
