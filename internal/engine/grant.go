package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
)

// grant is what the strategy granted: buckets that this node owns, or from which it may take rows by holding them. It does not
// change once it is made.
type grant struct {
	buckets []uint32
	of      []bool        // by bucket: it is among them
	span    time.Duration // 0: the buckets are owned
	until   time.Time     // monotonic end of ownership; zero: none
}

// owns says whether this node owns a bucket, by what it knew last.
func (h *grant) owns(bucket uint32) bool { return h.span == 0 && h.has(bucket) }

// has says whether a bucket is owned, or may be claimed.
func (h *grant) has(bucket uint32) bool { return int(bucket) < len(h.of) && h.of[bucket] }

// lapsed says whether ownership has ended unless it was renewed.
func (h *grant) lapsed(now time.Time) bool { return !h.until.IsZero() && !now.Before(h.until) }

// owned says whether this node owns a bucket. On a store of its own it owns all.
func (e *Engine) owned(bucket uint32) bool { return e.others == nil || e.grant.Load().owns(bucket) }

// granted notes what the strategy grants now. Rows of buckets that are lost leave memory, but for those whose attempts are out. It
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
	e.serves.Store(len(g.Buckets) > 0) // else others fire what this node writes
	now := e.Now()
	maps.DeleteFunc(e.swept.gained, func(b uint32, _ rouse.Instant) bool { return !is.has(b) })
	for _, b := range g.Buckets {
		if _, had := e.swept.gained[b]; !had {
			e.swept.gained[b] = now
		}
	}
	lost := false
	for _, b := range was.buckets {
		if was.span == 0 && !is.owns(b) { // also one that could not be read
			e.swept.leaving[b], lost = time.Now(), true
		}
	}
	for _, b := range g.Buckets {
		delete(e.swept.leaving, b)
		delete(e.swept.kept, b)
	}
	if lost {
		for _, en := range e.window.entries {
			if _, leaving := e.swept.leaving[en.row.Bucket]; leaving && en.held.IsZero() && !en.busy() {
				e.window.drop(en)
			}
		}
	}
	return gained
}

// left tells the strategy which of the buckets that were lost have nothing in progress any more but under holds of this node's. What is in
// progress for longer than a moment comes under such a hold: it stays here, and all else of its bucket need not wait for it. It says
// whether some buckets still wait.
func (e *Engine) left(ctx context.Context) (waiting bool) {
	r, ok := e.strategy.(rouse.Runner)
	if !ok {
		return false
	}
	e.mu.Lock()
	if len(e.swept.leaving) == 0 {
		e.mu.Unlock()
		return false
	}
	now := time.Now()
	busy := map[uint32]bool{}
	var out []*entry
	for _, en := range e.window.entries {
		since, leaving := e.swept.leaving[en.row.Bucket]
		if !leaving || !en.busy() || !en.held.IsZero() {
			continue
		}
		busy[en.row.Bucket] = true
		if now.Sub(since) >= leavingLook {
			out = append(out, en)
		}
	}
	var over []uint32
	for b := range e.swept.leaving {
		if !busy[b] {
			over = append(over, b)
			delete(e.swept.leaving, b)
		}
	}
	waiting = len(e.swept.leaving) > 0
	items := e.keeps(out)
	e.mu.Unlock()
	if len(over) > 0 {
		r.Left(over)
	}
	e.keep(ctx, items)
	return waiting
}

// keeps returns the writes that bring attempts that are out under holds. What is settling is not out, and is over in a moment. The mutex is
// held.
func (e *Engine) keeps(list []*entry) (items []*Write) {
	for _, en := range list {
		if en.state == sending && !en.orphan {
			row := en.row
			items = append(items, &Write{Change: rouse.Change{Key: row.Key, If: row.Revision, To: &row}, Renews: true})
			e.swept.kept[row.Bucket] = true
		}
	}
	return items
}

// keep makes these writes. One that is refused is of an attempt that was settled meanwhile, or of a timer that was changed: the next
// look sees which.
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
	// yieldQuick is how long a node that stops waits for attempts that end soon, before it brings those that are out under holds.
	yieldQuick = 50 * time.Millisecond
	// yieldMost bounds how long that takes with a store that answers slowly, before the others have to find it out by the leases.
	yieldMost = 5 * time.Second
)

// yield gives all that this node has to the others but for the attempts that are out, which it keeps under holds: they start at once with what
// a node leaves that stops, however long its last attempts take. Nothing is sent any more.
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

// announce tells the other nodes to look at once for what this one gave back, if it has given them all it had: what they would find a Poll
// later.
func (e *Engine) announce(ctx context.Context) {
	if e.presence == nil || !e.yielded.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, e.opts.Poll)
	defer cancel()
	_ = e.presence.Announce(ctx)
}

// Leaving returns which timers are in buckets that this node has lost while attempts were out, which it goes on with under holds. It returns
// nil if there are none. A sink whose attempts may be out for long should give back those that it can.
func (e *Engine) Leaving() func(rouse.Key) bool {
	if e.others == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.swept.leaving)+len(e.swept.kept) == 0 {
		return nil
	}
	leaving := maps.Clone(e.swept.kept)
	for b := range e.swept.leaving {
		leaving[b] = true
	}
	return func(k rouse.Key) bool { return leaving[e.bucket(k)] }
}

// ungain forgets that buckets were granted, so that they count as gained again: they could not be read.
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

// routed says whether a row is a timer whose target is routed.
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
