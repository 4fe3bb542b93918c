package pebble

import (
	"hash/maphash"

	"github.com/rousehq/rouse"
)

// recent remembers the places of rows that were written lately, so that a timer that fires soon after it was made, and one
// that is settled and comes again, cost no look-up in the tree. The store has one writer, so what is remembered is what is
// there. It has two generations of a bounded size; the older is forgotten as a whole.
//
// Keys are kept as two hashes of 64 bits each, under secret seeds: nothing in here holds on to the memory of rows, and the
// garbage collector has nothing to look at. Rows with labels are not remembered: their places do not fit.
type recent struct {
	most       int // spots in a generation
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

// recentMost bounds a generation; a spot takes about 80 bytes.
const recentMost = 128 << 10

func (r *recent) init() {
	*r = recent{most: recentMost, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, young: map[[2]uint64]spot{}}
}

// hash returns what stands for a key.
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

// take remembers what a batch wrote.
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
