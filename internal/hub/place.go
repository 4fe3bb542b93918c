package hub

import (
	"iter"
	"time"

	"github.com/rousehq/rouse"
)

// Take places the items of a delivery. The caller has to call the returned function, which returns when
// nothing of the delivery's context is outstanding, if it is the first of that context.
func (h *Hub[K, S, T]) Take(d *Delivery[K, S, T]) (stay func()) {
	h.Lock()
	defer h.Unlock()
	n := 0
	for i := range d.Items {
		if !d.Items[i].over {
			n++
		}
	}
	if n == 0 {
		return func() {}
	}
	ending := h.draining || d.ctx.Err() != nil
	var first bool
	if !ending {
		d.watch, first = h.addToWatch(d.ctx, n)
	}
	w := d.watch
	var c *Channel[K, S, T]
	for i := range d.Items {
		it := &d.Items[i]
		switch {
		case it.over:
		case ending:
			h.Report(it, Stopping)
		default:
			key := d.Key
			if h.opts.Key != nil {
				key = h.opts.Key(it)
			}
			if c == nil || c.Key != key {
				c = h.Channel(key)
			}
			h.addArrival(c, it)
		}
	}
	if !first {
		return func() {}
	}
	return func() { h.watchDeadlines(w) }
}

// Lend places an item that a door has from elsewhere: no context ends it. Locked.
func (h *Hub[K, S, T]) Lend(key K, it *Item[K, S, T]) { h.addArrival(h.Channel(key), it) }

func (h *Hub[K, S, T]) addArrival(c *Channel[K, S, T], it *Item[K, S, T]) {
	it.channel = c
	c.held++
	h.held++
	if h.names != nil {
		name := it.Fire().Name
		it.namesake, h.names[name] = h.names[name], it
	}
	if most := h.opts.MaxHeld; most > 0 && h.held > most && c.held > channelLimit(most) {
		h.opts.Refused(it)
		after := PutOff(h.opts.Now().Sub(it.Fire().Due), mostPutOff)
		h.Report(it, rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: after,
			Detail: "too many wait"})
		return
	}
	h.opts.Arrive(it)
}

// channelLimit is how many items a channel may have when there are too many in all.
func channelLimit(most int) int { return min(max(most/8, 1), 1024) }

const mostPutOff = 30 * time.Second

// PutOff is how long a fire is deferred that cannot be taken now: the later it is already, the longer.
func PutOff(late, most time.Duration) time.Duration { return min(max(late/2, time.Second), most) }

// Stopping is the outcome of fires at shutdown: due soon at another node, or after the next start.
var Stopping = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseServerDown, After: time.Second,
	Detail: "the service is stopping"}

// Offer gives an item to a ready subscriber, or makes it wait. Locked.
func (h *Hub[K, S, T]) Offer(it *Item[K, S, T]) {
	c := it.channel
	if !c.full && h.opts.Ready != nil && c.areGatesOpen(h.share, h.itemGate(it)) {
		sub, ready := h.Pick(it)
		if sub != nil {
			h.Assign(sub, it, false)
			return
		}
		c.full = !ready
	}
	h.Await(it, false)
}

// Await makes an item wait in its channel, behind all others or in front of them. Locked.
func (h *Hub[K, S, T]) Await(it *Item[K, S, T], front bool) {
	h.Detach(it)
	c := it.channel
	if front {
		c.front--
		it.turn = c.front
	} else {
		c.back++
		it.turn = c.back
	}
	it.until = Never
	if h.opts.Until != nil {
		it.until = h.opts.Until(it)
		h.Sooner(it.until)
	}
	c.waiting++
	l := c.gateLine(h.itemGate(it))
	if front {
		l.insertItem(it, l.head)
	} else {
		l.insertItem(it, nil)
	}
}

// Pick returns the next subscriber in turn that is ready and whose filter the item passes. Without one, it
// reports whether any was ready. Locked.
func (h *Hub[K, S, T]) Pick(it *Item[K, S, T]) (sub *Sub[K, S, T], ready bool) {
	c := it.channel
	for k := range c.Subs {
		n := c.turn + k
		if n >= len(c.Subs) {
			n -= len(c.Subs)
		}
		sub := c.Subs[n]
		if h.opts.Ready != nil && !h.opts.Ready(sub, it) {
			continue
		}
		ready = true
		if h.opts.Wants == nil || h.opts.Wants(sub, it) {
			if c.turn = n + 1; c.turn == len(c.Subs) {
				c.turn = 0
			}
			return sub, true
		}
	}
	return nil, ready
}

// Feed passes waiting items to a subscriber that has room, and, if places in gates may have become free, to
// others. Locked.
func (h *Hub[K, S, T]) Feed(sub *Sub[K, S, T]) {
	for _, c := range sub.channels {
		c.full = false
		switch {
		case c.waiting == 0 || h.opts.Ready == nil:
		case h.opts.Wants == nil:
			h.assignWaiting(c)
		case !sub.gone:
			h.assignMatching(c, sub)
		}
	}
}

