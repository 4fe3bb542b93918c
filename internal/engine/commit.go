package engine

import (
	"context"
	"errors"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// Write is one change that goes to the store through the shared group commit.
type Write struct {
	Change rouse.Change

	// Timer is the decoded row of a put, so that it need not be decoded again; it may be nil. It is not
	// changed after the commit.
	Timer *rouse.Timer

	Plain  bool // write the row without a hold: it is given back
	Renews bool // keep the hold although the row would otherwise not be held, because an attempt is out

	// InFlight is set by Engine.Write: an attempt of the generation that this change ended is out on this
	// node.
	InFlight bool

	settles *entry        // the entry whose attempt this settles; nil for a client's change
	spared  bool          // the misfire policy gives up nothing of the entry that this settles
	fence   rouse.Instant // due time of the occurrence that this write takes over from another node; 0 if it is no fence
	aside   bool          // set by flush: a fence of a row that this node must not keep
	late    bool          // set by committed: the fenced occurrence may have come due before the commit

	how origin // source of the row, if it was not in memory
	// Set by flush: the time before the commit, by both clocks.
	asked time.Time
	began rouse.Instant
	// Set by flush: the end of this node's hold by the monotonic clock; zero if the row is not held.
	held     time.Time
	hidden   rouse.Instant // end of that hold in the store
	alsoHeld []time.Time

	result *Written // set by committed
}

// Written is the result of a Write.
type Written struct {
	rouse.Result
	Err error // rouse.ErrFull if the store refused this write, rouse.ErrUnavailable if its outcome is unknown
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

// flushTimeout bounds one commit, so that a hanging store becomes an error before the server has to answer.
// Settles are retried.
const flushTimeout = storeTimeout

// flush applies a batch. A full store refuses only the writes that add rows; the rest of the batch is
// applied.
func (e *Engine) flush(ctx context.Context, items []*Write) ([]Written, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	defer e.health.commits.begin()()
	changes := make([]rouse.Change, len(items))
	for i, w := range items {
		changes[i] = w.Change
	}
	if e.others != nil {
		e.memory.Lock()
		full := e.memory.window.full()
		e.memory.Unlock()
		h, asked, now := e.buckets.current(), time.Now(), e.Now()
		for i, w := range items {
			w.asked, w.began = asked, now
			changes[i] = e.holds.holdWrites(w, h, asked, full)
		}
	}
	began, asked := time.Now(), e.Now()
	failpoint("before-commit")
	results, err := e.store.Apply(ctx, changes)
	e.opts.Events.committed(len(changes), time.Since(began), err)
	if !errors.Is(err, rouse.ErrFull) {
		e.health.commit(err)
		e.hindrances.answered(err == nil, asked, e.Now())
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
	e.health.commit(err) // writes that add no rows must succeed even in a full store
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

// outcome returns the result of each write of one Apply. If only part of the store answered, the writes to
// the other parts have their own error.
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

// grows reports whether a write may add a row: a client's create or a backfill. Edits of existing rows and
// settles are never refused for lack of space.
func grows(w *Write) bool {
	c := &w.Change
	return w.settles == nil && (c.To != nil && (c.If == rouse.NoRow || c.If == rouse.AnyRevision) || c.Keep && len(c.Also) > 0)
}

// doubt handles a failed commit, of which any part may have been written. Rows in memory may be stale, and
// the store may have rows that memory does not; so the affected rows leave the window and are read from the
// store again.
func (e *Engine) doubt(items []*Write, err error) error {
	e.memory.Lock()
	defer e.memory.Unlock()
	w := &e.memory.window
	if w.reading != 0 { // that read's snapshot may be from before or after the commit: repeat it
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
		if en := w.entries[it.Change.Key]; en != nil && !en.busy() { // settling updates a busy one
			w.spill(en.row.Position())
			w.drop(en)
		}
	}
	notify.Send(e.memory.room)
	return rouse.Unavailable(err)
}

// committed updates the window after a commit. The committing goroutine calls it in commit order, before any
// caller gets its result.
func (e *Engine) committed(items []*Write, results []Written) {
	failpoint("after-commit")
	var records []rouse.Record
	now := e.Now()
	e.memory.Lock()
	for i, w := range items {
		w.result = &results[i]
		if r := results[i]; r.Applied {
			e.memory.absorb(w, r.Result, now)
			records = append(records, w.Change.Log...)
		}
	}
	e.memory.dispatch()
	wakeReader := e.memory.window.spilled != never && !e.memory.window.filled()
	e.memory.Unlock()
	notify.Send(e.memory.wake)
	if wakeReader {
		notify.Send(e.memory.room)
	}
	if len(records) > 0 {
		e.opts.Events.recorded(records)
		e.hub.publish(records)
	}
}

// Stamp sets the revision and generation that the store assigned. A timer that has them is only read, because
// other goroutines may read it too.
func Stamp(t *rouse.Timer, revision uint64) {
	if t.Revision != revision {
		t.Revision = revision
	}
	if t.Generation == 0 {
		t.Generation = revision
	}
}

// stamp sets the revision and generation that the store assigned.
func stamp(row *rouse.Row, revision uint64) {
	row.Revision = revision
	if row.Generation == 0 {
		row.Generation = revision
	}
}
