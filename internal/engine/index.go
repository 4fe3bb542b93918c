package engine

import (
	"hash/maphash"
	"iter"

	"github.com/rousehq/rouse"
)

// index has the rows in memory by their keys. Unlike a map it finds an entry to remove without looking at its
// key, whose texts are in no cache of the CPU, and it needs a third of the memory.
type index struct {
	seed  maphash.Seed
	slots []slot // open addressing: a power of two, of which up to three quarters are in use
	n     int
}

// slot is an entry and the hash of its key; a free one has no entry.
type slot struct {
	hash  uint64
	entry *entry
}

const leastSlots = 64

func newIndex() index { return index{seed: maphash.MakeSeed()} }

func (x *index) len() int { return x.n }

// hashKey returns the hash of a key. Its seed is secret, so keys that collide cannot be made on purpose.
func (x *index) hashKey(k *rouse.Key) uint64 {
	h := maphash.String(x.seed, k.Name)
	if k.Fire != "" {
		h = h<<1 ^ maphash.String(x.seed, k.Fire)
	}
	return h<<1 ^ maphash.String(x.seed, k.Namespace)
}

// prefetchSlot reads where the search for a hash begins. The value means nothing.
func (x *index) prefetchSlot(hash uint64) uint64 {
	if len(x.slots) == 0 {
		return 0
	}
	return x.slots[hash&uint64(len(x.slots)-1)].hash
}

// entryByKey returns the entry of a key, or nil.
func (x *index) entryByKey(k rouse.Key) *entry { return x.findHashed(&k, x.hashKey(&k)) }

// findHashed is entryByKey with the hash of the key.
func (x *index) findHashed(k *rouse.Key, hash uint64) *entry {
	if x.n == 0 {
		return nil
	}
	mask := uint64(len(x.slots) - 1)
	for i := hash; ; i++ {
		switch s := &x.slots[i&mask]; {
		case s.entry == nil:
			return nil
		case s.hash == hash && s.entry.row.Key == *k:
			return s.entry
		}
	}
}

// addEntry adds an entry whose key has none. The entry has the hash of the key.
func (x *index) addEntry(en *entry) {
	if 4*(x.n+1) > 3*len(x.slots) {
		old := x.slots
		x.slots = make([]slot, max(leastSlots, 2*len(old)))
		for i := range old {
			if old[i].entry != nil {
				x.putSlot(old[i])
			}
		}
	}
	x.putSlot(slot{en.hash, en})
	x.n++
}

func (x *index) putSlot(s slot) {
	mask := uint64(len(x.slots) - 1)
	i := s.hash
	for x.slots[i&mask].entry != nil {
		i++
	}
	x.slots[i&mask] = s
}

// removeEntry removes an entry.
func (x *index) removeEntry(en *entry) {
	mask := uint64(len(x.slots) - 1)
	free := en.hash
	for x.slots[free&mask].entry != en {
		free++
	}
	for i := free + 1; ; i++ { // a following entry moves up, unless it is between its place and the free slot
		s := x.slots[i&mask]
		if s.entry == nil {
			break
		}
		if (i-s.hash)&mask >= (i-free)&mask {
			x.slots[free&mask], free = s, i
		}
	}
	x.slots[free&mask] = slot{}
	if x.n--; x.n == 0 {
		x.slots = nil // so that a burst does not leave a large one
	}
}

// allEntries returns the entries, in no order. The one that was returned last may be removed.
func (x *index) allEntries() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for i := 0; i < len(x.slots); {
			en := x.slots[i].entry
			if en != nil && !yield(en) {
				return
			}
			if i < len(x.slots) && x.slots[i].entry == en { // otherwise another one has moved up
				i++
			}
		}
	}
}
