package stream

import (
	"math/rand/v2"
	"time"
)

// slots are a subscriber's unsettled fires by tag. A tag is a number that grows with each fire of a stream, and the place of
// the fire in a table, so that finding one is an index and no search. The number begins at random: a tag of one stream is almost
// surely none of another, so a client that mixes them up is told and settles nothing that it did not get.
type slots struct {
	table    []slot
	free     int32 // the first free place; 0 is the end of the list, so it counts from 1
	live     int
	first    uint64        // number of the first tag
	number   uint64        // of the last tag
	earliest time.Duration // no deadline is earlier
}

type slot struct {
	tag      uint64 // 0: free
	item     item
	next     int32         // of a free place: the next one
	deadline time.Duration // when the fire has failed
	latest   time.Duration // where extensions end
	sent     time.Duration // when it was given to the subscriber
}

func newSlots() slots {
	first := rand.Uint64N(1<<32) + 1<<32
	return slots{first: first, number: first - 1, earliest: never}
}

// take makes a tag for a fire.
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

// find returns the slot of a tag. One that was given once and has ended is nil and known; any other is not known.
func (t *slots) find(tag uint64) (s *slot, known bool) {
	if at := tag & (1<<tagSlotBits - 1); at < uint64(len(t.table)) && tag != 0 && t.table[at].tag == tag {
		return &t.table[at], true
	}
	n := tag >> tagSlotBits
	return nil, t.first <= n && n <= t.number
}

// release ends a tag and returns its fire.
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
