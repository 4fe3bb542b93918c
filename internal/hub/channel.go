package hub

import (
	"iter"
	"maps"
	"slices"
)

// Channel connects the items with one key with the subscribers that take them.
type Channel[K comparable, S, T any] struct {
	Key  K
	Subs []*Sub[K, S, T]

	turn    int           // index of the next subscriber in turn
	full    bool          // no subscriber was ready when an item came last
	held    int           // items of the channel, wherever they are
	waiting int           // of these, items in its lines
	line    List[K, S, T] // waiting items, except those with gates of their own
	all     *gate[K, S, T]
	gates   map[string]*gate[K, S, T]
	back    uint64 // the last turn given at the back
	front   uint64 // the last turn given at the front
}

// middle is the first turn; there is as much space before it as after it.
const middle = 1 << 63

// Held returns the number of items of the channel, and Waiting how many of them wait in it.
func (c *Channel[K, S, T]) Held() int    { return c.held }
func (c *Channel[K, S, T]) Waiting() int { return c.waiting }

// Channel returns a channel, which it creates if necessary. Locked.
func (h *Hub[K, S, T]) Channel(key K) *Channel[K, S, T] {
	c := h.channels[key]
	if c == nil {
		c = &Channel[K, S, T]{Key: h.opts.Clone(key), back: middle, front: middle}
		h.channels[c.Key] = c
		h.quiet = append(h.quiet, c)
	}
	return c
}

// Find returns a channel, or nil. Locked.
func (h *Hub[K, S, T]) Find(key K) *Channel[K, S, T] { return h.channels[key] }

// Channels returns all channels. Locked.
func (h *Hub[K, S, T]) Channels() iter.Seq2[K, *Channel[K, S, T]] { return maps.All(h.channels) }

func (c *Channel[K, S, T]) isUnused() bool {
	return len(c.Subs) == 0 && c.held == 0 && c.all == nil && len(c.gates) == 0
}

// Items returns all items. Locked; the current one may be reported or moved, and one that is moved may be
// returned again.
func (h *Hub[K, S, T]) Items() iter.Seq[*Item[K, S, T]] { return itemsOfLists(h.allLists()) }

// AllWaiting returns the items that wait in a channel. Locked; the current one may be reported.
func (c *Channel[K, S, T]) AllWaiting() iter.Seq[*Item[K, S, T]] {
	return itemsOfLists(c.waitingLists())
}

// itemsOfLists returns the items of lists.
func itemsOfLists[K comparable, S, T any](lists iter.Seq[*List[K, S, T]]) iter.Seq[*Item[K, S, T]] {
	return func(yield func(*Item[K, S, T]) bool) {
		for l := range lists {
			for it := range l.All() {
				if !yield(it) {
					return
				}
			}
		}
	}
}

// allLists returns all lists.
func (h *Hub[K, S, T]) allLists() iter.Seq[*List[K, S, T]] {
	return func(yield func(*List[K, S, T]) bool) {
		for _, c := range h.channels {
			for l := range c.waitingLists() {
				if !yield(l) {
					return
				}
			}
		}
		for sub := range h.subs {
			if !yield(&sub.held) {
				return
			}
		}
		yield(&h.aside)
	}
}

// waitingLists returns the lists of the waiting items.
func (c *Channel[K, S, T]) waitingLists() iter.Seq[*List[K, S, T]] {
	return func(yield func(*List[K, S, T]) bool) {
		if !yield(&c.line) {
			return
		}
		for _, g := range c.gates {
			if !yield(&g.line) {
				return
			}
		}
	}
}

// removeSub removes a subscriber from the channel.
func (c *Channel[K, S, T]) removeSub(sub *Sub[K, S, T]) {
	n := slices.Index(c.Subs, sub)
	if n < 0 {
		return
	}
	c.Subs = slices.Delete(c.Subs, n, n+1)
	if c.turn > n {
		c.turn--
	}
	if c.turn >= len(c.Subs) {
		c.turn = 0
	}
}
