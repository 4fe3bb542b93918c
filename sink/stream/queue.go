package stream

import "strings"

// queue holds items in order of arrival. Each has a fixed position, so a reader can continue where it
// stopped; a removed item leaves a gap until everything before it is removed as well.
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

// from returns the first position for a reader that has seen everything before seen, and the position after
// the last.
func (q *queue) from(seen uint64) (at, last uint64) {
	return max(seen, q.base+uint64(q.head)), q.base + uint64(len(q.items))
}

// at returns the item at a position; a removed item is zero.
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

// keepItems is the capacity that an empty queue keeps.
const keepItems = 1024

// clone copies the strings, which may be parts of a timer's row.
func (k channelKey) clone() channelKey {
	return channelKey{strings.Clone(k.namespace), strings.Clone(k.name)}
}
