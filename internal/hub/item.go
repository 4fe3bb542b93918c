package hub

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
)

// Item is a fire that is not reported. It waits in its channel, is with a subscriber, sent or not, or is
// aside.
type Item[K comparable, S, T any] struct {
	Of T // the door's data about it

	d        *Delivery[K, S, T]
	i        int32
	readers  int32 // subscribers that have seen the list up to here
	over     bool  // reported
	sent     bool
	number   uint32 // which of its subscriber's sent items it is
	channel  *Channel[K, S, T]
	sub      *Sub[K, S, T]
	gates    [2]*gate[K, S, T] // those in which it takes a place
	namesake *Item[K, S, T]    // another item of the same timer

	list       *List[K, S, T]
	prev, next *Item[K, S, T]
	turn       uint64        // its place among the waiting items of its channel
	until      time.Duration // end of its wait or of its time with a subscriber
}

// Fire returns the fire.
func (it *Item[K, S, T]) Fire() *rouse.Fire { return &it.d.fires[it.i] }

// Came returns when the delivery came.
func (it *Item[K, S, T]) Came() time.Duration { return it.d.came }

// Context returns the context of the delivery.
func (it *Item[K, S, T]) Context() context.Context { return it.d.ctx }

// Channel returns the channel that the item belongs to.
func (it *Item[K, S, T]) Channel() *Channel[K, S, T] { return it.channel }

// Sub returns the subscriber that has the item, or nil.
func (it *Item[K, S, T]) Sub() *Sub[K, S, T] { return it.sub }

// Over reports whether the item was reported.
func (it *Item[K, S, T]) Over() bool { return it.over }

// Sent reports whether the item was sent to a subscriber that still has it.
func (it *Item[K, S, T]) Sent() bool { return it.sent }

// Waiting reports whether the item waits in its channel.
func (it *Item[K, S, T]) Waiting() bool { return it.sub == nil && it.list != nil && it.turn != 0 }

// Aside reports whether the item was put aside.
func (it *Item[K, S, T]) Aside() bool { return it.sub == nil && it.list != nil && it.turn == 0 }

// Until returns when the wait or the deadline of the item ends.
func (it *Item[K, S, T]) Until() time.Duration { return it.until }

// Delivery is the batch of one Deliver. Its fires are read until each is reported.
type Delivery[K comparable, S, T any] struct {
	Key   K               // of the channel, unless Options have Key
	Items []Item[K, S, T] // in the order of the fires

	ctx    context.Context
	fires  []rouse.Fire
	settle func(i int, o rouse.Outcome)
	came   time.Duration
	watch  *watch
	left   atomic.Int32 // items whose reports were not made
}

// NewDelivery returns a delivery for Take.
func (h *Hub[K, S, T]) NewDelivery(ctx context.Context, fires []rouse.Fire,
	settle func(i int, o rouse.Outcome)) *Delivery[K, S, T] {
	d, _ := h.deliveries.Get().(*Delivery[K, S, T])
	if d == nil {
		d = new(Delivery[K, S, T])
	}
	d.ctx, d.fires, d.settle, d.came = ctx, fires, settle, h.Now()
	d.left.Store(int32(len(fires)))
	if cap(d.Items) >= len(fires) {
		d.Items = d.Items[:len(fires)]
		return d
	}
	d.Items = make([]Item[K, S, T], len(fires))
	for i := range d.Items {
		d.Items[i].d, d.Items[i].i = d, int32(i)
	}
	return d
}

// Reject reports an item before Take.
func (h *Hub[K, S, T]) Reject(it *Item[K, S, T], o rouse.Outcome) {
	it.over = true
	it.d.left.Add(-1)
	it.d.settle(int(it.i), o)
}

// report is an outcome that is not reported yet. Reports are collected under the mutex and made without it.
type report[K comparable, S, T any] struct {
	d *Delivery[K, S, T]
	i int32
	o rouse.Outcome
}

// makeReports makes reports.
func (h *Hub[K, S, T]) makeReports(out *[]report[K, S, T]) {
	n := int32(0)
	for i := range *out {
		r := &(*out)[i]
		r.d.settle(int(r.i), r.o)
		if n++; i+1 == len(*out) || (*out)[i+1].d != r.d {
			h.countReports(r.d, n)
			n = 0
		}
	}
	clear(*out)
	*out = (*out)[:0]
	h.lists.Put(out)
}

// countReports counts reports of a delivery. After the last one its memory is free.
func (h *Hub[K, S, T]) countReports(d *Delivery[K, S, T], n int32) {
	if d.left.Add(-n) > 0 || !h.opts.Reuse {
		return
	}
	var of T
	for i := range d.Items { // all else was reset when they were reported
		it := &d.Items[i]
		it.Of, it.channel, it.over = of, nil, false
	}
	var key K
	d.Key, d.ctx, d.fires, d.settle, d.watch = key, nil, nil, nil, nil
	h.deliveries.Put(d)
}

// List is a list of items in order. An item is in one list at most.
type List[K comparable, S, T any] struct {
	head, tail *Item[K, S, T]
	n          int
	earliest   time.Duration // lower bound of the items' deadlines, if there are any
	unsorted   bool          // the deadlines are not in the order of the items
}

// Len returns the number of items.
func (l *List[K, S, T]) Len() int { return l.n }

// All returns the items in order. The current one may be removed from the list.
func (l *List[K, S, T]) All() iter.Seq[*Item[K, S, T]] { return itemsFrom(l.head) }

// itemsFrom returns an item and those after it.
func itemsFrom[K comparable, S, T any](it *Item[K, S, T]) iter.Seq[*Item[K, S, T]] {
	return func(yield func(*Item[K, S, T]) bool) {
		for it := it; it != nil; {
			next := it.next
			if !yield(it) {
				return
			}
			it = next
		}
	}
}

// insertItem inserts an item before another one, or at the end.
func (l *List[K, S, T]) insertItem(it, before *Item[K, S, T]) {
	if l.n == 0 {
		l.earliest, l.unsorted = it.until, false
	}
	l.earliest = min(l.earliest, it.until)
	it.list, it.next = l, before
	l.n++
	if before != nil {
		it.prev, before.prev = before.prev, it
		l.unsorted = l.unsorted || it.until > before.until
	} else {
		it.prev, l.tail = l.tail, it
	}
	if it.prev != nil {
		it.prev.next = it
		l.unsorted = l.unsorted || it.until < it.prev.until
	} else {
		l.head = it
	}
}

func (l *List[K, S, T]) removeItem(it *Item[K, S, T]) {
	if it.readers > 0 {
		it.channel.moveSeenBefore(it)
	}
	l.n--
	if it.prev != nil {
		it.prev.next = it.next
	} else {
		l.head = it.next
	}
	if it.next != nil {
		it.next.prev = it.prev
	} else {
		l.tail = it.prev
	}
	it.list, it.prev, it.next = nil, nil, nil
}

// expireItems calls do for each item whose time is over by now; do removes it. It returns the next such time.
func (l *List[K, S, T]) expireItems(now time.Duration, do func(*Item[K, S, T])) time.Duration {
	if l.n == 0 {
		return Never
	}
	if l.earliest > now {
		return l.earliest
	}
	next := Never
	for it := range l.All() {
		if it.until <= now {
			do(it)
			continue
		}
		if next = min(next, it.until); !l.unsorted {
			break
		}
	}
	l.earliest = next
	return next
}
