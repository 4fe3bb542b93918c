package engine

import (
	"context"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
)

// If a row that this node writes comes due soon and this node does not own its bucket, the row is written as
// already held: its visible time in the store is the end of the hold, and in memory it is the time to fire.
// So it needs no notification and no claim, whatever the strategy. If this node dies, the hold expires, and
// the node that owns or claims the bucket finds the row.

// reach is how far ahead of now this node holds the rows that it writes: twice as far as others read ahead,
// because a commit takes time.
func (e *Engine) reach(h *grant) time.Duration {
	if h.span != 0 {
		return e.claimAhead(h.span)
	}
	return 2 * e.opts.Ahead
}

// claimAhead is how far ahead of their time claims with this hold take rows.
func (e *Engine) claimAhead(span time.Duration) time.Duration { return min(e.opts.Ahead, span/4) }

// trusted is how long this node relies on a hold. For a claim of another node, which takes rows ahead of
// their time, a held row is visible at the end of the hold; so the hold counts as ended that much earlier,
// because the claim's write makes the settle fail. A margin covers the time between the last clock read and
// the send. An owner that reads ahead writes nothing, so a hold in its bucket lasts to its end.
func (e *Engine) trusted(h *grant, span time.Duration) time.Duration {
	if h.span != 0 {
		return span - e.claimAhead(h.span) - span/holdMargin
	}
	return span - span/holdMargin
}

// enough is how much of a hold must be left when an attempt starts, so that renewLoop can renew it in time.
func (e *Engine) enough() time.Duration { return e.opts.Hold * 3 / 10 }

// holdWrites returns the change as it is written to the store, with its rows held where this node should hold
// them, and records the ends of the holds by the monotonic clock.
func (e *Engine) holdWrites(w *Write, h *grant, asked time.Time, full bool) rouse.Change {
	c := w.Change
	w.held, w.alsoHeld = time.Time{}, nil
	keeps := !full && (!e.opts.Scatter || w.settles != nil)
	if w.Plain || c.To == nil && len(c.Also) == 0 || !keeps && !w.Renews && w.fence == 0 {
		return c
	}
	if c.To != nil && !e.leavesToOwner(w, h) {
		to, until, ok := e.holdRow(c.To, w.Renews, h, asked)
		switch {
		case ok && (keeps || w.Renews):
			c.To, w.held, w.hidden = to, until, to.Visible
		case w.fence != 0: // hidden until the edit is written, and not kept in memory
			c.To, _, w.aside = e.holdRow(c.To, true, h, asked)
		}
	}
	if !keeps && !w.Renews {
		return c
	}
	for i := range c.Also {
		to, until, ok := e.holdRow(&c.Also[i], false, h, asked)
		if !ok {
			continue
		}
		if w.alsoHeld == nil {
			w.alsoHeld = make([]time.Time, len(c.Also))
			c.Also = slices.Clone(c.Also)
		}
		c.Also[i], w.alsoHeld[i] = *to, until
	}
	return c
}

// leavesToOwner reports whether the next occurrence after an attempt is left to the owner of the bucket, because
// the owner has time to find it. So a recurring timer does not stay with the node that took the call, and its
// load is where its bucket is.
func (e *Engine) leavesToOwner(w *Write, h *grant) bool {
	return w.settles != nil && !w.Renews && h.span == 0 && w.Change.To.Visible >= e.clock.latest().Add(e.opts.Poll*9/10)
}

// holdRow returns the row with its hold, and the end of the hold.
func (e *Engine) holdRow(row *rouse.Row, forced bool, h *grant, asked time.Time) (*rouse.Row, time.Time, bool) {
	if row.Visible == rouse.Never || !forced && (h.owns(row.Bucket) && !h.lapsed(asked) || e.stopping.Load() || !e.serves.Load()) {
		return nil, time.Time{}, false
	}
	if !forced && len(e.opts.Namespaces) > 0 && !slices.Contains(e.opts.Namespaces, row.Key.Namespace) {
		return nil, time.Time{}, false
	}
	if !forced && !h.has(row.Bucket) && e.routed(row) {
		return nil, time.Time{}, false // all timers of its route are fired by one node, which is not this one
	}
	span := h.span
	if span == 0 {
		span = e.opts.Hold
	}
	now := e.clock.latest()
	if !forced && row.Visible > now.Add(e.reach(h)) {
		return nil, time.Time{}, false
	}
	held := *row
	held.Visible = e.ownEnd(max(row.Visible, now).Add(span))
	return &held, asked.Add(held.Visible.Sub(now) - span + e.trusted(h, span)), true
}

