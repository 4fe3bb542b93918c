package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/notify"
)

// rescans find what others write into the part of an owner's buckets that it has already read: timers that
// were created in users' transactions, changed by other nodes, or given back. Rows that others postponed or
// deleted need no rescan: the revision check before each send detects them. The engine's mutex guards it.
type rescans struct {
	since   uint64          // token of the last rescan; 0: the next one reads everything
	next    time.Time       // when the next one is due
	hinted  bool            // the store reported that there is something to find
	again   bool            // a full rescan was requested after the last one started
	missing []rouse.Missing // parts of the store that did not answer the last claim
}

// missingParts returns the parts of the store that did not answer the last claim.
func (e *Engine) missingParts() []rouse.Missing {
	e.memory.Lock()
	defer e.memory.Unlock()
	return e.rescans.missing
}

// missed records which parts of the store a claim lacks. When one of them answers again, the next rescan
// reads everything, because neither the cursor nor the token covers that part. The mutex is held.
func (e *Engine) missed(now []rouse.Missing) {
	among := func(p rouse.Missing, list []rouse.Missing) bool {
		return slices.ContainsFunc(list, func(o rouse.Missing) bool { return o.Part == p.Part })
	}
	for _, p := range e.rescans.missing {
		if !among(p, now) {
			e.rescans.since, e.rescans.again, e.rescans.hinted = 0, true, true
			notify.Send(e.memory.room)
		}
	}
	for _, p := range now {
		if !among(p, e.rescans.missing) {
			e.opts.Events.failed("claim", fmt.Errorf("%s does not answer: %w", p.Part, p.Err))
		}
	}
	e.rescans.missing = now
}

// hintLoop subscribes to the store's reports of writes by others.
func (e *Engine) hintLoop(ctx context.Context) {
	w := e.hints
	if w == nil {
		return
	}
	for {
		err := w.Watch(ctx, func() {
			e.memory.Lock()
			e.rescans.hinted = true
			e.memory.Unlock()
			notify.Send(e.memory.room)
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			e.opts.Events.failed("watch", err)
		}
		if !backoff.Sleep(ctx, time.Second) {
			return
		}
	}
}

// rescanAll makes the next rescan read everything.
func (e *Engine) rescanAll() {
	e.memory.Lock()
	e.rescans.since, e.rescans.again = 0, true
	e.memory.Unlock()
}

// rescanDue returns the time until the next rescan.
func (e *Engine) rescanDue(now time.Time) time.Duration {
	e.memory.Lock()
	defer e.memory.Unlock()
	if e.rescans.hinted {
		return 0
	}
	return max(0, e.rescans.next.Sub(now))
}

// rescanWindow reads what was written since the last rescan into the part of the window that was read before.
func (e *Engine) rescanWindow(ctx context.Context, buckets []uint32) error {
	e.memory.Lock()
	since := e.rescans.since
	e.rescans.hinted, e.rescans.again = false, false
	e.rescans.next = time.Now().Add(e.opts.Poll)
	e.memory.Unlock()
	token, err := e.reread(ctx, buckets, since)
	e.memory.Lock()
	defer e.memory.Unlock()
	if err != nil {
		e.rescans.hinted = true // the reported writes have not been found yet
		return err
	}
	if !e.rescans.again {
		e.rescans.since = token
	}
	return nil
}

// reread reads the rows of buckets up to the cursor that were written since a token, all of them if it is 0.
// It returns the token for the next call.
func (e *Engine) reread(ctx context.Context, buckets []uint32, since uint64) (token uint64, err error) {
	var after rouse.Position
	for {
		e.memory.Lock()
		cursor := e.memory.window.cursor
		e.memory.window.reading = cursor.Visible
		e.memory.Unlock()
		asked := time.Now()
		batch, err := e.store.Claim(ctx, rouse.Window{Buckets: buckets, After: after, Ahead: e.opts.Ahead, Since: since, Limit: pageRows, Bytes: pageBytes})
		more := e.found(&batch, err, asked)
		if err != nil {
			return 0, err
		}
		if after == (rouse.Position{}) {
			token = batch.Token
		}
		if !more {
			return token, nil
		}
		after = batch.Rows[len(batch.Rows)-1].Position()
	}
}

// found takes the rows of a rescan into memory. It reports whether another page follows.
func (e *Engine) found(batch *rouse.Batch, err error, asked time.Time) (more bool) {
	e.memory.Lock()
	defer e.memory.Unlock()
	w := &e.memory.window
	defer func() {
		w.reading = 0
		clear(w.touched)
	}()
	if err != nil {
		return false
	}
	e.heard(asked, batch.Now)
	e.missed(batch.Missing)
	now := e.Now()
	more = batch.More
	for i := range batch.Rows {
		row := &batch.Rows[i]
		if _, ok := w.touched[row.Key]; ok {
			continue // a commit had a newer version
		}
		if !w.covers(row.Position()) {
			more = false // the following rows are read when their time comes
			break
		}
		if en := w.entries[row.Key]; en != nil {
			if row.Revision > en.row.Revision {
				e.memory.changeEntry(en, row, time.Time{}, now)
			}
			continue
		}
		if w.filled() {
			w.spill(row.Position())
			more = false
			break
		}
		e.memory.take(row, time.Time{}, now)
		if en := w.entries[row.Key]; en != nil {
			en.markChecked(asked, batch.Now)
		}
	}
	e.memory.dispatch()
	notify.Send(e.memory.wake)
	return more
}
