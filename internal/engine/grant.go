package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
)

// grant is what the strategy granted: buckets that this node owns, or from which it may claim rows with
// holds. It is immutable.
type grant struct {
	buckets []uint32
	of      []bool        // by bucket: it is granted
	span    time.Duration // 0: the buckets are owned
	until   time.Time     // monotonic end of ownership; zero: none
}

// owns reports whether this node owns a bucket, as of the last grant.
func (h *grant) owns(bucket uint32) bool { return h.span == 0 && h.has(bucket) }

// has reports whether a bucket is owned or may be claimed from.
func (h *grant) has(bucket uint32) bool { return int(bucket) < len(h.of) && h.of[bucket] }

// lapsed reports whether ownership has ended, unless it was renewed.
func (h *grant) lapsed(now time.Time) bool { return !h.until.IsZero() && !now.Before(h.until) }

// owned reports whether this node owns a bucket. With a store of its own it owns all.
func (e *Engine) owned(bucket uint32) bool { return e.others == nil || e.grant.Load().owns(bucket) }

// granted stores a new grant. Rows of lost buckets leave memory, except those whose attempts are out. It
// returns the buckets that were not owned before.
func (e *Engine) granted(g rouse.Grant) (gained []uint32) {
	was := e.grant.Load()
	is := &grant{buckets: g.Buckets, span: g.Hold, until: g.Until}
	if n := len(g.Buckets); n > 0 {
		is.of = make([]bool, g.Buckets[n-1]+1)
	}
	for _, b := range g.Buckets {
		is.of[b] = true
		if is.span == 0 && !was.owns(b) {
			gained = append(gained, b)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.grant.Store(is)
	if e.others == nil {
		return nil
	}
	e.serves.Store(len(g.Buckets) > 0) // otherwise other nodes fire what this node writes
	now := e.Now()
	maps.DeleteFunc(e.rescans.gained, func(b uint32, _ rouse.Instant) bool { return !is.has(b) })
	for _, b := range g.Buckets {
		if _, had := e.rescans.gained[b]; !had {
			e.rescans.gained[b] = now
		}
	}
	lost := false
	for _, b := range was.buckets {
		if was.span == 0 && !is.owns(b) { // also one that could not be read
			e.rescans.leaving[b], lost = time.Now(), true
		}
	}
	for _, b := range g.Buckets {
		delete(e.rescans.leaving, b)
		delete(e.rescans.kept, b)
	}
	if lost {
		for _, en := range e.window.entries {
			if _, leaving := e.rescans.leaving[en.row.Bucket]; leaving && en.held.IsZero() && !en.busy() {
				e.window.drop(en)
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
	e.mu.Lock()
	if len(e.rescans.leaving) == 0 {
		e.mu.Unlock()
		return false
	}
	now := time.Now()
	busy := map[uint32]bool{}
	var out []*entry
	for _, en := range e.window.entries {
		since, leaving := e.rescans.leaving[en.row.Bucket]
		if !leaving || !en.busy() || !en.held.IsZero() {
			continue
		}
		busy[en.row.Bucket] = true
		if now.Sub(since) >= leavingLook {
			out = append(out, en)
		}
	}
	var over []uint32
	for b := range e.rescans.leaving {
		if !busy[b] {
			over = append(over, b)
			delete(e.rescans.leaving, b)
		}
	}
	waiting = len(e.rescans.leaving) > 0
	items := e.keeps(out)
	e.mu.Unlock()
	if len(over) > 0 {
		r.Left(over)
	}
	e.keep(ctx, items)
	return waiting
}

// keeps returns the writes that put attempts under holds. Entries that are settling are not out and will be
// done shortly. The mutex is held.
func (e *Engine) keeps(list []*entry) (items []*Write) {
	for _, en := range list {
		if en.state == sending && !en.orphan {
			row := en.row
			items = append(items, &Write{Change: rouse.Change{Key: row.Key, If: row.Revision, To: &row}, Renews: true})
			e.rescans.kept[row.Bucket] = true
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
		e.mu.Lock()
		var out []*entry
		for _, en := range e.window.entries {
			if en.busy() && en.held.IsZero() {
				out = append(out, en)
			}
		}
		var items []*Write
		if time.Since(began) >= yieldQuick {
			items = e.keeps(out)
		}
		e.mu.Unlock()
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

// Leaving returns which timers are in buckets that this node lost while attempts were out, and which it
// continues under holds; nil if there are none. A sink with long attempts should give back those that it can.
func (e *Engine) Leaving() func(rouse.Key) bool {
	if e.others == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.rescans.leaving)+len(e.rescans.kept) == 0 {
		return nil
	}
	leaving := maps.Clone(e.rescans.kept)
	for b := range e.rescans.leaving {
		leaving[b] = true
	}
	return func(k rouse.Key) bool { return leaving[e.bucket(k)] }
}

// ungain marks buckets as not granted, because they could not be read, so that the next grant counts them as
// gained.
func (e *Engine) ungain(buckets []uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	is := *e.grant.Load()
	is.of = slices.Clone(is.of)
	for _, b := range buckets {
		is.of[b] = false
	}
	e.grant.Store(&is)
}

// routed reports whether a row is a timer whose target has a route.
func (e *Engine) routed(row *rouse.Row) bool {
	if e.opts.Route == nil || row.State == rouse.StateNote {
		return false
	}
	t, err := e.opts.Read(row)
	if err != nil {
		return false
	}
	_, ok := e.opts.Route(t.Spec.Target)
	return ok
}

// bucket hashes a key to its bucket: the same on every node.
func (e *Engine) bucket(k rouse.Key) uint32 {
	return rouse.BucketOf(k, e.opts.Buckets)
}