// renewLoop extends the holds of attempts that are out.
func (e *Engine) renewLoop(ctx context.Context) {
	for backoff.Sleep(ctx, e.opts.Hold/4) {
		items := e.renewals(time.Now())
		if len(items) == 0 {
			continue
		}
		if err := e.renew(ctx, items); err != nil && ctx.Err() == nil {
			e.opts.Events.failed("renew", err)
		}
	}
}

// renew writes renewals. If another node has changed a row, the row is read, so that the next renewal uses
// the new revision: it stays held as long as its attempt is out.
func (e *Engine) renew(ctx context.Context, items []*Write) error {
	ctx, cancel := context.WithTimeout(ctx, e.opts.Hold)
	defer cancel()
	results, err := e.writer.Do(ctx, items)
	if err != nil {
		return err
	}
	var keys []rouse.Key
	for i, r := range results {
		if !r.Applied && r.Err == nil {
			keys = append(keys, items[i].Change.Key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	rows, err := e.store.Get(ctx, keys)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Now()
	for i := range rows {
		en, row := e.window.entries[keys[i]], &rows[i]
		if en != nil && en.state == sending && row.Revision > en.row.Revision && row.Generation == en.row.Generation { // otherwise settling finds out
			e.changeEntry(en, row, en.held, now)
		}
	}
	return nil
}

func (e *Engine) renewals(now time.Time) (items []*Write) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, en := range e.window.entries {
		if en.state == sending && !en.orphan && !en.held.IsZero() && en.held.Sub(now) < e.opts.Hold*45/100 {
			row := en.row
			items = append(items, &Write{Change: rouse.Change{Key: row.Key, If: row.Revision, To: &row}, Renews: true})
		}
	}
	return items
}

// Holder reports which node has a row that an edit has read.
type Holder struct {
	Mine  bool          // this node has it: no other node may be sending it
	Out   bool          // an attempt is out on this node under a hold, which must be kept
	Known bool          // its timer's Visible is when it needs attention, not the end of another node's hold
	Until rouse.Instant // end of the time, exclusive, in which another node may hold and send it; 0 if none does
}

// The end of a hold identifies the node that wrote it: each node ends its holds at its own position within
// holdGrain (its grain), and an edit that leaves another node's hold alone moves the end by one millisecond.
// So the holder sees that the row was changed and that it still holds it. maxEdits is how many such edits
// keep the holder identifiable.
const (
	holdGrain = 256 // milliseconds
	maxEdits  = 3
)

// ownEnd returns the first end of a hold of this node that is not before at.
func (e *Engine) ownEnd(at rouse.Instant) rouse.Instant {
	return (at-e.grain+holdGrain-1)/holdGrain*holdGrain + e.grain
}

// HolderOf determines which node has a timer that was read from the store, and sets the timer's Visible to
// its real value where that is known: in the store it may be the end of a hold.
func (e *Engine) HolderOf(t *rouse.Timer) (h Holder) {
	e.mu.Lock()
	if en := e.window.entries[t.Key]; en != nil && en.row.Revision == t.Revision {
		t.Visible, h.Known = en.row.Visible, !en.held.IsZero()
		h.Mine = !e.lost(en, time.Now()) && (h.Known || en.row.Visible <= e.Now())
	}
	// An older version that is out here is this node's. One whose revision is just being checked is not: the
	// check may fail.
	if en := e.window.entries[t.Key]; en != nil && en.busy() && en.row.Generation == t.Generation && (en.passed || en.row.Revision == t.Revision) {
		h.Mine, h.Out = true, !en.held.IsZero()
	}
	e.mu.Unlock()
	if h.Mine || e.others == nil {
		return Holder{Mine: true, Known: true, Out: h.Out}
	}
	occ, ok := t.Current()
	switch {
	case t.Token != 0: // no attempt is out: the receiver will report
	case e.MayBeOut(t):
		h.Until = e.outUntil(t)
		if !t.Paused || len(t.Runs) > 0 {
			longest := e.clock.latest().Add(e.opts.Hold) + holdGrain // a later time is a deferral, not a hold
			h.Until = max(h.Until, min(t.Visible+1, longest))
		}
	case t.Paused && t.Until != 0:
		t.Visible, h.Known = min(t.Visible, t.Until), true
	case ok && !t.Paused:
		t.Visible, h.Known = min(t.Visible, t.SentAt(occ.Due)), true
	}
	return h
}

// Fit adapts a change of a row that another node has: no attempt may start while one may be out there. It
// reports whether this node must not keep the row.
func (e *Engine) Fit(was, to *rouse.Timer, in Holder) (plain bool) {
	switch {
	case in.Mine || to.Visible == rouse.Never:
		return false
	case in.Until == 0:
		return to.Visible == was.Visible && !in.Known
	}
	to.Visible = max(to.Visible, in.Until)
	return true
}
