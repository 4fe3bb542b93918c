package engine

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rousehq/rouse"
)

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

// Inherit ends the holds of a dead node, identified by its grain, so that their rows fire now instead of when
// the holds expire. It covers the buckets that this node owns, or, where nodes own none, those for which
// among returns true. A hold is distinguished from other visible times by the row's due time, so nothing
// extra is written while nodes live. Holds of retries at times that receivers asked for expire by themselves.
//
// If the dead node had this node's own grain, only this node can distinguish the holds from its own, which it
// has in memory: it ends them in all buckets.
//
// If the node is alive after all, its writes fail because the revisions have changed.
func (e *Engine) Inherit(ctx context.Context, grain int, among func(bucket uint32) bool) error {
	if e.others == nil || grain == 0 {
		return nil
	}
	if err := e.Ready(ctx); err != nil {
		return err
	}
	if grain == e.grainNumber() {
		all := make([]uint32, e.opts.Buckets)
		for b := range all {
			all[b] = uint32(b)
		}
		return e.uncoverAll(ctx, grain, all)
	}
	now := time.Now()
	e.mu.Lock()
	e.rescans.dead = slices.DeleteFunc(e.rescans.dead, func(d deadNode) bool { return !now.Before(d.until) })
	e.rescans.dead = append(e.rescans.dead, deadNode{grain, now.Add(e.opts.Hold)})
	e.mu.Unlock()
	h := e.grant.Load()
	var buckets []uint32
	for _, b := range h.buckets {
		if h.span == 0 || among(b) {
			buckets = append(buckets, b)
		}
	}
	return e.uncoverAll(ctx, grain, buckets)
}

// deadNode is a dead node whose holds are also ended in buckets that this node gains until the given time.
type deadNode struct {
	grain int
	until time.Time
}

// inheritGained ends the holds of recently dead nodes in buckets that this node has just gained.
func (e *Engine) inheritGained(ctx context.Context, gained []uint32) error {
	e.mu.Lock()
	dead := slices.Clone(e.rescans.dead)
	e.mu.Unlock()
	for _, d := range dead {
		if time.Now().Before(d.until) {
			if err := e.uncoverAll(ctx, d.grain, gained); err != nil {
				return err
			}
		}
	}
	return nil
}

// uncoverAll ends the holds of a grain in some buckets.
func (e *Engine) uncoverAll(ctx context.Context, grain int, buckets []uint32) error {
	h := e.grant.Load()
	if len(buckets) == 0 {
		return nil
	}
	span := e.opts.Hold
	if h.span != 0 {
		span = h.span
	}
	after := rouse.Position{Visible: e.Now()}
	for {
		batch, err := e.store.Claim(ctx, rouse.Window{Buckets: buckets, After: after, Ahead: e.reach(h) + span + holdGrain*2, Limit: pageRows, Bytes: pageBytes})
		if err != nil {
			return err
		}
		var items []*Write
		for i := range batch.Rows {
			if row := &batch.Rows[i]; grainOf(row.Visible) == grain && !e.holds(row) && e.uncover(row, span) {
				items = append(items, &Write{Change: rouse.Change{Key: row.Key, If: row.Revision, To: row}, how: fromDead})
			}
		}
		if len(items) > 0 {
			if _, err := e.writer.Do(ctx, items); err != nil {
				return err
			}
		}
		if !batch.More || len(batch.Rows) == 0 {
			return nil
		}
		after = batch.Rows[len(batch.Rows)-1].Position()
	}
}

// holds reports whether this node has a row in memory under a hold.
func (e *Engine) holds(row *rouse.Row) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	en := e.window.entries[row.Key]
	return en != nil && !en.held.IsZero()
}

// grainNumber returns this node's grain in the form of Options.Grain.
func (e *Engine) grainNumber() int { return int(e.grain)/(maxEdits+1) + 1 }

// uncover sets a row's Visible to the time without its hold. It returns false if the row is not held or that
// time is unknown.
func (e *Engine) uncover(row *rouse.Row, span time.Duration) bool {
	if row.Key.Fire != "" && row.State == rouse.StateDead {
		return false
	}
	t, err := e.opts.Read(row)
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
	if row.Visible < is.Add(span-e.ahead()) || row.Visible > most {
		return false
	}
	row.Visible = is
	return true
}

// ahead is how long before its time a row may be claimed: its hold ends that much earlier.
func (e *Engine) ahead() time.Duration {
	if span := e.grant.Load().span; span != 0 {
		return e.claimAhead(span)
	}
	return 0
}