// assignWaiting passes waiting items to subscribers in turn.
func (h *Hub[K, S, T]) assignWaiting(c *Channel[K, S, T]) {
	for c.waiting > 0 && len(c.Subs) > 0 {
		it := c.firstPassable(h.share)
		if it == nil {
			return
		}
		sub, _ := h.Pick(it)
		if sub == nil {
			return
		}
		h.Assign(sub, it, false)
	}
}

// assignMatching assigns waiting items that pass a subscriber's filter. It skips the items that the
// subscriber has seen before.
func (h *Hub[K, S, T]) assignMatching(c *Channel[K, S, T], sub *Sub[K, S, T]) {
	it := c.line.head
	if sub.seen != nil {
		it = sub.seen.next
	}
	for it != nil {
		next := it.next
		switch {
		case !h.opts.Wants(sub, it):
			sub.moveSeen(it)
		case h.opts.Ready(sub, it):
			h.Assign(sub, it, false)
		default:
			return
		}
		it = next
	}
}

// moveSeen moves the position of a subscriber in the line of its channel.
func (sub *Sub[K, S, T]) moveSeen(it *Item[K, S, T]) {
	if sub.seen != nil {
		sub.seen.readers--
	}
	if sub.seen = it; it != nil {
		it.readers++
	}
}

// moveSeenBefore moves the positions of subscribers away from an item that leaves the line.
func (c *Channel[K, S, T]) moveSeenBefore(it *Item[K, S, T]) {
	for _, sub := range c.Subs {
		if sub.seen == it {
			sub.moveSeen(it.prev)
		}
	}
}

// Assign assigns an item to a subscriber, before or after the items that were not sent yet; a suspect that
// the subscriber cannot have now is deferred. Locked.
func (h *Hub[K, S, T]) Assign(sub *Sub[K, S, T], it *Item[K, S, T], front bool) {
	gate := h.itemGate(it)
	h.Detach(it)
	if it.isSuspect() {
		if sub.suspect != nil {
			h.Report(it, h.deferSuspect(it))
			return
		}
		sub.suspect = it
	}
	it.sub, it.until = sub, Never
	it.enterGates(gate)
	before := sub.next
	if !front {
		before = nil
	}
	if sub.held.insertItem(it, before); it.next == sub.next {
		sub.next = it
	}
	h.opts.Assigned(sub, it)
	if sub.Unsent() == 1 {
		sub.Wake()
	}
}

// Aside puts an item in a list of the hub's that no subscriber takes from. Locked.
func (h *Hub[K, S, T]) Aside(it *Item[K, S, T]) {
	h.Detach(it)
	it.until = Never
	h.aside.insertItem(it, nil)
}

// AllAside returns the items that were put aside. Locked; the current one may be reported.
func (h *Hub[K, S, T]) AllAside() iter.Seq[*Item[K, S, T]] { return h.aside.All() }

// Detach takes an item from the place where it is. Locked.
func (h *Hub[K, S, T]) Detach(it *Item[K, S, T]) {
	if sub := it.sub; sub != nil {
		h.opts.Back(sub, it)
		if sub.suspect == it {
			sub.suspect = nil
		}
		it.leaveGates()
		h.Free(sub)
		if it.sent {
			it.sent = false
			sub.sent--
		} else if it == sub.next {
			sub.next = it.next
		}
	} else if it.Waiting() {
		it.channel.waiting--
	} else if it.Aside() {
		h.opts.Back(nil, it)
	}
	if it.list != nil {
		it.list.removeItem(it)
	}
	it.sub, it.turn = nil, 0
}

// Report ends an item with an outcome, wherever it is. Locked.
func (h *Hub[K, S, T]) Report(it *Item[K, S, T], o rouse.Outcome) {
	h.Detach(it)
	it.over = true
	if c := it.channel; c != nil {
		h.removeName(it)
		h.held--
		if c.held--; len(c.Subs) == 0 {
			h.quiet = append(h.quiet, c)
		}
	}
	if w := it.d.watch; w != nil {
		w.countReported()
	}
	if h.out == nil {
		h.out = h.lists.Get().(*[]report[K, S, T])
	}
	*h.out = append(*h.out, report[K, S, T]{it.d, it.i, o})
}

func (h *Hub[K, S, T]) removeName(it *Item[K, S, T]) {
	if h.names == nil {
		return
	}
	next := it.namesake
	it.namesake = nil
	name := it.Fire().Name
	other := h.names[name]
	switch {
	case other != it:
		for other.namesake != it {
			other = other.namesake
		}
		other.namesake = next
	case next != nil:
		h.names[name] = next
	default:
		delete(h.names, name)
	}
}

// Named returns the items of a timer: mostly one, but more if it was replaced while one was here. Locked; the
// current one may be reported.
func (h *Hub[K, S, T]) Named(name string) iter.Seq[*Item[K, S, T]] {
	return func(yield func(*Item[K, S, T]) bool) {
		for it := h.names[name]; it != nil; {
			next := it.namesake
			if !yield(it) {
				return
			}
			it = next
		}
	}
}
