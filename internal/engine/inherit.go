package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/boottime"
)

// inheritance ends the holds of dead nodes.
type inheritance struct {
	*env
	buckets *ownership
	holds   *holds
	commits *commits
	memory  *memory

	mu   sync.Mutex
	dead []deadNode // that died recently
}

// deadNode is a dead node whose holds are also ended in buckets that this node gains until the given time.
type deadNode struct {
	grain int
	until time.Time
}

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
	return e.inheritance.endDeadHolds(ctx, grain, among)
}

func (h *inheritance) endDeadHolds(ctx context.Context, grain int, among func(bucket uint32) bool) error {
	if grain == h.holds.ownGrain() {
		all := make([]uint32, h.opts.Buckets)
		for b := range all {
			all[b] = uint32(b)
		}
		return h.uncoverAll(ctx, grain, all)
	}
	now := boottime.Now()
	h.mu.Lock()
	h.dead = slices.DeleteFunc(h.dead, func(d deadNode) bool { return !now.Before(d.until) })
	h.dead = append(h.dead, deadNode{grain, now.Add(h.opts.Hold)})
	h.mu.Unlock()
	g := h.buckets.currentGrant()
	var buckets []uint32
	for _, b := range g.buckets {
		if g.span == 0 || among(b) {
			buckets = append(buckets, b)
		}
	}
	return h.uncoverAll(ctx, grain, buckets)
}

// endGainedHolds ends the holds of recently dead nodes in buckets that this node has just gained.
func (h *inheritance) endGainedHolds(ctx context.Context, gained []uint32) error {
	h.mu.Lock()
	dead := slices.Clone(h.dead)
	h.mu.Unlock()
	for _, d := range dead {
		if boottime.Now().Before(d.until) {
			if err := h.uncoverAll(ctx, d.grain, gained); err != nil {
				return err
			}
		}
	}
	return nil
}

// uncoverAll ends the holds of a grain in some buckets.
func (h *inheritance) uncoverAll(ctx context.Context, grain int, buckets []uint32) error {
	g := h.buckets.currentGrant()
	if len(buckets) == 0 {
		return nil
	}
	span := h.opts.Hold
	if g.span != 0 {
		span = g.span
	}
	after := rouse.Position{Visible: h.Now()}
	for {
		batch, err := h.store.Claim(ctx, rouse.Window{Buckets: buckets, After: after,
			Ahead: h.holds.holdReach(g) + span + holdGrain*2, Limit: pageRows, Bytes: pageBytes})
		if err != nil {
			return err
		}
		var items []*Write
		for i := range batch.Rows {
			if row := &batch.Rows[i]; grainOf(row.Visible) == grain && !h.memory.holdsRow(row.Key) &&
				h.holds.uncoverRow(row, span) {
				items = append(items, &Write{Change: rouse.Change{Key: row.Key, If: row.Revision, To: row}, how: fromDead})
			}
		}
		if len(items) > 0 {
			if _, err := h.commits.commitWrites(ctx, items); err != nil {
				return err
			}
		}
		if !batch.More || len(batch.Rows) == 0 {
			return nil
		}
		after = batch.Rows[len(batch.Rows)-1].Position()
	}
}
