package hub

import (
	"cmp"
	"iter"
	"slices"
)

// gate limits how many items of a channel, or of those in it with one name, are with subscribers. It exists
// as long as a subscriber names it.
type gate[K comparable, S, T any] struct {
	limit int // of all members together, from the last subscriber that named it
	used  int
	users int           // subscribers that name it
	line  List[K, S, T] // items that wait for it, if it has a name
}

// GateKey names a gate of a channel: the one of all its items, or one of those with a name.
type GateKey struct {
	Named bool
	Name  string
}

// share is a member's part of each limit. The first members get the remainder, and each has at least 1.
type share struct{ index, of int }

func (s share) ownLimit(all int) int {
	n := all / s.of
	if s.index < all%s.of {
		n++
	}
	return max(n, 1)
}

// Share sets this member's index and the number of members that share each limit.
func (h *Hub[K, S, T]) Share(index, of int) {
	h.Lock()
	h.share = share{max(index, 0), max(of, 1)}
	for sub := range h.subs {
		h.Free(sub)
	}
	h.Unlock()
}

// Limit adds the gates that a subscriber names to a channel. Locked.
func (h *Hub[K, S, T]) Limit(c *Channel[K, S, T], limits map[GateKey]int) {
	for key, n := range limits {
		g := c.findGate(key)
		if g == nil {
			if g = new(gate[K, S, T]); !key.Named {
				c.all = g
			} else {
				if c.gates == nil {
					c.gates = map[string]*gate[K, S, T]{}
				}
				c.gates[key.Name] = g
			}
		}
		g.limit = n
		g.users++
	}
	h.sortWaiting(c)
}

// Unlimit removes the gates of a subscriber that has gone. Locked.
func (h *Hub[K, S, T]) Unlimit(c *Channel[K, S, T], limits map[GateKey]int) {
	var ended []*gate[K, S, T]
	for key := range limits {
		g := c.findGate(key)
		if g == nil {
			continue
		}
		if g.users--; g.users > 0 {
			continue
		}
		if ended = append(ended, g); key.Named {
			delete(c.gates, key.Name)
		} else {
			c.all = nil
		}
	}
	h.sortWaiting(c, ended...)
	h.quiet = append(h.quiet, c)
}

// findGate returns a gate, or nil.
func (c *Channel[K, S, T]) findGate(key GateKey) *gate[K, S, T] {
	if key.Named {
		return c.gates[key.Name]
	}
	return c.all
}

// itemGate returns the gate with the item's name, or nil.
func (h *Hub[K, S, T]) itemGate(it *Item[K, S, T]) *gate[K, S, T] {
	if h.opts.Gate == nil || len(it.channel.gates) == 0 {
		return nil
	}
	if name, ok := h.opts.Gate(it); ok {
		return it.channel.gates[name]
	}
	return nil
}

// gateLine returns the list in which items of a gate wait, so that they do not delay others.
func (c *Channel[K, S, T]) gateLine(g *gate[K, S, T]) *List[K, S, T] {
	if g != nil {
		return &g.line
	}
	return &c.line
}

// hasRoom reports whether an item may pass a gate, or no gate, now.
func (g *gate[K, S, T]) hasRoom(s share) bool { return g == nil || g.used < s.ownLimit(g.limit) }

// areGatesOpen reports whether items of a gate, or without one, may pass now.
func (c *Channel[K, S, T]) areGatesOpen(s share, g *gate[K, S, T]) bool {
	return c.all.hasRoom(s) && g.hasRoom(s)
}

// firstPassable returns the item with the lowest turn among those whose gates are open.
func (c *Channel[K, S, T]) firstPassable(s share) *Item[K, S, T] {
	if !c.all.hasRoom(s) {
		return nil
	}
	first := c.line.head
	for _, g := range c.gates {
		if it := g.line.head; it != nil && (first == nil || it.turn < first.turn) && g.hasRoom(s) {
			first = it
		}
	}
	return first
}

// sortWaiting moves all waiting items to their current lines in order, after gates were added or removed.
func (h *Hub[K, S, T]) sortWaiting(c *Channel[K, S, T], ended ...*gate[K, S, T]) {
	all := slices.Collect(c.AllWaiting())
	for _, g := range ended {
		all = slices.AppendSeq(all, g.line.All())
	}
	slices.SortFunc(all, func(a, b *Item[K, S, T]) int { return cmp.Compare(a.turn, b.turn) })
	for _, it := range all {
		it.list.removeItem(it)
		c.gateLine(h.itemGate(it)).insertItem(it, nil)
	}
	for _, sub := range c.Subs {
		h.Free(sub)
	}
}

// enterGates takes a place in the gates of an item.
func (it *Item[K, S, T]) enterGates(own *gate[K, S, T]) {
	all := it.channel.all
	if all == nil && own == nil {
		return
	}
	it.gates = [2]*gate[K, S, T]{all, own}
	for _, g := range it.gates {
		if g != nil {
			g.used++
		}
	}
}

func (it *Item[K, S, T]) leaveGates() {
	if it.gates == [2]*gate[K, S, T]{} {
		return
	}
	for _, g := range it.gates {
		if g != nil {
			g.used--
		}
	}
	it.gates = [2]*gate[K, S, T]{}
}

// Blocked returns the gate that a waiting item waits for. Locked.
func (h *Hub[K, S, T]) Blocked(it *Item[K, S, T]) (key GateKey, is bool) {
	if h.opts.Gate == nil || !it.Waiting() {
		return key, false
	}
	if !it.channel.all.hasRoom(h.share) {
		return key, true
	}
	if g := h.itemGate(it); !g.hasRoom(h.share) {
		name, _ := h.opts.Gate(it)
		return GateKey{true, name}, true
	}
	return key, false
}

// GateLoad is the state of a gate.
type GateLoad struct{ Used, Waiting int }

// Gates returns the gates of a channel. A waiting item counts once: for the limit of all items if one is set,
// otherwise for the limit of its name. Locked.
func (c *Channel[K, S, T]) Gates() iter.Seq2[GateKey, GateLoad] {
	return func(yield func(GateKey, GateLoad) bool) {
		if c.all != nil && !yield(GateKey{}, GateLoad{c.all.used, c.waiting}) {
			return
		}
		for name, g := range c.gates {
			load := GateLoad{Used: g.used}
			if c.all == nil {
				load.Waiting = g.line.n
			}
			if !yield(GateKey{true, name}, load) {
				return
			}
		}
	}
}
