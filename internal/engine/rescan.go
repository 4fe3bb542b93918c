package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/boottime"
	"github.com/rousehq/rouse/internal/notify"
)

// rescans find rows that others write into the part of an owner's buckets that it has already read: timers
// that were created in users' transactions, changed by other nodes, or given back. Rows that others postponed
// or deleted need no rescan: the revision check before each send detects them.
type rescans struct {
	mu     sync.Mutex
	since  uint64    // token of the last rescan; 0: the next one reads everything
	next   time.Time // when the next one is due
	hinted bool      // the store reported that there is something to find
	again  bool      // a full rescan was requested after the last one started
}

// requestRescan makes a rescan due now.
func (s *rescans) requestRescan() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hinted = true
}

// requestFullRescan makes the next rescan read everything.
func (s *rescans) requestFullRescan() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.again = 0, true
}

// untilDue returns the time until the next rescan, which waits at least that long unless it was requested.
func (s *rescans) untilDue(now time.Time, wait time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hinted {
		return 0
	}
	return max(0, s.next.Sub(now), wait)
}

// beginRescan starts a rescan, which reads the rows written since a token. The following one is due at next.
func (s *rescans) beginRescan(next time.Time) (since uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hinted, s.again, s.next = false, false, next
	return s.since
}

// endRescan records the token of a rescan, or that it failed.
func (s *rescans) endRescan(token uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.hinted = true // the reported writes have not been found yet
	} else if !s.again {
		s.since = token
	}
}

// hintLoop subscribes to the store's reports of writes by others.
func (r *reader) hintLoop(ctx context.Context, w rouse.Watcher) {
	for {
		err := w.Watch(ctx, func() {
			r.rescans.requestRescan()
			notify.Send(r.memory.room)
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			r.opts.Events.emitFailed("watch", err)
		}
		if !backoff.Sleep(ctx, time.Second) {
			return
		}
	}
}

// rescanWindow reads rows written since the last rescan into the part of the window that was read before.
func (r *reader) rescanWindow(ctx context.Context, buckets []uint32) error {
	token, err := r.rereadBuckets(ctx, buckets, r.rescans.beginRescan(time.Now().Add(r.opts.Poll)))
	r.rescans.endRescan(token, err)
	return err
}

// rereadBuckets reads the rows of buckets up to the cursor that were written since a token, all of them if it
// is 0. It returns the token for the next call.
func (r *reader) rereadBuckets(ctx context.Context, buckets []uint32, since uint64) (token uint64, err error) {
	var after rouse.Position
	for {
		r.memory.Lock()
		cursor := r.memory.window.cursor
		r.memory.window.reading = cursor.Visible
		r.memory.Unlock()
		asked := boottime.Now()
		batch, err := r.store.Claim(ctx, rouse.Window{Buckets: buckets, After: after, Ahead: r.opts.Ahead,
			Since: since, Limit: pageRows, Bytes: pageBytes})
		more := r.takeRescanned(&batch, err, asked)
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

// takeRescanned takes the rows of a rescan into memory. It reports whether another page follows.
func (r *reader) takeRescanned(batch *rouse.Batch, err error, asked time.Time) (more bool) {
	r.memory.Lock()
	defer r.memory.Unlock()
	w := &r.memory.window
	defer func() {
		w.reading = 0
		clear(w.touched)
	}()
	if err != nil {
		return false
	}
	r.updateClock(asked, batch.Now)
	r.recordMissing(batch.Missing)
	now := r.Now()
	more = batch.More
	for i := range batch.Rows {
		row := &batch.Rows[i]
		if _, ok := w.touched[row.Key]; ok {
			continue // a commit had a newer version
		}
		if !w.coversPosition(row.Position()) {
			more = false // the following rows are read when their time comes
			break
		}
		if en := w.entries.entryByKey(row.Key); en != nil {
			if row.Revision > en.row.Revision {
				r.memory.changeEntry(en, row, time.Time{}, now)
			}
			continue
		}
		if w.isFullForReads() {
			w.markSpilled(row.Position())
			more = false
			break
		}
		r.memory.takeRow(row, time.Time{}, now)
		if en := w.entries.entryByKey(row.Key); en != nil {
			en.markChecked(asked, batch.Now)
		}
	}
	r.memory.dispatchDeliveries()
	notify.Send(r.memory.wake)
	return more
}

// recordMissing records which parts of the store a claim lacks. When one of them answers again, the next
// rescan reads everything, because neither the cursor nor the token covers that part.
func (r *reader) recordMissing(now []rouse.Missing) {
	among := func(p rouse.Missing, list []rouse.Missing) bool {
		return slices.ContainsFunc(list, func(o rouse.Missing) bool { return o.Part == p.Part })
	}
	was := r.health.missingParts()
	for _, p := range was {
		if !among(p, now) {
			r.rescans.requestFullRescan()
			r.rescans.requestRescan()
			notify.Send(r.memory.room)
		}
	}
	for _, p := range now {
		if !among(p, was) {
			r.opts.Events.emitFailed("claim", fmt.Errorf("%s, a part of the store, is missing: %w", p.Part, p.Err))
		}
	}
	r.health.missing.Store(&now)
}
