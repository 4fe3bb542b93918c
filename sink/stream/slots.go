package stream

import (
	"math/rand/v2"
	"time"
)

// slots are a subscriber's unsettled fires by tag. A tag combines a number that grows with each fire of a
// stream with the index of the fire in a table, so it is found without a search. The number begins at
// random: a tag of one stream is almost certainly invalid in another, so a client that mixes them up gets
// an error and settles nothing of others.
type slots struct {
	table    []slot
	free     int32 // index of the first free place, from 1; 0: none
	live     int
	first    uint64        // number of the first tag
	number   uint64        // of the last tag
	earliest time.Duration // lower bound of all deadlines
}

type slot struct {
	tag      uint64 // 0: free
	item     item
	next     int32         // of a free place: the next free one
	deadline time.Duration // when the fire fails
	latest   time.Duration // bound of extensions
	sent     time.Duration // when it was assigned to the subscriber
}

func newSlots() slots {
	first := rand.Uint64N(1<<32) + 1<<32
	return slots{first: first, number: first - 1, earliest: never}
}

// take creates a tag for a fire.
func (t *slots) take(it item, deadline, latest time.Duration) uint64 {
	at := t.free - 1
	if at >= 0 {
		t.free = t.table[at].next
	} else {
		at = int32(len(t.table))
		t.table = append(t.table, slot{})
	}
	t.number++
	t.live++
	t.earliest = min(t.earliest, deadline)
	tag := t.number<<tagSlotBits | uint64(at)
	t.table[at] = slot{tag: tag, item: it, deadline: deadline, latest: latest}
	return tag
}

// find returns the slot of a tag. For a tag whose fire has ended, s is nil and known is true.
func (t *slots) find(tag uint64) (s *slot, known bool) {
	if at := tag & (1<<tagSlotBits - 1); at < uint64(len(t.table)) && tag != 0 && t.table[at].tag == tag {
		return &t.table[at], true
	}
	n := tag >> tagSlotBits
	return nil, t.first <= n && n <= t.number
}

// release frees a tag and returns its fire.
func (t *slots) release(s *slot) item {
	it, at := s.item, int32(s.tag&(1<<tagSlotBits-1))
	*s = slot{next: t.free}
	t.free = at + 1
	t.live--
	return it
}

// each calls do for each unsettled fire; do may release it.
func (t *slots) each(do func(*slot)) {
	for i := range t.table {
		if s := &t.table[i]; s.tag != 0 {
			do(s)
		}
	}
}
