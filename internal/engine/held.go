package engine

import (
	"context"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
)

// A row that this node writes, that comes due soon, and whose bucket it does not own, is written as already held: in the store its
// visible time is the end of the hold, in memory it is when to fire. So it needs no notice and no claim, whatever the strategy.
// When this node dies, the hold ends, and whoever owns or claims the bucket then finds the row.

// reach is how far ahead of now this node holds what it writes: as far as others read ahead, and as far again, as a commit may take
// its time.
func (e *Engine) reach(h *grant) time.Duration {
	if h.span != 0 {
		return e.claimAhead(h.span)
	}
	return 2 * e.opts.Ahead
}

// claimAhead is how far ahead of their time rows are taken by claims that hold them so long.
func (e *Engine) claimAhead(span time.Duration) time.Duration { return min(e.opts.Ahead, span/4) }

// trusted is how long a hold is relied upon. To a claim of another node, which takes rows ahead of their time, a hold is a row that is
// visible when it ends: it ends so much earlier, as that claim's write refuses the settle. A margin is for what lies between the last
// look at the clock and the send. An owner that reads ahead writes nothing, so that a hold in its bucket lasts to its end.
func (e *Engine) trusted(h *grant, span time.Duration) time.Duration {
	if h.span != 0 {
		return span - e.claimAhead(h.span) - span/holdMargin
	}
	return span - span/holdMargin
}

// enough is how much of a hold has to be left when an attempt starts, so that renewLoop comes in time.
func (e *Engine) enough() time.Duration { return e.opts.Hold * 3 / 10 }

// holdWrites returns the change of a write as the store is to see it, with its rows held where that is this node's to do, and
// notes until when by the monotonic clock.
func (e *Engine) holdWrites(w *Write, h *grant, asked time.Time, full bool) rouse.Change {
	c := w.Change
	w.held, w.alsoHeld = time.Time{}, nil
	keeps := !full && (!e.opts.Scatter || w.settles != nil)
	if w.Plain || c.To == nil && len(c.Also) == 0 || !keeps && !w.Renews && w.fence == 0 {
		return c
	}
	if c.To != nil && !e.handsBack(w, h) {
		to, until, ok := e.holdRow(c.To, w.Renews, h, asked)
		switch {
		case ok && (keeps || w.Renews):
			c.To, w.held, w.hidden = to, until, to.Visible
		case w.fence != 0: // it is hidden until the edit is written, and not kept
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

// handsBack says whether what comes after an attempt is left to the owner of the bucket, who has time to find it. So a timer that recurs
// does not stay with the node that took the call, and its load is where its bucket is.
func (e *Engine) handsBack(w *Write, h *grant) bool {
	return w.settles != nil && !w.Renews && h.span == 0 && w.Change.To.Visible >= e.clock.latest().Add(e.opts.Poll*9/10)
}

// holdRow returns a row as it is held, and until when.
func (e *Engine) holdRow(row *rouse.Row, forced bool, h *grant, asked time.Time) (*rouse.Row, time.Time, bool) {
	if row.Visible == rouse.Never || !forced && (h.owns(row.Bucket) && !h.lapsed(asked) || e.stopping.Load() || !e.serves.Load()) {
		return nil, time.Time{}, false
	}
	if !forced && len(e.opts.Namespaces) > 0 && !slices.Contains(e.opts.Namespaces, row.Key.Namespace) {
		return nil, time.Time{}, false
	}
	if !forced && !h.has(row.Bucket) && e.routed(row) {
		return nil, time.Time{}, false // all of its route are fired by one node, which is not this one
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

// renewLoop moves the ends of holds on while their attempts are out.
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

// renew writes renewals. A row that another node has changed meanwhile is read, so that the next renewal in its time is of the new
// version: as long as its attempt is out, it goes on being held.
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
		if en != nil && en.state == sending && row.Revision > en.row.Revision && row.Generation == en.row.Generation { // what has ended, its settle tells
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

// Hands reports in whose hands a row is that an edit has read.
type Hands struct {
	Mine  bool          // in this node's: no other may be sending it
	Out   bool          // an attempt is out here, under a hold, which has to go on
	Known bool          // its timer's Visible is when it needs attention, not the end of another node's hold
	Until rouse.Instant // until just before then another node may hold it, and send what it is at; 0 if none does
}

// The end of a hold tells whose it is: a node ends those that it writes at times of its own, its grain, and an edit that leaves another's
// hold alone puts its end off by a millisecond. So the holder, who finds that the row was changed, sees whether it still holds it.
// maxEdits is how many such edits a hold outlives.
const (
	holdGrain = 256 // milliseconds
	maxEdits  = 3
)

// ownEnd returns the end of a hold of this node's that is to last until at least then.
func (e *Engine) ownEnd(at rouse.Instant) rouse.Instant {
	return (at-e.grain+holdGrain-1)/holdGrain*holdGrain + e.grain
}

// Hands finds out in whose hands a timer is that was read from the store, and gives it the Visible that it really has, as far as that
// can be known: in the store it may be the end of a hold.
func (e *Engine) Hands(t *rouse.Timer) (h Hands) {
	e.mu.Lock()
	if en := e.window.entries[t.Key]; en != nil && en.row.Revision == t.Revision {
		t.Visible, h.Known = en.row.Visible, !en.held.IsZero()
		h.Mine = !e.lost(en, time.Now()) && (h.Known || en.row.Visible <= e.Now())
	}
	// One that is out here by an older version is this node's; one that is only looked at is not, as the look may find it changed.
	if en := e.window.entries[t.Key]; en != nil && en.busy() && en.row.Generation == t.Generation && (en.passed || en.row.Revision == t.Revision) {
		h.Mine, h.Out = true, !en.held.IsZero()
	}
	e.mu.Unlock()
	if h.Mine || e.others == nil {
		return Hands{Mine: true, Known: true, Out: h.Out}
	}
	occ, ok := t.Current()
	switch {
	case t.Token != 0: // no attempt is out: its receiver reports
	case e.MayBeOut(t):
		h.Until = e.outUntil(t)
		if !t.Paused || len(t.Runs) > 0 {
			longest := e.clock.latest().Add(e.opts.Hold) + holdGrain // what is later was put off by more than a hold
			h.Until = max(h.Until, min(t.Visible+1, longest))
		}
	case t.Paused && t.Until != 0:
		t.Visible, h.Known = min(t.Visible, t.Until), true
	case ok && !t.Paused:
		t.Visible, h.Known = min(t.Visible, t.SentAt(occ.Due)), true
	}
	return h
}

// Fit lets a change of a row leave alone what is in another node's hands: an attempt may be out there, which none is to begin beside.
// It says whether this node may not keep the row.
func (e *Engine) Fit(was, to *rouse.Timer, in Hands) (plain bool) {
	switch {
	case in.Mine || to.Visible == rouse.Never:
		return false
	case in.Until == 0:
		return to.Visible == was.Visible && !in.Known
	}
	to.Visible = max(to.Visible, in.Until)
	return true
}
