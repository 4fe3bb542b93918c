package engine

import (
	"context"
	"errors"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// pageRows and pageBytes bound one claim.
const (
	pageRows  = 4096
	pageBytes = 8 << 20
)

// readLoop keeps the window filled with what comes due soon.
func (e *Engine) readLoop(ctx context.Context) {
	var changed <-chan struct{}
	if r, ok := e.strategy.(rouse.Runner); ok {
		changed = r.Changed()
	}
	var wait time.Duration
	for {
		if wait > 0 {
			t := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				t.Stop()
				return
			case <-e.memory.room:
				t.Stop()
			case <-changed:
				t.Stop()
				e.memory.Lock()
				e.rescans.hinted = true // another node may have given back what it held
				e.memory.Unlock()
			case <-t.C:
			}
		} else if ctx.Err() != nil {
			return
		}
		var err error
		asked := e.Now()
		if wait, err = e.readOnce(ctx); ctx.Err() == nil {
			e.memory.Lock()
			whole := len(e.rescans.missing) == 0
			e.memory.Unlock()
			e.hindrances.answered(err == nil && whole, asked, e.Now())
		}
		if err != nil {
			if errors.Is(err, context.Canceled) && ctx.Err() != nil {
				return
			}
			e.opts.Events.failed("claim", err)
			wait = time.Second
			continue
		}
		e.health.read.Store(time.Now().UnixNano())
	}
}

const (
	// grantWait is how long a strategy may block before it is asked again.
	grantWait = 5 * time.Second
	// leavingLook is how often a lost bucket is checked for attempts that delay its handover.
	leavingLook = 20 * time.Millisecond
)

// readOnce claims one page and returns how long to wait before the next.
func (e *Engine) readOnce(ctx context.Context) (time.Duration, error) {
	asking, stopAsking := context.WithTimeout(ctx, grantWait)
	granted, done, err := e.strategy.Grant(asking)
	stopAsking()
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return 0, nil // other nodes had their turn
		}
		return 0, err
	}
	more := false
	defer func() { done(more) }()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	gained := e.granted(granted)
	wait := e.opts.Poll
	if e.left(ctx) {
		wait = leavingLook
	}
	if len(granted.Buckets) == 0 {
		return wait, nil
	}
	var next time.Duration
	if granted.Hold > 0 {
		if next, err = e.claimHeld(ctx, granted); err == nil {
			more = next == 0
		}
		return next, err
	}
	if e.others != nil {
		if len(gained) > 0 {
			if _, err := e.reread(ctx, gained, 0); err != nil {
				e.buckets.ungain(gained)
				return 0, err
			}
			if err := e.inheritance.gained(ctx, gained); err != nil {
				e.opts.Events.failed("inherit", err) // those holds expire
			}
		}
		if e.rescanDue(time.Now()) == 0 {
			if err := e.rescanWindow(ctx, granted.Buckets); err != nil {
				return 0, err
			}
		}
		wait = min(wait, max(e.rescanDue(time.Now()), time.Millisecond))
	}
	if next, err = e.readOwned(ctx, granted); e.others != nil {
		next = min(next, wait)
	}
	return next, err
}

