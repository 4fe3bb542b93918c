package engine

import (
	"context"
	"errors"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/boottime"
	"github.com/rousehq/rouse/internal/notify"
)

// pageRows and pageBytes bound one claim.
const (
	pageRows  = 4096
	pageBytes = 8 << 20
)

// reader fills the window with the rows that come due soon.
type reader struct {
	*env
	buckets     *ownership
	holds       *holds
	memory      *memory
	rescans     *rescans
	handover    *handover
	inheritance *inheritance
	health      *health
}

// readLoop keeps the window filled with the rows that come due soon.
func (r *reader) readLoop(ctx context.Context) {
	var changed <-chan struct{}
	if r.runner != nil {
		changed = r.runner.Changed()
	}
	var wait time.Duration
	for {
		if wait > 0 {
			t := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				t.Stop()
				return
			case <-r.memory.room:
				t.Stop()
			case <-changed:
				t.Stop()
				if !r.isQuiet() { // another node may have given back rows that it held
					r.rescans.requestRescan()
				}
			case <-t.C:
			}
		} else if ctx.Err() != nil {
			return
		}
		var err error
		if wait, err = r.readOnce(ctx); err != nil {
			if errors.Is(err, context.Canceled) && ctx.Err() != nil {
				return
			}
			r.opts.Events.emitFailed("claim", err)
			wait = time.Second
			continue
		}
		r.health.read.setNow()
	}
}

const (
	// grantWait is how long a strategy may block before it is asked again.
	grantWait = 5 * time.Second
	// leavingLook is how often a lost bucket is checked for attempts that delay its handover.
	leavingLook = 20 * time.Millisecond
)

// readOnce claims one page and returns how long to wait before the next.
func (r *reader) readOnce(ctx context.Context) (time.Duration, error) {
	asking, stopAsking := context.WithTimeout(ctx, grantWait)
	asked := r.Now()
	granted, done, err := r.strategy.Grant(asking)
	stopAsking()
	if err != nil {
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, rouse.ErrUnavailable):
			return 0, nil // other nodes had their turn
		default:
			r.hindrances.recordAnswer(false, asked, r.Now())
		}
		return 0, err
	}
	more := false
	defer func() { done(more) }()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	gained := r.handover.applyGrant(granted)
	wait := r.opts.Poll
	if r.handover.reportLeftBuckets(ctx) {
		wait = leavingLook
	}
	if len(granted.Buckets) == 0 {
		return wait, nil
	}
	var next time.Duration
	if granted.Hold > 0 {
		if next, err = r.claimHeld(ctx, granted); err == nil {
			more = next == 0
		}
		return next, err
	}
	if r.others != nil {
		if len(gained) > 0 {
			err := r.countAway(ctx, gained)
			if err == nil {
				_, err = r.rereadBuckets(ctx, gained, 0)
			}
			if err != nil {
				r.buckets.markUnread(gained)
				return 0, err
			}
			if err := r.inheritance.endGainedHolds(ctx, gained); err != nil {
				r.opts.Events.emitFailed("inherit", err) // those holds expire
			}
		}
		if r.rescans.untilDue(time.Now(), r.quietWait()) == 0 {
			if err := r.rescanWindow(ctx, granted.Buckets); err != nil {
				return 0, err
			}
		}
		wait = min(wait, max(r.rescans.untilDue(time.Now(), r.quietWait()), time.Millisecond))
		left, err := r.releaseAway(ctx)
		if err != nil { // their places stay taken until the store answers
			r.opts.Events.emitFailed("get", err)
		}
		if left {
			wait = min(wait, awayLook)
		}
	}
	if next, err = r.readOwned(ctx, granted); r.others != nil {
		next = min(next, wait)
	}
	return next, err
}

