package engine

import (
	"context"
	"errors"
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
	// hungAfter is how long a call of the store may take before the store counts as unavailable since the
	// beginning of the call, even if it succeeds.
	hungAfter = time.Second
	// maxHindrances bounds the recorded hindrances of the node; the latest are kept.
	maxHindrances = 8
)

// hindrances are the times in which this node could not work, whatever the timer.
type hindrances struct {
	mu    sync.Mutex
	list  []rouse.Wait
	calls flights       // running calls of the store
	away  rouse.Instant // since when the store has not answered; 0 if it answers
	heard rouse.Instant // when the store last answered
	loops time.Time     // when the firing loop last began an iteration
	stood rouse.Instant // end of the last time in which the process was suspended
}

// noteHindrance adds a hindrance, or extends the last one if it has the same cause and no gap. The mutex is
// held.
func (h *hindrances) noteHindrance(c rouse.Cause, from, to rouse.Instant) {
	if to.Sub(from) < noticeable {
		return
	}
	if n := len(h.list); n > 0 && h.list[n-1].Cause == c && from.Sub(h.list[n-1].To) <= time.Second {
		h.list[n-1].From = min(h.list[n-1].From, from)
		h.list[n-1].To = max(h.list[n-1].To, to)
		return
	}
	if len(h.list) == maxHindrances {
		h.list = append(h.list[:0], h.list[1:]...)
	}
	h.list = append(h.list, rouse.Wait{Cause: c, From: from, To: to})
}

// addHindrance records that this node could not work between two times.
func (h *hindrances) addHindrance(c rouse.Cause, from, to rouse.Instant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteHindrance(c, from, to)
}

// noteLoop records an iteration of the firing loop.
func (h *hindrances) noteLoop(now rouse.Instant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteStandstill(now)
	h.loops = time.Now()
}

// noteStandstill records that the process was suspended if the firing loop has not run for long. A call that
// was under way then has not hung. The mutex is held.
func (h *hindrances) noteStandstill(now rouse.Instant) {
	if d := time.Since(h.loops); d >= standstill && !h.loops.IsZero() {
		h.noteHindrance(rouse.CauseServerDown, now.Add(-d), now)
		h.loops, h.stood = time.Now(), now
	}
}

// beginCall records the beginning of a call of the store; the returned function records its end, and whether
// all of the store answered.
func (v *env) beginCall() (end func(ok bool)) {
	began, leave := time.Now(), v.hindrances.calls.beginFlight()
	return func(ok bool) {
		leave()
		if now := v.Now(); now != 0 {
			v.hindrances.recordAnswer(ok, now.Add(-time.Since(began)), now)
		}
	}
}

// recordAnswer records whether the store answered a call that was made at a given time. A call that fails or
// hangs hinders this node from its beginning on, not from when that was noticed.
func (h *hindrances) recordAnswer(ok bool, asked, now rouse.Instant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteStandstill(now)
	asked = max(asked, h.stood, 1)
	switch {
	case ok && h.away != 0:
		h.noteHindrance(rouse.CauseStoreUnavailable, min(h.away, asked), now)
		h.away = 0
	case ok && now.Sub(asked) >= hungAfter, !ok && asked < h.heard: // other calls were answered in the meantime
		h.noteHindrance(rouse.CauseStoreUnavailable, asked, now)
	case !ok && h.away == 0:
		h.away = asked
	case !ok:
		h.away = min(h.away, asked)
	}
	if ok {
		h.heard = now
	}
}

// hangingSince returns since when the store has not answered a call, or all calls; 0 if it answers. The mutex
// is held.
func (h *hindrances) hangingSince(now rouse.Instant) rouse.Instant {
	began := h.calls.oldestStart()
	if d := time.Since(began); !began.IsZero() && d >= hungAfter {
		if from := max(now.Add(-d), h.stood, 1); h.away == 0 || from < h.away {
			return from
		}
	}
	return h.away
}

// causeBetween returns the cause that prevented this node from working for most of the time between two
// times, the second of which is now; CauseUnknown if there was none.
func (h *hindrances) causeBetween(from, now rouse.Instant) (c rouse.Cause) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteStandstill(now)
	most := now.Sub(from) / 2
	for _, w := range h.list {
		if d := min(w.To, now).Sub(max(w.From, from)); d >= most {
			most, c = d, w.Cause
		}
	}
	if at := h.hangingSince(now); at != 0 && now.Sub(max(at, from)) >= most {
		return rouse.CauseStoreUnavailable
	}
	return c
}

// watched is the store as the engine's loops call it: the duration of its calls is recorded as a hindrance.
type watched struct {
	rouse.Store
	*env
}

func (s watched) Claim(ctx context.Context, w rouse.Window) (rouse.Batch, error) {
	end := s.beginCall()
	b, err := s.Store.Claim(ctx, w)
	end(err == nil && len(b.Missing) == 0)
	return b, err
}

