package pebble

import (
	"hash/maphash"

	"github.com/rousehq/rouse"
)

// hash identifies a key in the tables of the writer. Its seeds are secret, so keys that collide cannot be
// made on purpose; by chance two of a billion rows do with a probability of 10⁻²⁰.
type hash [2]uint64

type hasher [2]maphash.Seed

func newHasher() hasher { return hasher{maphash.MakeSeed(), maphash.MakeSeed()} }

func (s *hasher) hashRowKey(k rouse.Key) hash {
	return hash{maphash.Comparable(s[0], k), maphash.Comparable(s[1], k)}
}

// touched are the keys that a batch has written, each with its place after that.
type touched struct {
	list  []touch
	slots []uint32 // open addressing: 1 + the index in list; 0 is free
}

type touch struct {
	h       hash
	key     rouse.Key
	place   place
	existed bool // before the batch
}

func (t *touched) resetTouched() {
	clear(t.list)
	clear(t.slots)
	t.list = t.list[:0]
	if len(t.slots) > 64<<10 { // of an uncommonly large batch
		t.list, t.slots = nil, nil
	}
}

// findSlot returns where a hash is, or would be.
func (t *touched) findSlot(h hash) *uint32 {
	for i := h[0]; ; i++ {
		s := &t.slots[i&uint64(len(t.slots)-1)]
		if *s == 0 || t.list[*s-1].h == h {
			return s
		}
	}
}

// findTouch returns the entry of a key; nil if the batch has not written it.
func (t *touched) findTouch(h hash) *touch {
	if len(t.list) == 0 {
		return nil
	}
	if s := *t.findSlot(h); s != 0 {
		return &t.list[s-1]
	}
	return nil
}

// setPlace sets the place of a key.
func (t *touched) setPlace(h hash, k rouse.Key, existed bool, p *place) {
	if 2*len(t.list) >= len(t.slots) {
		t.slots = make([]uint32, max(64, 2*len(t.slots)))
		for i := range t.list {
			*t.findSlot(t.list[i].h) = uint32(i + 1)
		}
	}
	s := t.findSlot(h)
	if *s == 0 {
		t.list = append(t.list, touch{h: h, key: k, existed: existed})
		*s = uint32(len(t.list))
	}
	t.list[*s-1].place = *p
}

// recent caches the places of recently written rows, so that timers that fire soon after they were created,
// or fire repeatedly, need no lookup in the tree. The store has one writer, so the cache is always correct.
//
// Keys are stored as their hashes: the cache does not keep the memory of rows alive, and contains no pointers
// for the garbage collector. Each key may be in one set of spots; in a full set, the oldest spot is replaced.
// Rows with labels are not cached: their places do not fit.
type recent struct {
	most  int // limit of spots
	added int // since the last growth
	spots []spot
	// h[0] of each spot, 0 of a free one: a set of them is in one line of the CPU's cache, a set of spots in
	// four
	tags []uint64
}

// spot is a place without labels; a free one has revision 0.
type spot struct {
	h          hash
	visible    rouse.Instant
	due        rouse.Instant
	revision   uint64
	generation uint64
	bucket     uint32
	state      rouse.State

	dueOnce, keyOnce bool
}

// A spot takes 64 bytes, and its tag 8.
const (
	recentFirst = 4 << 10
	recentMost  = 256 << 10
	spotsInSet  = 4
)

// firstSpotOf returns the index of the first spot of a key.
func (r *recent) firstSpotOf(h hash) int { return int(h[0]) & (len(r.spots) - 1) &^ (spotsInSet - 1) }

// findSpot returns the index of a key's spot, or -1.
func (r *recent) findSpot(h hash) int {
	if len(r.spots) == 0 {
		return -1
	}
	first := r.firstSpotOf(h)
	for i := first; i < first+spotsInSet; i++ {
		if r.tags[i] == h[0] && r.spots[i].h == h && r.spots[i].revision != 0 {
			return i
		}
	}
	return -1
}

// prefetchTags reads the tags of a key's set. The value means nothing.
func (r *recent) prefetchTags(h hash) uint64 {
	if len(r.tags) == 0 {
		return 0
	}
	return r.tags[r.firstSpotOf(h)]
}

func (r *recent) recentPlace(h hash) (p place, ok bool) {
	i := r.findSpot(h)
	if i < 0 {
		return p, false
	}
	s := &r.spots[i]
	return place{exists: true, bucket: s.bucket, visible: s.visible, revision: s.revision, generation: s.generation,
		state: s.state, due: s.due,
		dueOnce: s.dueOnce, keyOnce: s.keyOnce}, true
}

// rememberBatch adds the changes of a batch.
func (r *recent) rememberBatch(t *touched) {
	for i := range t.list {
		e := &t.list[i]
		p := &e.place
		switch had := r.findSpot(e.h); {
		case p.exists && len(p.labels) == 0:
			if had < 0 {
				had = r.chooseVictim(e.h)
			}
			r.tags[had] = e.h[0]
			r.spots[had] = spot{e.h, p.visible, p.due, p.revision, p.generation, p.bucket, p.state, p.dueOnce, p.keyOnce}
		case had >= 0:
			r.tags[had], r.spots[had] = 0, spot{}
		}
	}
}

// chooseVictim returns the index of the spot for a new key.
func (r *recent) chooseVictim(h hash) int {
	if r.added++; len(r.spots) < r.most && 2*r.added > len(r.spots) {
		r.growSpots()
	}
	first := r.firstSpotOf(h)
	for i := first; i < first+spotsInSet; i++ {
		if r.tags[i] == 0 {
			return i
		}
	}
	oldest := first
	for i := first + 1; i < first+spotsInSet; i++ {
		if r.spots[i].revision < r.spots[oldest].revision {
			oldest = i
		}
	}
	return oldest
}

// growSpots doubles the number of spots, so that few rows take little memory.
func (r *recent) growSpots() {
	old := r.spots
	r.spots, r.added = make([]spot, max(2*len(old), min(recentFirst, r.most))), 0
	r.tags = make([]uint64, len(r.spots))
	for i := range old {
		if s := &old[i]; s.revision != 0 {
			to := r.chooseVictim(s.h)
			r.tags[to], r.spots[to] = s.h[0], *s
		}
	}
}
