package engine

import (
	"maps"
	"slices"
	"time"

	"github.com/rousehq/rouse"
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
	if len(g.Buckets) > 0 {
		e.serves.Store(true)
	}
	lost := false
	for _, b := range was.buckets {
		if was.span == 0 && !is.owns(b) { // also one that could not be read
			e.swept.leaving[b], lost = true, true
		}
	}
	for _, b := range g.Buckets {
		delete(e.swept.leaving, b)
	}
	if lost {
		for _, en := range e.window.entries {
			if en.held.IsZero() && !en.busy() && e.swept.leaving[en.row.Bucket] {
				e.window.drop(en)
			}
		}
	}
	return gained
}

// left tells the strategy which of the buckets that were lost have nothing in progress any more. It says whether some still have.
func (e *Engine) left() (waiting bool) {
	r, ok := e.strategy.(rouse.Runner)
	if !ok {
		return false
	}
	e.mu.Lock()
	if len(e.swept.leaving) == 0 {
		e.mu.Unlock()
		return false
	}
	busy := map[uint32]bool{}
	note := func(en *entry) {
		if en.held.IsZero() && e.swept.leaving[en.row.Bucket] {
			busy[en.row.Bucket] = true
		}
	}
	for _, en := range e.window.entries {
		if en.busy() {
			note(en)
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
	e.mu.Unlock()
	if len(over) > 0 {
		r.Left(over)
	}
	return waiting
}

// Leaving returns which timers are in buckets that this node has lost and cannot hand over yet, as attempts are out. It returns nil if
// there are none. A sink whose attempts may be out for long should give back those that it can.
func (e *Engine) Leaving() func(rouse.Key) bool {
	if e.others == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.swept.leaving) == 0 {
		return nil
	}
	leaving := maps.Clone(e.swept.leaving)
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
