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

// sweeps are how an owner finds what others write into the part of its buckets that it has read already: timers that were created
// in users' own transactions, or changed by other nodes, or whose holds were given back. What others have made later, or removed,
// needs no finding: the look before each send sees it. The engine's mutex guards it.
type sweeps struct {
	since   uint64                   // token of the last sweep; 0: the next one reads everything
	next    time.Time                // when the next one is due
	hinted  bool                     // somebody said that there is something to find
	again   bool                     // somebody asked for a sweep of everything since the last one began
	leaving map[uint32]time.Time     // buckets that were lost, and when, with attempts that may still be out
	kept    map[uint32]bool          // buckets that were lost, of which attempts were out that went on under holds
	gained  map[uint32]rouse.Instant // buckets of the grant, and since when they are in it
	dead    []deadNode               // that died a moment ago
	missing []rouse.Missing          // parts of the store that did not answer the last claim
}

// missingParts returns the parts of the store that did not answer the last claim.
func (e *Engine) missingParts() []rouse.Missing {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.swept.missing
}

// missed notes which parts of the store a claim is without. When one of them answers again, the next sweep reads everything, because
// no cursor and no token covers what that part has. The mutex is held.
func (e *Engine) missed(now []rouse.Missing) {
	among := func(p rouse.Missing, list []rouse.Missing) bool {
		return slices.ContainsFunc(list, func(o rouse.Missing) bool { return o.Part == p.Part })
	}
	for _, p := range e.swept.missing {
		if !among(p, now) {
			e.swept.since, e.swept.again, e.swept.hinted = 0, true, true
			notify.Send(e.room)
		}
	}
	for _, p := range now {
		if !among(p, e.swept.missing) {
			e.opts.Events.failed("claim", fmt.Errorf("%s does not answer: %w", p.Part, p.Err))
		}
	}
	e.swept.missing = now
}

// hintLoop lets the store say when there is something to find.
func (e *Engine) hintLoop(ctx context.Context) {
	w := e.hints
	if w == nil {
		return
	}
	for {
		err := w.Watch(ctx, func() {
			e.mu.Lock()
			e.swept.hinted = true
			e.mu.Unlock()
			notify.Send(e.room)
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

// sweepAll makes the next sweep read everything.
func (e *Engine) sweepAll() {
	e.mu.Lock()
	e.swept.since, e.swept.again = 0, true
	e.mu.Unlock()
}

// sweepDue says how long it is until the next sweep.
func (e *Engine) sweepDue(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.swept.hinted {
		return 0
	}
	return max(0, e.swept.next.Sub(now))
}

// sweepWindow reads what was written since the last sweep into the part of the window that was read before.
func (e *Engine) sweepWindow(ctx context.Context, buckets []uint32) error {
	e.mu.Lock()
	since := e.swept.since
	e.swept.hinted, e.swept.again = false, false
	e.swept.next = time.Now().Add(e.opts.Poll)
	e.mu.Unlock()
	token, err := e.reread(ctx, buckets, since)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.swept.hinted = true // what the hint told of is still to be found
		return err
	}
	if !e.swept.again {
		e.swept.since = token
	}
	return nil
}

// reread reads the rows of buckets up to the cursor that were written since a token, all of them if it is 0. It returns the
// token for the next time.
func (e *Engine) reread(ctx context.Context, buckets []uint32, since uint64) (token uint64, err error) {
	var after rouse.Position
	for {
		e.mu.Lock()
		cursor := e.window.cursor
		e.window.reading = cursor.Visible
		e.mu.Unlock()
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

// found takes what a read of the window's past found into memory. It says whether another page follows.
func (e *Engine) found(batch *rouse.Batch, err error, asked time.Time) (more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := &e.window
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
			continue // a commit has said what is newer
		}
		if !w.covers(row.Position()) {
			more = false // what follows will be read in its time
			break
		}
		if en := w.entries[row.Key]; en != nil {
			if row.Revision > en.row.Revision {
				e.changeEntry(en, row, time.Time{}, now)
			}
			continue
		}
		if w.filled() {
			w.spill(row.Position())
			more = false
			break
		}
		e.take(row, time.Time{}, now)
		if en := w.entries[row.Key]; en != nil {
			en.lookedAt(asked, batch.Now)
		}
	}
	e.dispatch()
	notify.Send(e.wake)
	return more
}

// heard notes what an answer says of the store's clock.
func (e *Engine) heard(asked time.Time, now rouse.Instant) {
	if e.others != nil {
		e.clock.note(now, asked, time.Now(), false)
	}
}