// readOwned reads the next page after the cursor. With an embedded store only this node writes to an owned
// bucket, so every row up to the cursor is in memory, settled, or arrives with a commit. With a shared store,
// rescans find the rest.
func (r *reader) readOwned(ctx context.Context, grant rouse.Grant) (time.Duration, error) {
	r.memory.Lock()
	w := &r.memory.window
	if w.isFullForReads() && w.spilled != never {
		w.evictLater(w.spilled.Visible, r.Now()) // a row that did not fit may be due before rows that did
	}
	if w.isFullForReads() {
		w.crowded = r.Now()
		r.memory.shedBacklogs()
		r.memory.Unlock()
		return 20 * time.Millisecond, nil
	}
	if w.spilled.Compare(w.cursor) < 0 {
		w.cursor = positionBefore(w.spilled)
	}
	w.spilled = never
	now := r.Now()
	if left := w.cursor.Visible.Sub(now); left > r.opts.Ahead/2 {
		r.memory.Unlock()
		return min(left-r.opts.Ahead/2, time.Second), nil
	}
	// Rows of commits during this read go into memory up to this time, and the cursor does not pass it. So no
	// row is missed between a commit that leaves it to the read and a read whose snapshot is older than the
	// commit.
	reading := now.Add(r.opts.Ahead)
	w.reading = reading
	after := w.cursor
	r.memory.Unlock()

	asked := boottime.Now()
	batch, err := r.store.Claim(ctx, rouse.Window{Buckets: grant.Buckets, After: after, Ahead: r.opts.Ahead,
		Limit: pageRows, Bytes: pageBytes})
	failpoint("after-claim")

	r.memory.Lock()
	defer r.memory.Unlock()
	defer func() {
		w.reading = 0
		clear(w.touched)
	}()
	if err != nil {
		return 0, err
	}
	r.updateClock(asked, batch.Now)
	r.recordMissing(batch.Missing)
	w.cursor = rouse.Position{Visible: min(reading, batch.Now.Add(r.opts.Ahead)) + 1} // before all rows of that time
	if batch.More {
		if last := batch.Rows[len(batch.Rows)-1].Position(); last.Compare(w.cursor) < 0 {
			w.cursor = last
		}
	}
	now = r.Now()
	for i := range batch.Rows {
		row := &batch.Rows[i]
		if _, ok := w.touched[row.Key]; ok {
			continue // a commit had a newer version
		}
		if en := w.entries.entryByKey(row.Key); en != nil {
			if row.Revision > en.row.Revision { // the outcome of a commit was unknown, and it was made
				r.memory.changeEntry(en, row, time.Time{}, now)
			}
			continue
		}
		if !r.buckets.ownsBucket(row.Bucket) {
			continue // lost during the read
		}
		if w.isFullForReads() {
			w.cursor = positionBefore(row.Position())
			break
		}
		if en := w.insertRow(row, now); en != nil {
			en.markChecked(asked, batch.Now)
			if row.Visible <= now {
				w.takeOffWheel(en)
				r.memory.enqueueArrived(en, fromStore, now)
			} else {
				r.memory.reportNear(row)
			}
		}
	}
	r.memory.dispatchDeliveries()
	notify.Send(r.memory.wake)
	return 0, nil
}

// positionBefore returns the position before all rows with the same visible time.
func positionBefore(p rouse.Position) rouse.Position { return rouse.Position{Visible: p.Visible} }

// holdMargin is the divisor of the part of a hold that covers the time between the last clock read and the
// send.
const holdMargin = 10

// claimHeld claims rows that no other node has, with the grant's hold: only as many as fit into memory,
// because one that does not fit is hidden from all nodes until its hold expires.
func (r *reader) claimHeld(ctx context.Context, grant rouse.Grant) (time.Duration, error) {
	r.memory.Lock()
	w := &r.memory.window
	room := w.readRoom()
	bodies := room.bytes / 2 // a store counts these; the other half is for the entries
	limit := min(room.rows, bodies/entryWeight, r.opts.ClaimBatch)
	if limit <= 0 {
		w.crowded = r.Now()
		w.markSpilled(rouse.Position{}) // a commit that makes room ends the wait
		r.memory.shedBacklogs()
		r.memory.Unlock()
		return r.opts.Poll, nil
	}
	r.memory.Unlock()
	asked := boottime.Now() // a hold counts from the request, not from the response
	win := rouse.Window{Buckets: grant.Buckets, Ahead: r.holds.claimAhead(grant.Hold), Hold: grant.Hold,
		Until: r.holds.ownEnd(r.clock.latestNow().Add(grant.Hold)),
		Limit: limit, Bytes: min(bodies, pageBytes), Namespaces: r.opts.Namespaces}
	batch, err := r.store.Claim(ctx, win)
	if err != nil {
		return 0, err
	}
	r.memory.Lock()
	defer r.memory.Unlock()
	r.updateClock(asked, batch.Now)
	r.recordMissing(batch.Missing)
	now := r.Now()
	for i := range batch.Rows {
		row := &batch.Rows[i]
		held := asked.Add(r.holds.trustedSpan(r.buckets.currentGrant(), grant.Hold))
		if en := r.memory.window.entries.entryByKey(row.Key); en != nil {
			r.memory.changeEntry(en, row, held, now) // if it is out, its hold had expired and is extended now
		} else {
			r.memory.takeRow(row, held, now) // if commits have filled the memory since, it comes back when its hold expires
		}
		if en := r.memory.window.entries.entryByKey(row.Key); en != nil {
			en.hidden = win.HoldEnd(batch.Now)
			en.markChecked(asked, batch.Now)
		}
	}
	w.spilled = never // each claim starts at the earliest row
	r.memory.dispatchDeliveries()
	notify.Send(r.memory.wake)
	if batch.More {
		return 0, nil
	}
	if r.isQuiet() { // what comes due until the next claim was claimed now
		return max(r.opts.Poll, min(quietPoll, win.Ahead*9/10)), nil
	}
	return r.opts.Poll, nil
}
