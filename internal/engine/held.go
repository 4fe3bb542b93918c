package engine

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rousehq/rouse"
)

// If a row that this node writes comes due soon and this node does not own its bucket, the row is written as
// already held: its visible time in the store is the end of the hold, and in memory it is the time to fire.
// So it needs no notification and no claim, whatever the strategy. If this node dies, the hold expires, and
// the node that owns or claims the bucket finds the row.

// holds decides which rows this node holds, until when, and for how long it relies on that; and reads the
// holds of others from the rows in the store. It has no state but the grain.
type holds struct {
	*env
	buckets *ownership
	grain   rouse.Instant // see ownEnd
}

func newHolds(v *env, buckets *ownership) *holds {
	return &holds{env: v, buckets: buckets, grain: rouse.Instant(cmp.Or(v.opts.Grain, NewGrain(nil))-1) * (maxEdits + 1)}
}

// Grains is the number of nodes that the ends of their holds can distinguish: see Options.Grain.
const Grains = holdGrain / (maxEdits + 1)

// NewGrain returns a grain that is not in taken, if there is one.
func NewGrain(taken []int) int {
	first := rand.IntN(Grains)
	for i := range Grains {
		if g := (first+i)%Grains + 1; !slices.Contains(taken, g) {
			return g
		}
	}
	return first + 1
}

// grainOf returns the grain of the node whose hold may end at a time.
func grainOf(at rouse.Instant) int { return int(at%holdGrain)/(maxEdits+1) + 1 }

// holdReach is how far ahead of now this node holds the rows that it writes: twice as far as others read
// ahead, because a commit takes time.
func (h *holds) holdReach(g *grant) time.Duration {
	if g.span != 0 {
		return h.claimAhead(g.span)
	}
	return 2 * h.opts.Ahead
}

// claimAhead is how far ahead of their time claims with this hold take rows.
func (h *holds) claimAhead(span time.Duration) time.Duration { return min(h.opts.Ahead, span/4) }

// trustedSpan is how long this node relies on a hold. For a claim of another node, which takes rows ahead of
// their time, a held row is visible at the end of the hold; so the hold counts as ended that much earlier,
// because the claim's write makes the settle fail. A margin covers the time between the last clock read and
// the send. An owner that reads ahead writes nothing, so a hold in its bucket lasts to its end.
func (h *holds) trustedSpan(g *grant, span time.Duration) time.Duration {
	if g.span != 0 {
		return span - h.claimAhead(g.span) - span/holdMargin
	}
	return span - span/holdMargin
}

// minimumHold is how much of a hold must be left when an attempt starts, so that renewLoop can renew it in
// time.
func (h *holds) minimumHold() time.Duration { return h.opts.Hold * 3 / 10 }

