package engine

import (
	"context"
	"slices"
	"time"

	"github.com/rousehq/rouse"
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
func (e *Engine) holdWrites(w *write, h *grant, asked time.Time, full bool) rouse.Change {
	c := w.change
	w.held, w.alsoHeld = time.Time{}, nil
	if w.plain || full || c.To == nil && len(c.Also) == 0 || e.opts.Scatter && w.settles == nil && !w.renews {
		return c
	}
	if c.To != nil {
		if to, until, ok := e.holdRow(c.To, w.renews, h, asked); ok {
			c.To, w.held = to, until
		}
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

// holdRow returns a row as it is held, and until when.
func (e *Engine) holdRow(row *rouse.Row, renews bool, h *grant, asked time.Time) (*rouse.Row, time.Time, bool) {
	if row.Visible == rouse.Never || h.owns(row.Bucket) && !h.lapsed(asked) && !renews || e.stopping.Load() && !renews {
		return nil, time.Time{}, false
	}
	if len(e.opts.Namespaces) > 0 && !slices.Contains(e.opts.Namespaces, row.Key.Namespace) {
		return nil, time.Time{}, false
	}
	span := h.span
	if span == 0 {
		span = e.opts.Hold
	}
	now := e.clock.latest()
	if !renews && row.Visible > now.Add(e.reach(h)) {
		return nil, time.Time{}, false
	}
	held := *row
	held.Visible = max(row.Visible, now).Add(span)
	return &held, asked.Add(held.Visible.Sub(now) - span + e.trusted(h, span)), true
}

// renewLoop moves the ends of holds on while their attempts are out.
func (e *Engine) renewLoop(ctx context.Context) {
	for sleep(ctx, e.opts.Hold/4) {
		items := e.renewals(time.Now())
		if len(items) == 0 {
			continue
		}
		writing, cancel := context.WithTimeout(ctx, e.opts.Hold)
		if _, err := e.writer.Do(writing, items); err != nil && ctx.Err() == nil {
			e.opts.Events.failed("renew", err)
		}
		cancel()
	}
}

func (e *Engine) renewals(now time.Time) (items []*write) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, en := range e.window.entries {
		if en.state == sending && !en.orphan && !en.held.IsZero() && en.held.Sub(now) < e.opts.Hold*45/100 {
			row := en.row
			items = append(items, &write{change: rouse.Change{Key: row.Key, If: row.Revision, To: &row}, renews: true})
		}
	}
	return items
}