// readOwned reads the next page after the cursor. With an embedded store only this node writes to an owned
// bucket, so every row up to the cursor is in memory, settled, or arrives with a commit. With a shared store,
// rescans find the rest.
func (e *Engine) readOwned(ctx context.Context, grant rouse.Grant) (time.Duration, error) {
	e.memory.Lock()
	w := &e.memory.window
	if w.filled() && w.spilled != never {
		w.evict(w.spilled.Visible, e.Now()) // a row that did not fit may be due before rows that did
	}
	if w.filled() {
		w.crowded = e.Now()
		e.memory.shed()
		e.memory.Unlock()
		return 20 * time.Millisecond, nil
	}
	if w.spilled.Compare(w.cursor) < 0 {
		w.cursor = before(w.spilled)
	}
	w.spilled = never
	now := e.Now()
	if left := w.cursor.Visible.Sub(now); left > e.opts.Ahead/2 {
		e.memory.Unlock()
		return min(left-e.opts.Ahead/2, time.Second), nil
	}
	// Rows of commits during this read go into memory up to this time, and the cursor does not pass it. So no
	// row is missed between a commit that leaves it to the read and a read whose snapshot is older than the
	// commit.
	reading := now.Add(e.opts.Ahead)
	w.reading = reading
	after := w.cursor
	e.memory.Unlock()

	asked := time.Now()
	batch, err := e.store.Claim(ctx, rouse.Window{Buckets: grant.Buckets, After: after, Ahead: e.opts.Ahead, Limit: pageRows, Bytes: pageBytes})
	failpoint("after-claim")

	e.memory.Lock()
	defer e.memory.Unlock()
	defer func() {
		w.reading = 0
		clear(w.touched)
	}()
	if err != nil {
		return 0, err
	}
	e.heard(asked, batch.Now)
	e.missed(batch.Missing)
	w.cursor = rouse.Position{Visible: min(reading, batch.Now.Add(e.opts.Ahead)) + 1} // before all rows of that time
	if batch.More {
		if last := batch.Rows[len(batch.Rows)-1].Position(); last.Compare(w.cursor) < 0 {
			w.cursor = last
		}
	}
	now = e.Now()
	for i := range batch.Rows {
		row := &batch.Rows[i]
		if _, ok := w.touched[row.Key]; ok {
			continue // a commit had a newer version
		}
		if en := w.entries[row.Key]; en != nil {
			if row.Revision > en.row.Revision { // the outcome of a commit was unknown, and it was made
				e.memory.changeEntry(en, row, time.Time{}, now)
			}
			continue
		}
		if !e.buckets.owns(row.Bucket) {
			continue // lost during the read
		}
		if w.filled() {
			w.cursor = before(row.Position())
			break
		}
		if en := w.add(row, now); en != nil {
			en.markChecked(asked, batch.Now)
			if row.Visible <= now {
				w.lift(en)
				e.memory.arrived(en, fromStore, now)
			} else {
				e.memory.near(row)
			}
		}
	}
	e.memory.dispatch()
	notify.Send(e.memory.wake)
	return 0, nil
}

// before returns the position before all rows with the same visible time.
func before(p rouse.Position) rouse.Position { return rouse.Position{Visible: p.Visible} }

// holdMargin is the divisor of the part of a hold that covers the time between the last clock read and the
// send.
const holdMargin = 10

// claimHeld claims rows that no other node has, with the grant's hold.
func (e *Engine) claimHeld(ctx context.Context, grant rouse.Grant) (time.Duration, error) {
	e.memory.Lock()
	limit := e.memory.window.maxRows - len(e.memory.window.entries) - e.memory.window.orphans
	if e.memory.window.full() {
		e.memory.window.crowded = e.Now()
		e.memory.shed()
	}
	e.memory.Unlock()
	if limit <= 0 {
		return e.opts.Poll, nil
	}
	asked := time.Now() // a hold counts from the request, not from the response
	win := rouse.Window{Buckets: grant.Buckets, Ahead: e.holds.claimAhead(grant.Hold), Hold: grant.Hold, Until: e.holds.ownEnd(e.clock.latest().Add(grant.Hold)),
		Limit: min(limit, e.opts.ClaimBatch), Bytes: pageBytes, Namespaces: e.opts.Namespaces}
	batch, err := e.store.Claim(ctx, win)
	if err != nil {
		return 0, err
	}
	e.memory.Lock()
	defer e.memory.Unlock()
	e.heard(asked, batch.Now)
	e.missed(batch.Missing)
	now := e.Now()
	for i := range batch.Rows {
		row := &batch.Rows[i]
		held := asked.Add(e.holds.trusted(e.buckets.current(), grant.Hold))
		if en := e.memory.window.entries[row.Key]; en != nil {
			e.memory.changeEntry(en, row, held, now) // if it is out, its hold had expired and is extended now
		} else {
			e.memory.take(row, held, now) // rows that do not fit come back when their hold expires
		}
		if en := e.memory.window.entries[row.Key]; en != nil {
			en.hidden = win.HoldEnd(batch.Now)
			en.markChecked(asked, batch.Now)
		}
	}
	e.memory.window.spilled = never // each claim starts at the earliest row
	e.memory.dispatch()
	notify.Send(e.memory.wake)
	if batch.More {
		return 0, nil
	}
	return e.opts.Poll, nil
}