// holdWrites returns the change as it is written to the store, with its rows held where this node should hold
// them, and records the ends of the holds by the monotonic clock.
func (h *holds) holdWrites(w *Write, g *grant, asked time.Time, full bool) rouse.Change {
	c := w.Change
	w.held, w.alsoHeld = time.Time{}, nil
	keeps := !full && (!h.opts.Scatter || w.settles != nil)
	if w.Plain || c.To == nil && len(c.Also) == 0 || !keeps && !w.Renews && w.fence == 0 {
		return c
	}
	if c.To != nil && !h.leavesToOwner(w, g) {
		to, until, ok := h.holdRow(c.To, w.Renews, g, asked)
		switch {
		case ok && (keeps || w.Renews):
			c.To, w.held, w.hidden = to, until, to.Visible
		case w.fence != 0: // hidden until the edit is written, and not kept in memory
			c.To, _, w.aside = h.holdRow(c.To, true, g, asked)
		}
	}
	if !keeps && !w.Renews {
		return c
	}
	for i := range c.Also {
		to, until, ok := h.holdRow(&c.Also[i], false, g, asked)
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

// leavesToOwner reports whether the next occurrence after an attempt is left to the owner of the bucket,
// because the owner has time to find it. So a recurring timer does not stay with the node that took the call,
// and its load is where its bucket is.
func (h *holds) leavesToOwner(w *Write, g *grant) bool {
	return w.settles != nil && !w.Renews && g.span == 0 && w.Change.To.Visible >= h.clock.latestNow().Add(h.opts.Poll*9/10)
}

// holdRow returns the row with its hold, and the end of the hold.
func (h *holds) holdRow(row *rouse.Row, forced bool, g *grant, asked time.Time) (*rouse.Row, time.Time, bool) {
	// without buckets, other nodes fire the rows that this node writes
	if row.Visible == rouse.Never || !forced && (g.ownsBucket(row.Bucket) && !g.hasLapsed(asked) || h.stopping.Load() ||
		len(g.buckets) == 0) {
		return nil, time.Time{}, false
	}
	if !forced && len(h.opts.Namespaces) > 0 && !slices.Contains(h.opts.Namespaces, row.Key.Namespace) {
		return nil, time.Time{}, false
	}
	if !forced && !g.hasBucket(row.Bucket) && h.isRouted(row) {
		return nil, time.Time{}, false // all timers of its route are fired by one node, which is not this one
	}
	span := g.span
	if span == 0 {
		span = h.opts.Hold
	}
	now := h.clock.latestNow()
	if !forced && row.Visible > now.Add(h.holdReach(g)) {
		return nil, time.Time{}, false
	}
	held := *row
	held.Visible = h.ownEnd(max(row.Visible, now).Add(span))
	return &held, asked.Add(held.Visible.Sub(now) - span + h.trustedSpan(g, span)), true
}

// isRouted reports whether a row is a timer with a limit, or whose target has a route.
func (h *holds) isRouted(row *rouse.Row) bool {
	if h.opts.Route == nil && h.opts.Limits == nil || row.State == rouse.StateNote {
		return false
	}
	t, err := h.opts.Read(row)
	if err != nil {
		return false
	}
	if t.Spec.Limit != "" || h.opts.Route == nil {
		return t.Spec.Limit != ""
	}
	_, ok := h.opts.Route(t.Spec.Target)
	return ok
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
func (h *holds) ownEnd(at rouse.Instant) rouse.Instant {
	return (at-h.grain+holdGrain-1)/holdGrain*holdGrain + h.grain
}

// isLost reports whether this node must no longer send an entry: too little of its hold is left, or its
// ownership may have ended. The mutex is held.
func (h *holds) isLost(en *entry, now time.Time) bool {
	if held := !en.held.IsZero(); held && en.held.Sub(now) >= h.minimumHold() || !held && h.others == nil {
		return false
	}
	g := h.buckets.currentGrant()
	return !g.ownsBucket(en.row.Bucket) || g.hasLapsed(now)
}

// heldOn returns the end of this node's hold on a row that another node has changed, and sets the row's
// Visible to its real value: an edit leaves the hold of an occurrence that may be out (Fit). It returns zero
// if the hold is over.
func (h *holds) heldOn(was *entry, row *rouse.Row) (held time.Time) {
	if was.held.IsZero() || row.Visible <= was.hidden || row.Visible > was.hidden+maxEdits ||
		row.Generation != was.row.Generation {
		return held
	}
	t, err := h.opts.Read(row)
	if err != nil {
		return held
	}
	occ, ok := t.Current()
	switch {
	case !ok || occ != was.occ:
		return held
	case t.Attempts != 0: // a retry: no edit moves it
		row.Visible = was.row.Visible
	case occ.Manual:
		row.Visible = occ.Due
	default:
		row.Visible = t.SentAt(occ.Due)
	}
	return was.held
}

// ownGrain returns this node's grain in the form of Options.Grain.
func (h *holds) ownGrain() int { return int(h.grain)/(maxEdits+1) + 1 }

// uncoverRow sets a row's Visible to the time without its hold. It returns false if the row is not held or
// that time is unknown.
func (h *holds) uncoverRow(row *rouse.Row, span time.Duration) bool {
	if row.Key.Fire != "" && row.State == rouse.StateDead {
		return false
	}
	t, err := h.opts.Read(row)
	if err != nil || t.Paused || t.Token != 0 {
		return false
	}
	occ, ok := t.Current()
	if !ok {
		return false
	}
	is, most := t.SentAt(occ.Due), rouse.Never
	switch {
	case t.Attempts != 0: // unless its receiver chose the time of the retry
		if is, ok = t.RetryDue(); !ok {
			return false
		}
		most = is.Add(span) + holdGrain + maxEdits
	case occ.Manual:
		is = occ.Due
	}
	if row.Visible < is.Add(span-h.grantAhead()) || row.Visible > most {
		return false
	}
	row.Visible = is
	return true
}

// grantAhead is how long before its time a row may be claimed: its hold ends that much earlier.
func (h *holds) grantAhead() time.Duration {
	if span := h.buckets.currentGrant().span; span != 0 {
		return h.claimAhead(span)
	}
	return 0
}
