package stream

import "strings"

// queue holds items in the order in which they came. Each has a position that never changes, so a reader can go on where it
// stopped; removed items leave a gap until everything before them is gone as well.
type queue struct {
	items []item
	head  int    // the first that is not removed, if any is live
	base  uint64 // the position of items[0]
	live  int
}

func (q *queue) push(items ...item) {
	q.items = append(q.items, items...)
	q.live += len(items)
}

// from returns the first position to look at for who has seen all before the given one, and the position after the last.
func (q *queue) from(seen uint64) (at, last uint64) {
	return max(seen, q.base+uint64(q.head)), q.base + uint64(len(q.items))
}

// at returns the item at a position; a zero item has been removed.
func (q *queue) at(position uint64) item {
	if position < q.base+uint64(q.head) {
		return item{}
	}
	return q.items[position-q.base]
}

// remove removes the item at a position. Positions of other items stay valid.
func (q *queue) remove(position uint64) {
	q.items[position-q.base] = item{}
	q.live--
	for q.head < len(q.items) && q.items[q.head].d == nil {
		q.head++
	}
	switch {
	case q.live == 0:
		q.base += uint64(len(q.items))
		q.items, q.head = q.items[:0], 0
		if cap(q.items) > keepItems {
			q.items = nil
		}
	case q.head > keepItems && q.head > len(q.items)/2:
		q.base += uint64(q.head)
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
}

// keepItems is how many places an empty queue keeps.
const keepItems = 1024

// clone lets go of the row that a name may be a part of.
func (k channelKey) clone() channelKey {
	return channelKey{strings.Clone(k.namespace), strings.Clone(k.name)}
}