func (s watched) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	end := s.beginCall()
	results, err := s.Store.Apply(ctx, changes)
	end(err == nil || errors.Is(err, rouse.ErrFull))
	return results, err
}

// Now of a shared store is an answer to a call. A node without buckets makes no other.
func (s watched) Now(ctx context.Context) (rouse.Instant, error) {
	if s.others == nil {
		return s.Store.Now(ctx)
	}
	end := s.beginCall()
	now, err := s.Store.Now(ctx)
	end(err == nil)
	return now, err
}

// origin is how a row came into memory.
type origin uint8

const (
	fromClient origin = iota // a client wrote it just now
	fromStore                // it was already in the store
	fromDead                 // it was in the store, held by a dead node
)

// enqueueArrived enqueues an entry that is already due when it comes into memory.
func (m *memory) enqueueArrived(en *entry, how origin, now rouse.Instant) {
	m.noteLate(en, now, func(t *rouse.Timer, from rouse.Instant, hindrance rouse.Cause) rouse.Cause {
		switch {
		case how == fromClient && t.Revision == t.Generation, t.Created.Sub(from) > now.Sub(from)/2:
			return rouse.CauseCreatedLate
		case hindrance != rouse.CauseUnknown:
			return hindrance
		case m.window.crowded > from, how == fromStore && en.row.Visible <= from && m.buckets.hadSince(en.row.Bucket, from): // no hold has ended
			return rouse.CauseBacklog
		}
		return rouse.CauseServerDown
	})
	m.enqueueDue(en, now)
}

// enqueueWoken enqueues an entry from the wheel. It is late if this loop is, or if its row was hidden when it
// was due: by a hold that nothing renewed.
func (m *memory) enqueueWoken(en *entry, now rouse.Instant) {
	late := now.Sub(en.row.Visible) >= noticeable
	if late || now.Sub(en.row.Due) >= noticeable && !en.draft {
		m.noteLate(en, now, func(_ *rouse.Timer, _ rouse.Instant, hindrance rouse.Cause) rouse.Cause {
			switch {
			case hindrance != rouse.CauseUnknown:
				return hindrance
			case late:
				return rouse.CauseBacklog
			}
			return rouse.CauseServerDown
		})
	}
	m.enqueueDue(en, now)
}

// noteTaken records that an entry has waited in its lane.
func (m *memory) noteTaken(ln *lane, en *entry, now rouse.Instant) {
	if now.Sub(en.row.Visible) < noticeable {
		return
	}
	m.noteLate(en, now, func(_ *rouse.Timer, _ rouse.Instant, hindrance rouse.Cause) rouse.Cause {
		switch {
		case hindrance != rouse.CauseUnknown: // the fires before it wait for that
			return hindrance
		case ln.slowed:
			return rouse.CauseRateLimited
		}
		return rouse.CauseBacklog
	})
}

// settledLate enqueues an entry whose next occurrence came due before the last one was settled: while the
// store did not answer, or, which Timer.After finds out, while an attempt took long.
func (m *memory) settledLate(en *entry, now rouse.Instant) {
	if now.Sub(en.row.Visible) >= noticeable {
		m.noteLate(en, now, func(_ *rouse.Timer, _ rouse.Instant, hindrance rouse.Cause) rouse.Cause { return hindrance })
	}
	m.enqueueDue(en, now)
}

// checkedLate records that an entry was taken from its lane a while ago, and is sent only now, after the
// store was asked.
func (m *memory) checkedLate(en *entry, now rouse.Instant) {
	en.sent = now
	m.noteLate(en, now, func(_ *rouse.Timer, _ rouse.Instant, hindrance rouse.Cause) rouse.Cause { return hindrance })
}

// keepWaits keeps the waits that were noted of an entry in memory when a newer version of its row comes, such
// as one with a renewed hold.
func (m *memory) keepWaits(en *entry, was *rouse.Timer) {
	t, err := m.decodedTimer(en)
	if err != nil || was == nil || t.Due != was.Due {
		return
	}
	to := *t
	for _, w := range was.Waits {
		to.Waited(w.Cause, w.From, w.To)
	}
	en.timer, en.noted = &to, true
}

// noteLate records why a timer has made no progress since it needed attention, if an occurrence may be given
// up for that: why gets the cause that hindered this node for most of that time, and returns CauseUnknown if
// there is nothing to record. Other goroutines may use the entry's timer, so it is copied.
func (m *memory) noteLate(en *entry, now rouse.Instant,
	why func(t *rouse.Timer, from rouse.Instant, hindrance rouse.Cause) rouse.Cause) {
	t, err := m.peekTimer(en)
	if err != nil || t.Over() || t.Key.Fire != "" && !t.Live ||
		!t.Spec.Recurring() && t.Spec.Misfire < rouse.MisfireSkip && t.Spec.Deadline == 0 {
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
	cause := why(t, from, m.hindrances.causeBetween(from, now))
	if cause == rouse.CauseUnknown {
		return
	}
	to := *t
	to.Waited(cause, from, now)
	en.timer, en.noted = &to, true
}
