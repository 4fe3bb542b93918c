package engine

import (
	"context"
	"errors"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// Write is one change on its way into the store, by way of the group commit that all of them share.
type Write struct {
	Change rouse.Change

	// Timer is what the row of a put contains, so that it need not be read from it; it may be nil. Once it is committed, it is not changed.
	Timer *rouse.Timer

	Plain  bool // the row is not written as held: it gives a hold back
	Renews bool // the row is held on whatever else speaks against it, as an attempt is out

	// InFlight is set by Engine.Write: an attempt of the generation that the change ended is out here.
	InFlight bool

	settles *entry        // the entry whose attempt this settles, nil for a client's change
	spared  bool          // of the entry that it settles, the misfire policy gives up nothing
	fence   rouse.Instant // when the occurrence comes due that this write takes over from another node; 0 if it does not
	aside   bool          // set by flush: a fence of a row that this node is not to keep
	late    bool          // set by committed: what it fences may have come due before it was written

	how origin // where its row comes from, if it was not in memory
	// Set by flush: before it was written, by both clocks.
	asked time.Time
	began rouse.Instant
	// Set by flush: until when this node holds what it wrote, by the monotonic clock; zero if it does not.
	held     time.Time
	hidden   rouse.Instant // where that hold ends in the store
	alsoHeld []time.Time

	result *Written // set by committed
}

// Written is what became of a write.
type Written struct {
	rouse.Result
	Err error // the store refused this one: rouse.ErrFull; or its outcome is unknown: rouse.ErrUnavailable
}

func (w *Write) size() int {
	n := 128
	if w.Change.To != nil {
		n += len(w.Change.To.Body)
	}
	for i := range w.Change.Also {
		n += len(w.Change.Also[i].Body)
	}
	return n
}

// flushTimeout bounds one commit, so that a store that hangs turns into an error before the server has to answer; settles are tried again.
const flushTimeout = storeTimeout

// flush applies a batch. A full store refuses what would make it grow; the rest of the batch goes through.
func (e *Engine) flush(ctx context.Context, items []*Write) ([]Written, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	defer e.health.commits.begin()()
	changes := make([]rouse.Change, len(items))
	for i, w := range items {
		changes[i] = w.Change
	}
	if e.others != nil {
		e.mu.Lock()
		full := e.window.full()
		e.mu.Unlock()
		h, asked, now := e.grant.Load(), time.Now(), e.Now()
		for i, w := range items {
			w.asked, w.began = asked, now
			changes[i] = e.holdWrites(w, h, asked, full)
		}
	}
	began, asked := time.Now(), e.Now()
	failpoint("before-commit")
	results, err := e.store.Apply(ctx, changes)
	e.opts.Events.committed(len(changes), time.Since(began), err)
	if !errors.Is(err, rouse.ErrFull) {
		e.health.commit(err)
		e.answered(err == nil, asked)
	}
	if !errors.Is(err, rouse.ErrFull) {
		return e.outcome(items, results, err)
	}
	out := make([]Written, len(items))
	var rest []rouse.Change
	var at []int
	for i := range changes {
		if grows(items[i]) {
			out[i].Err = err
			continue
		}
		rest, at = append(rest, changes[i]), append(at, i)
	}
	if len(rest) == 0 {
		return out, nil
	}
	results, err = e.store.Apply(ctx, rest)
	e.health.commit(err) // what does not grow has to go through
	kept := make([]*Write, len(at))
	for i, n := range at {
		kept[i] = items[n]
	}
	written, err := e.outcome(kept, results, err)
	if err != nil {
		return nil, err
	}
	for i, w := range written {
		out[at[i]] = w
	}
	return out, nil
}

// outcome returns what became of each write of one Apply. When only a part of the store answered, the writes of the other parts
// have an error of their own.
func (e *Engine) outcome(items []*Write, results []rouse.Result, err error) ([]Written, error) {
	var partial *rouse.Partial
	if err != nil && !errors.As(err, &partial) {
		return nil, e.doubt(items, err)
	}
	out := make([]Written, len(items))
	for i, r := range results {
		out[i].Result = r
	}
	if partial != nil {
		unknown := make([]*Write, len(partial.Unknown))
		for i, n := range partial.Unknown {
			unknown[i] = items[n]
		}
		err = e.doubt(unknown, err)
		for _, n := range partial.Unknown {
			out[n] = Written{Err: err}
		}
	}
	return out, nil
}

// grows says that a write may add a row: a client's create, or a backfill. Edits of rows that are there, and settles, are not held up.
func grows(w *Write) bool {
	c := &w.Change
	return w.settles == nil && (c.To != nil && (c.If == rouse.NoRow || c.If == rouse.AnyRevision) || c.Keep && len(c.Also) > 0)
}

// doubt deals with a commit that failed: some of it, or all, may have been written. What is in memory of its rows may be old,
// and rows may exist that memory does not know of; so they leave the window, and are read again from the store.
func (e *Engine) doubt(items []*Write, err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := &e.window
	if w.reading != 0 { // what a read under way saw may be older or newer than the commit: it begins anew
		w.spill(before(w.cursor))
	}
	for _, it := range items {
		if w.reading != 0 {
			w.touched[it.Change.Key] = struct{}{}
		}
		if it.Change.To != nil {
			w.spill(rouse.Position{Visible: it.Change.To.Visible})
		}
		for i := range it.Change.Also {
			w.spill(rouse.Position{Visible: it.Change.Also[i].Visible})
		}
		if en := w.entries[it.Change.Key]; en != nil && !en.busy() { // a busy one learns the truth when it is settled
			w.spill(en.row.Position())
			w.drop(en)
		}
	}
	notify.Send(e.room)
	return rouse.Unavailable(err)
}

// committed brings the window up to date with a commit. The committing goroutine calls it after each commit, in their order,
// before any caller learns of the commit.
func (e *Engine) committed(items []*Write, results []Written) {
	failpoint("after-commit")
	var records []rouse.Record
	now := e.Now()
	e.mu.Lock()
	for i, w := range items {
		w.result = &results[i]
		if r := results[i]; r.Applied {
			e.absorb(w, r.Result, now)
			records = append(records, w.Change.Log...)
		}
	}
	e.dispatch()
	wakeReader := e.window.spilled != never && !e.window.filled()
	e.mu.Unlock()
	notify.Send(e.wake)
	if wakeReader {
		notify.Send(e.room)
	}
	if len(records) > 0 {
		e.opts.Events.recorded(records)
		e.hub.publish(records)
	}
}

// absorb brings the window up to date with one applied change.
func (e *Engine) absorb(w *Write, r rouse.Result, now rouse.Instant) {
	c, revision := &w.Change, r.Revision
	if w.settles != nil {
		e.settledEntry(w, revision, now)
	} else if !c.Keep {
		if c.To != nil {
			stamp(c.To, revision)
		}
		switch en := e.window.entries[c.Key]; {
		case e.tooLate(w) || w.aside:
			if en != nil && !en.busy() {
				e.window.drop(en)
			}
		case en != nil:
			en.logged = en.logged || ends(c, en)
			w.InFlight = e.changeEntry(en, c.To, w.held, now)
		case c.To != nil:
			e.takeKnown(c.To, e.knownSoon(w, revision, now), w.held, w.how, now)
		}
	}
	if en := e.window.entries[c.Key]; en != nil {
		if !w.held.IsZero() {
			en.hidden = w.hidden
		}
		if en.row.Revision == revision {
			en.lookedAt(w.asked, w.began)
		}
	}
	for i := range c.Also {
		row := &c.Also[i]
		stamp(row, r.Also+uint64(i))
		var held time.Time
		if w.alsoHeld != nil {
			held = w.alsoHeld[i]
		}
		if en := e.window.entries[row.Key]; en != nil {
			e.changeEntry(en, row, held, now)
		} else {
			e.take(row, held, now)
		}
	}
	if e.window.reading != 0 {
		if !c.Keep { // memory knows nothing new of a row that stays as it is
			e.window.touched[c.Key] = struct{}{}
		}
		for i := range c.Also {
			e.window.touched[c.Also[i].Key] = struct{}{}
		}
	}
}

// ends says whether a change records the occurrence that an entry is at.
func ends(c *rouse.Change, en *entry) bool {
	for i := range c.Log {
		if r := &c.Log[i]; r.Due == en.occ.Due && r.Manual == en.occ.Manual {
			return true
		}
	}
	return false
}

// soon is how long before it fires a put's timer is kept beside its row: later ones would take memory for what is cheap to read.
const soon = time.Second

// knownSoon returns the timer of a put, with the versions that the store gave it, if it is about to fire; nil otherwise.
func (e *Engine) knownSoon(w *Write, revision uint64, now rouse.Instant) *rouse.Timer {
	if w.Timer == nil || w.Change.To.Visible > now.Add(soon) {
		return nil
	}
	Stamp(w.Timer, revision)
	return w.Timer
}

// Stamp gives a timer the versions that the store gave it. One that has them is only read: others may read it, too.
func Stamp(t *rouse.Timer, revision uint64) {
	if t.Revision != revision {
		t.Revision = revision
	}
	if t.Generation == 0 {
		t.Generation = revision
	}
}

// stamp gives a row the versions that the store gave it.
func stamp(row *rouse.Row, revision uint64) {
	row.Revision = revision
	if row.Generation == 0 {
		row.Generation = revision
	}
}

// changeEntry brings an entry of the map up to date with a newer version of its row, nil if the row is gone; held is until when
// this node holds it, zero if it does not. It says whether an
// attempt of a generation that has ended is out.
func (e *Engine) changeEntry(en *entry, to *rouse.Row, held time.Time, now rouse.Instant) (inFlight bool) {
	if en.busy() {
		if to != nil && to.Generation == en.row.Generation {
			e.window.update(en, to) // the settle starts from the newer row
			en.held = held
			return false
		}
		inFlight = en.state == sending
		cause := rouse.CauseReplaced
		if to == nil {
			cause = rouse.CauseDeleted
		}
		e.window.orphan(en, cause)
	} else {
		e.window.drop(en)
	}
	if to != nil {
		e.take(to, held, now)
	}
	return inFlight
}

// settledEntry ends an entry's attempt: the entry waits for what comes next, or leaves.
func (e *Engine) settledEntry(w *Write, revision uint64, now rouse.Instant) {
	en, c := w.settles, &w.Change
	if en.orphan {
		en.state = removed
		e.window.orphans--
		return
	}
	switch {
	case c.Keep: // the outcome came too late to matter; the row is what it was
		en.asked = w.spared
	case c.To == nil:
		e.window.drop(en)
		return
	default:
		stamp(c.To, revision)
		e.window.update(en, c.To)
		en.held = w.held
	}
	en.logged = false
	e.settleInPlace(en, now)
}

// settleInPlace puts an entry of the map where its row says: out of it, if it does not belong there.
func (e *Engine) settleInPlace(en *entry, now rouse.Instant) {
	en.lane = nil
	if !e.belongs(&en.row, en.held) {
		e.window.drop(en)
		return
	}
	if en.row.Visible <= now {
		e.enqueue(en, now)
	} else {
		e.window.place(en)
		e.near(&en.row)
	}
}

// near tells whoever prepares for fires of a row that waits in memory.
func (e *Engine) near(row *rouse.Row) {
	if e.opts.Near == nil {
		return
	}
	if t, err := e.opts.Read(row); err == nil {
		e.opts.Near(t.Spec.Target, row.Visible)
	}
}

// belongs says whether a row belongs in memory: it is held by this node, or in a part of its buckets that was read.
func (e *Engine) belongs(row *rouse.Row, held time.Time) bool {
	if row.Visible == rouse.Never {
		return false
	}
	return !held.IsZero() || e.owned(row.Bucket) && e.window.covers(row.Position())
}

// take puts a row that is in no map into memory, if it belongs there.
func (e *Engine) take(row *rouse.Row, held time.Time, now rouse.Instant) {
	e.takeKnown(row, nil, held, fromStore, now)
}

// takeKnown is take with what the row says, nil if that is to be read from it.
func (e *Engine) takeKnown(row *rouse.Row, t *rouse.Timer, held time.Time, how origin, now rouse.Instant) {
	if !e.belongs(row, held) {
		return
	}
	en := e.window.add(row, now)
	if en == nil {
		return
	}
	en.held, en.timer = held, t
	if row.Visible <= now {
		e.window.lift(en)
		e.arrived(en, how, now)
	} else {
		e.near(row)
	}
}
