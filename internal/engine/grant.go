package engine

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
)

// granted stores a new grant. Rows of lost buckets leave memory, except those whose attempts are out. It
// returns the buckets that were not owned before.
func (e *Engine) granted(g rouse.Grant) (gained []uint32) {
	e.memory.Lock()
	defer e.memory.Unlock()
	gained, lost := e.buckets.change(g, e.Now())
	if lost {
		for _, en := range e.memory.window.entries {
			if en.held.IsZero() && !en.busy() && !e.buckets.owns(en.row.Bucket) {
				e.memory.window.drop(en)
			}
		}
	}
	return gained
}

// left tells the strategy which of the lost buckets have nothing in progress except under holds of this node.
// An attempt that takes longer than leavingLook is put under such a hold: it stays here, and the rest of its
// bucket need not wait for it. It reports whether some buckets still wait.
func (e *Engine) left(ctx context.Context) (waiting bool) {
	r, ok := e.strategy.(rouse.Runner)
	if !ok {
		return false
	}
	losses := e.buckets.losses()
	if len(losses) == 0 {
		return false
	}
	now := time.Now()
	busy := map[uint32]bool{}
	var out []*entry
	e.memory.Lock()
	for _, en := range e.memory.window.entries {
		since, leaving := losses[en.row.Bucket]
		if !leaving || !en.busy() || !en.held.IsZero() {
			continue
		}
		busy[en.row.Bucket] = true
		if now.Sub(since) >= leavingLook {
			out = append(out, en)
		}
	}
	items := e.keeps(out)
	e.memory.Unlock()
	if over := e.buckets.left(busy); len(over) > 0 {
		r.Left(over)
	}
	e.keep(ctx, items)
	return len(busy) > 0
}

// keeps returns the writes that put attempts under holds. Entries that are settling are not out and will be
// done shortly. The mutex is held.
func (e *Engine) keeps(list []*entry) (items []*Write) {
	for _, en := range list {
		if en.state == sending && !en.orphan {
			row := en.row
			items = append(items, &Write{Change: rouse.Change{Key: row.Key, If: row.Revision, To: &row}, Renews: true})
			e.buckets.keep(row.Bucket)
		}
	}
	return items
}

// keep makes these writes. A refused write means that the attempt was settled or the timer changed; the next
// iteration finds out which.
func (e *Engine) keep(ctx context.Context, items []*Write) {
	if len(items) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, e.opts.Hold)
	defer cancel()
	if _, err := e.writer.Do(ctx, items); err != nil && ctx.Err() == nil {
		e.opts.Events.failed("hold", err)
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

// yield gives everything that this node has to the other nodes, except attempts that are out, which it keeps
// under holds. So the others start at once, however long the last attempts of a stopping node take. After it,
// this node sends nothing.
func (e *Engine) yield(ctx context.Context) {
	if e.others == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, yieldMost)
	defer cancel()
	e.release(ctx)
	for began := time.Now(); ctx.Err() == nil; {
		e.memory.Lock()
		var out []*entry
		for _, en := range e.memory.window.entries {
			if en.busy() && en.held.IsZero() {
				out = append(out, en)
			}
		}
		var items []*Write
		if time.Since(began) >= yieldQuick {
			items = e.keeps(out)
		}
		e.memory.Unlock()
		if len(out) == 0 {
			break
		}
		e.keep(ctx, items)
		backoff.Sleep(ctx, yieldQuick/10)
	}
	e.granted(rouse.Grant{})
	e.yielded.Store(true)
}

// announce makes the other nodes look at once for what this node gave back, if it has yielded; otherwise they
// would find it up to one Poll later.
func (e *Engine) announce(ctx context.Context) {
	if e.presence == nil || !e.yielded.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, e.opts.Poll)
	defer cancel()
	_ = e.presence.Announce(ctx)
}
