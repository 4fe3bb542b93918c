package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
)

// handover changes the ownership of this node: it gives lost buckets, and at the end everything, to the other
// nodes, and keeps the attempts that are out under holds.
type handover struct {
	*env
	presence rouse.Presence // the store, if it can notify other nodes; nil otherwise
	buckets  *ownership
	memory   *memory
	commits  *commits
	yielded  atomic.Bool // the other nodes have everything except the attempts that are out
}

func newHandover(c *commits, store rouse.Store) *handover {
	h := &handover{env: c.env, buckets: c.buckets, memory: c.memory, commits: c}
	h.presence, _ = store.(rouse.Presence)
	return h
}

// applyGrant stores a new grant. Rows of lost buckets leave memory, except those whose attempts are out. It
// returns the buckets that were not owned before.
func (h *handover) applyGrant(g rouse.Grant) (gained []uint32) {
	h.memory.Lock()
	defer h.memory.Unlock()
	gained, lost := h.buckets.storeGrant(g, h.Now())
	if lost {
		for en := range h.memory.window.entries.allEntries() {
			if en.held.IsZero() && !en.isBusy() && !h.buckets.ownsBucket(en.row.Bucket) {
				h.memory.window.dropEntry(en)
			}
		}
	}
	return gained
}

// reportLeftBuckets reports to the strategy which of the lost buckets have nothing in progress except under
// holds of this node. An attempt that takes longer than leavingLook is put under such a hold: it stays here,
// and the rest of its bucket need not wait for it. It reports whether some buckets still wait.
func (h *handover) reportLeftBuckets(ctx context.Context) (waiting bool) {
	losses := h.buckets.lostBuckets()
	if h.runner == nil || len(losses) == 0 {
		return false
	}
	now := time.Now()
	busy := map[uint32]bool{}
	var out []*entry
	h.memory.Lock()
	for en := range h.memory.window.entries.allEntries() {
		since, leaving := losses[en.row.Bucket]
		if !leaving || !en.isBusy() || !en.held.IsZero() {
			continue
		}
		busy[en.row.Bucket] = true
		if now.Sub(since) >= leavingLook {
			out = append(out, en)
		}
	}
	items := h.buildHolds(out)
	h.memory.Unlock()
	if over := h.buckets.takeLeftBuckets(busy); len(over) > 0 {
		h.runner.Left(over)
	}
	h.writeHolds(ctx, items)
	return len(busy) > 0
}

// buildHolds returns the writes that put attempts under holds. Entries that are settling are not out and will
// be done shortly. The mutex is held.
func (h *handover) buildHolds(list []*entry) (items []*Write) {
	for _, en := range list {
		if en.state == sending && !en.orphan {
			row := en.row
			items = append(items, &Write{Change: rouse.Change{Key: row.Key, If: row.Revision, To: &row}, Renews: true})
			h.buckets.markKept(row.Bucket)
		}
	}
	return items
}

// writeHolds makes these writes. A refused write means that the attempt was settled or the timer changed; the
// next iteration finds out which.
func (h *handover) writeHolds(ctx context.Context, items []*Write) {
	if len(items) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, h.opts.Hold)
	defer cancel()
	if _, err := h.commits.commitWrites(ctx, items); err != nil && ctx.Err() == nil {
		h.opts.Events.emitFailed("hold", err)
	}
}

const (
	// yieldQuick is how long a stopping node waits for short attempts before it puts the running ones under
	// holds.
	yieldQuick = 50 * time.Millisecond
	// yieldMost bounds the yield if the store is slow. After that, other nodes take over when the leases
	// expire.
	yieldMost = 5 * time.Second
)

// yieldAll gives everything that this node has to the other nodes, except attempts that are out, which it
// keeps under holds. So the others start at once, however long the last attempts of a stopping node take.
// After it, this node sends nothing.
func (h *handover) yieldAll(ctx context.Context) {
	if h.others == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, yieldMost)
	defer cancel()
	h.releaseUnsent(ctx)
	for began := time.Now(); ctx.Err() == nil; {
		h.memory.Lock()
		var out []*entry
		for en := range h.memory.window.entries.allEntries() {
			if en.isBusy() && en.held.IsZero() {
				out = append(out, en)
			}
		}
		var items []*Write
		if time.Since(began) >= yieldQuick {
			items = h.buildHolds(out)
		}
		h.memory.Unlock()
		if len(out) == 0 {
			break
		}
		h.writeHolds(ctx, items)
		backoff.Sleep(ctx, yieldQuick/10)
	}
	h.applyGrant(rouse.Grant{})
	h.yielded.Store(true)
}

// announceYield makes the other nodes look at once for the rows that this node gave back, if it has yielded;
// otherwise they would find it up to one Poll later.
func (h *handover) announceYield(ctx context.Context) {
	if h.presence == nil || !h.yielded.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, h.opts.Poll)
	defer cancel()
	_ = h.presence.Announce(ctx)
}

// releaseLoop gives back rows that were held but not sent, until ctx ends.
func (h *handover) releaseLoop(ctx context.Context) {
	for h.others != nil && backoff.Sleep(ctx, leavingLook) {
		h.releaseUnsent(ctx)
	}
}

// releaseUnsent gives back the holds of rows that were not sent, so that another node can fire them at once.
func (h *handover) releaseUnsent(ctx context.Context) {
	h.memory.Lock()
	var items []*Write
	for en := range h.memory.window.entries.allEntries() {
		if !en.held.IsZero() && !en.isBusy() {
			row := en.row
			items = append(items, &Write{Change: rouse.Change{Key: row.Key, If: row.Revision, To: &row}, Plain: true})
		}
	}
	h.memory.Unlock()
	if len(items) > 0 {
		ctx, cancel := context.WithTimeout(ctx, h.opts.Grace)
		defer cancel()
		_, _ = h.commits.commitWrites(ctx, items) // a hold that is not given back expires
		h.announceYield(ctx)
	}
}
