package stream

import "math/rand/v2"

// slots are the fires that a subscriber was sent, by tag. A tag combines a number that grows with each fire
// of a stream with the index of the fire in a table, so it is found without a search. The number begins at
// random: a tag of one stream is almost certainly invalid in another, so a client that mixes them up gets an
// error and settles nothing of others.
type slots struct {
	table  []slot
	free   int32  // index of the first free place, from 1; 0: none
	first  uint64 // number of the first tag
	number uint64 // of the last tag
}

type slot struct {
	tag  uint64 // 0: free
	item *item
	next int32 // of a free place: the next free one
}

func newSlots() slots {
	first := rand.Uint64N(1<<32) + 1<<32
	return slots{first: first, number: first - 1}
}

// createTag creates a tag for a fire.
func (t *slots) createTag(it *item) uint64 {
	at := t.free - 1
	if at >= 0 {
		t.free = t.table[at].next
	} else {
		at = int32(len(t.table))
		t.table = append(t.table, slot{})
	}
	t.number++
	tag := t.number<<tagSlotBits | uint64(at)
	t.table[at] = slot{tag: tag, item: it}
	return tag
}

// findTag returns the fire of a tag. For a tag whose fire has ended, it is nil and known is true.
func (t *slots) findTag(tag uint64) (it *item, known bool) {
	if at := tag & (1<<tagSlotBits - 1); at < uint64(len(t.table)) && tag != 0 && t.table[at].tag == tag {
		return t.table[at].item, true
	}
	n := tag >> tagSlotBits
	return nil, t.first <= n && n <= t.number
}

// freeTag frees a tag that findTag finds.
func (t *slots) freeTag(tag uint64) {
	at := int32(tag & (1<<tagSlotBits - 1))
	t.table[at] = slot{next: t.free}
	t.free = at + 1
}
