package pebble

import (
	"hash/maphash"

	"github.com/rousehq/rouse"
)

// recent caches the places of recently written rows, so that timers that fire soon after they were created,
// or fire repeatedly, need no lookup in the tree. The store has one writer, so the cache is always correct.
// It has two generations of limited size; the older one is dropped as a whole.
//
// Keys are stored as two hashes of 64 bits each, with secret seeds: the cache does not keep the memory of
// rows alive, and contains no pointers for the garbage collector. Rows with labels are not cached: their
// places do not fit.
type recent struct {
	most       int // limit of spots in a generation
	seeds      [2]maphash.Seed
	young, old map[[2]uint64]spot
}

// spot is a place without labels.
type spot struct {
	visible    rouse.Instant
	due        rouse.Instant
	revision   uint64
	generation uint64
	bucket     uint32
	state      rouse.State
}

// recentMost limits a generation; a spot takes about 80 bytes.
const recentMost = 128 << 10

func (r *recent) init() {
	*r = recent{most: recentMost, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, young: map[[2]uint64]spot{}}
}

// hash returns the hashes of a key.
func (r *recent) hash(k rouse.Key) [2]uint64 {
	return [2]uint64{maphash.Comparable(r.seeds[0], k), maphash.Comparable(r.seeds[1], k)}
}

func (r *recent) get(k rouse.Key) (place, bool) {
	h := r.hash(k)
	s, ok := r.young[h]
	if !ok {
		s, ok = r.old[h]
	}
	return place{exists: ok, bucket: s.bucket, visible: s.visible, revision: s.revision, generation: s.generation, state: s.state, due: s.due}, ok
}

// take adds what a batch wrote.
func (r *recent) take(seen map[rouse.Key]place) {
	if len(r.young)+len(seen) > r.most {
		r.old, r.young = r.young, make(map[[2]uint64]spot, len(seen))
	}
	for k, p := range seen {
		h := r.hash(k)
		if p.exists && len(p.labels) == 0 {
			r.young[h] = spot{p.visible, p.due, p.revision, p.generation, p.bucket, p.state}
		} else {
			delete(r.young, h)
			delete(r.old, h)
		}
	}
}
