package engine

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
)

// grant has the buckets that the strategy granted: those that this node owns, or from which it may claim rows
// with holds. It is immutable.
type grant struct {
	buckets []uint32
	of      []bool        // by bucket: it is granted
	span    time.Duration // 0: the buckets are owned
	until   time.Time     // monotonic end of ownership; zero: none
}

// ownsBucket reports whether this node owns a bucket, as of the last grant.
func (h *grant) ownsBucket(bucket uint32) bool { return h.span == 0 && h.hasBucket(bucket) }

// hasBucket reports whether a bucket is owned or may be claimed from.
func (h *grant) hasBucket(bucket uint32) bool { return int(bucket) < len(h.of) && h.of[bucket] }

// hasLapsed reports whether ownership has ended, unless it was renewed.
func (h *grant) hasLapsed(now time.Time) bool { return !h.until.IsZero() && !now.Before(h.until) }

// ownership has the grant of the strategy to this node, and the rest of earlier grants.
type ownership struct {
	all    bool                  // the store is used by this node alone, which owns every bucket
	latest atomic.Pointer[grant] // the last grant of the strategy; never nil

	mu      sync.Mutex
	leaving map[uint32]time.Time     // lost buckets, with the time of the loss, in which attempts may still be out
	kept    map[uint32]bool          // lost buckets of which attempts continue under holds
	gained  map[uint32]rouse.Instant // granted buckets, and since when
}

func newOwnership(all bool) *ownership {
	o := &ownership{all: all, leaving: map[uint32]time.Time{}, kept: map[uint32]bool{}, gained: map[uint32]rouse.Instant{}}
	o.latest.Store(&grant{})
	return o
}

func (o *ownership) currentGrant() *grant { return o.latest.Load() }

// ownsBucket reports whether this node owns a bucket.
func (o *ownership) ownsBucket(bucket uint32) bool {
	return o.all || o.currentGrant().ownsBucket(bucket)
}

// storeGrant stores a new grant. It returns the buckets that were not owned before, and whether some were
// lost.
func (o *ownership) storeGrant(g rouse.Grant, now rouse.Instant) (gained []uint32, lost bool) {
	was := o.currentGrant()
	is := &grant{buckets: g.Buckets, span: g.Hold, until: g.Until}
	if n := len(g.Buckets); n > 0 {
		is.of = make([]bool, g.Buckets[n-1]+1)
	}
	for _, b := range g.Buckets {
		is.of[b] = true
		if is.span == 0 && !was.ownsBucket(b) {
			gained = append(gained, b)
		}
	}
	o.latest.Store(is)
	if o.all {
		return nil, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.gained, func(b uint32, _ rouse.Instant) bool { return !is.hasBucket(b) })
	for _, b := range was.buckets {
		if was.span == 0 && !is.ownsBucket(b) { // also one that could not be read
			o.leaving[b], lost = time.Now(), true
		}
	}
	for _, b := range g.Buckets {
		if _, had := o.gained[b]; !had {
			o.gained[b] = now
		}
		delete(o.leaving, b)
		delete(o.kept, b)
	}
	return gained, lost
}

// markUnread marks buckets as not granted, because they could not be read, so that the next grant counts them
// as gained.
func (o *ownership) markUnread(buckets []uint32) {
	is := *o.currentGrant()
	is.of = slices.Clone(is.of)
	for _, b := range buckets {
		is.of[b] = false
	}
	o.latest.Store(&is)
}

// hadSince reports whether this node could read or claim the rows of a bucket during all the time since then:
// a row that it finds only now has waited for its turn.
func (o *ownership) hadSince(bucket uint32, from rouse.Instant) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, ok := o.gained[bucket]
	return ok && at <= from && o.currentGrant().hasBucket(bucket)
}

// sinceWhen returns since when this node could read or claim the rows of a bucket; the zero time if it always
// could.
func (o *ownership) sinceWhen(bucket uint32) rouse.Instant {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.gained[bucket]
}

// lostBuckets returns the lost buckets in which attempts may still be out, with the time of the loss.
func (o *ownership) lostBuckets() map[uint32]time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.leaving)
}

// takeLeftBuckets returns the lost buckets that are not busy. They are not returned again.
func (o *ownership) takeLeftBuckets(busy map[uint32]bool) (over []uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for b := range o.leaving {
		if !busy[b] {
			over = append(over, b)
			delete(o.leaving, b)
		}
	}
	return over
}

// markKept records that an attempt of a lost bucket continues under a hold.
func (o *ownership) markKept(bucket uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept[bucket] = true
}

// unfinishedBuckets returns the lost buckets of which attempts are out.
func (o *ownership) unfinishedBuckets() map[uint32]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := maps.Clone(o.kept)
	for b := range o.leaving {
		all[b] = true
	}
	return all
}
