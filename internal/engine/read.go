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
			case <-e.room:
				t.Stop()
			case <-changed:
				t.Stop()
				e.mu.Lock()
				e.swept.hinted = true // another node may have given back what it held
				e.mu.Unlock()
			case <-t.C:
			}
		} else if ctx.Err() != nil {
			return
		}
		var err error
		asked := e.Now()
		if wait, err = e.readOnce(ctx); ctx.Err() == nil {
			e.mu.Lock()
			whole := len(e.swept.missing) == 0
			e.mu.Unlock()
			e.answered(err == nil && whole, asked)
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
	// grantWait is how long a strategy may keep a node waiting before it is asked anew.
	grantWait = 5 * time.Second
	// leavingLook is how often the attempts are looked at that keep a bucket from being handed over.
	leavingLook = 20 * time.Millisecond
)

// readOnce claims one page, and says how long to wait before the next.
func (e *Engine) readOnce(ctx context.Context) (time.Duration, error) {
	asking, stopAsking := context.WithTimeout(ctx, grantWait)
	granted, done, err := e.strategy.Grant(asking)
	stopAsking()
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return 0, nil // it was the others' turn
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
				e.ungain(gained)
				return 0, err
			}
			if err := e.inheritGained(ctx, gained); err != nil {
				e.opts.Events.failed("inherit", err) // those holds end by themselves
			}
		}
		if e.sweepDue(time.Now()) == 0 {
			if err := e.sweepWindow(ctx, granted.Buckets); err != nil {
				return 0, err
			}
		}
		wait = min(wait, max(e.sweepDue(time.Now()), time.Millisecond))
	}
	if next, err = e.readOwned(ctx, granted); e.others != nil {
		next = min(next, wait)
	}
	return next, err
}

// readOwned reads the next page after the cursor. Nobody else writes to an owned bucket of an embedded store, so what the
// cursor has passed is in memory, or settled, or comes by a commit; where others write, sweeps find the rest.
func (e *Engine) readOwned(ctx context.Context, grant rouse.Grant) (time.Duration, error) {
	e.mu.Lock()
	w := &e.window
	if w.filled() && w.spilled != never {
		w.evict(w.spilled.Visible, e.Now()) // what did not fit may be due before what did
	}
	if w.filled() {
		w.crowded = e.Now()
		e.shed()
		e.mu.Unlock()
		return 20 * time.Millisecond, nil
	}
	if w.spilled.Compare(w.cursor) < 0 {
		w.cursor = before(w.spilled)
	}
	w.spilled = never
	now := e.Now()
	if left := w.cursor.Visible.Sub(now); left > e.opts.Ahead/2 {
		e.mu.Unlock()
		return min(left-e.opts.Ahead/2, time.Second), nil
	}
	// What commits bring while this read is under way goes into memory up to here, and the cursor goes no further: so no row
	// falls between a commit that left it to the read and a read that was too early to see it.
	reading := now.Add(e.opts.Ahead)
	w.reading = reading
	after := w.cursor
	e.mu.Unlock()

	asked := time.Now()
	batch, err := e.store.Claim(ctx, rouse.Window{Buckets: grant.Buckets, After: after, Ahead: e.opts.Ahead, Limit: pageRows, Bytes: pageBytes})
	failpoint("after-claim")

	e.mu.Lock()
	defer e.mu.Unlock()
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
			continue // a commit has said what is newer
		}
		if en := w.entries[row.Key]; en != nil {
			if row.Revision > en.row.Revision { // a commit in doubt was made after all
				e.changeEntry(en, row, time.Time{}, now)
			}
			continue
		}
		if !e.owned(row.Bucket) {
			continue // it was lost meanwhile
		}
		if w.filled() {
			w.cursor = before(row.Position())
			break
		}
		if en := w.add(row, now); en != nil {
			en.lookedAt(asked, batch.Now)
			if row.Visible <= now {
				w.lift(en)
				e.arrived(en, fromStore, now)
			} else {
				e.near(row)
			}
		}
	}
	e.dispatch()
	notify.Send(e.wake)
	return 0, nil
}

// before returns a position that the given one comes after, and that no row of an earlier time comes after.
func before(p rouse.Position) rouse.Position { return rouse.Position{Visible: p.Visible} }

// holdMargin is the part of a hold that is kept for what lies between the last look at the clock and the send.
const holdMargin = 10

// claimHeld takes rows that no other node has, for as long as the grant says.
func (e *Engine) claimHeld(ctx context.Context, grant rouse.Grant) (time.Duration, error) {
	e.mu.Lock()
	limit := e.window.maxRows - len(e.window.entries) - e.window.orphans
	if e.window.full() {
		e.window.crowded = e.Now()
		e.shed()
	}
	e.mu.Unlock()
	if limit <= 0 {
		return e.opts.Poll, nil
	}
	asked := time.Now() // a hold is trusted from when it was asked for, not from when the answer came
	win := rouse.Window{Buckets: grant.Buckets, Ahead: e.claimAhead(grant.Hold), Hold: grant.Hold, Until: e.ownEnd(e.clock.latest().Add(grant.Hold)),
		Limit: min(limit, e.opts.ClaimBatch), Bytes: pageBytes, Namespaces: e.opts.Namespaces}
	batch, err := e.store.Claim(ctx, win)
	if err != nil {
		return 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard(asked, batch.Now)
	e.missed(batch.Missing)
	now := e.Now()
	for i := range batch.Rows {
		row := &batch.Rows[i]
		held := asked.Add(e.trusted(e.grant.Load(), grant.Hold))
		if en := e.window.entries[row.Key]; en != nil {
			e.changeEntry(en, row, held, now) // if it is out, its hold has ended meanwhile, and goes on now
		} else {
			e.take(row, held, now) // what does not fit comes back when its hold has ended
		}
		if en := e.window.entries[row.Key]; en != nil {
			en.hidden = win.HoldEnd(batch.Now)
			en.lookedAt(asked, batch.Now)
		}
	}
	e.window.spilled = never // claims always begin at the beginning
	e.dispatch()
	notify.Send(e.wake)
	if batch.More {
		return 0, nil
	}
	return e.opts.Poll, nil
}

// shed makes room when the window is full: the lane that is furthest behind puts off what it cannot send soon. The rows are
// written with a later visible time, spread over what the lane needs, and come back then.
func (e *Engine) shed() {
	ln, excess, drain := e.lanes.slowest(time.Now())
	if ln == nil {
		return // all lanes are moving
	}
	taken := ln.popTail(min(excess, 4096))
	least := min(max(drain, 2*time.Second), 30*time.Second)
	for i, en := range taken {
		after := least + least*time.Duration(i)/time.Duration(len(taken))
		e.decide(en, reported{o: rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBacklog, After: after}})
	}
	e.opts.Events.shed(len(taken))
}
