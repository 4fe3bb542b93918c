package client

import (
	"cmp"
	"maps"
	"slices"
	"time"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/notify"
)

// several reports whether there is, or may be, another stream.
func (f *follow) several() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.links) > 1
}

// elsewhere reports whether any stream is open.
func (f *follow) elsewhere() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.links {
		if l.standing {
			return true
		}
	}
	return false
}

// holder returns the link whose stream is on a node. The mutex is held.
func (f *follow) holder(node string) *link {
	for _, l := range f.links {
		if l.standing && l.node == node && node != "" {
			return l
		}
	}
	return nil
}

// stands notes that a link's stream is open, unless another link's stream is on the node.
func (f *follow) stands(l *link, node string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.node = node
	l.standing = f.links[l.address] == l && f.holder(node) == nil // not if it ended in the meantime
	f.adjust()
	return l.standing
}

// hear notes what the node of a link's stream reports about the others.
func (f *follow) hear(l *link, p *rousev1.Peers) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.peers = p
	l.node = cmp.Or(l.node, p.GetSelf().GetId())
	f.adjust()
}

// fell notes that a link's stream is over.
func (f *follow) fell(l *link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.standing, l.peers = false, nil
	for _, other := range f.links {
		if other.parked {
			notify.Send(other.news)
		}
	}
	f.adjust()
}

// longest is how long a link may wait before it is retried.
func (f *follow) longest(l *link) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, lives := f.living[l.address]; lives {
		return livingPause
	}
	return mostPause
}

// adjust starts and ends links, so that each known node has one. Links whose node has come back reconnect
// immediately. The mutex is held.
func (f *follow) adjust() {
	if f.over || f.o.OneNode {
		return
	}
	before := f.living
	f.gather()
	for address, l := range f.links {
		if l.given || l.standing {
			continue
		}
		if id, wanted := f.known[address]; !wanted || f.holder(id) != nil {
			l.stop()
			delete(f.links, address)
		}
	}
	for _, address := range slices.Sorted(maps.Keys(f.known)) {
		id := f.known[address]
		switch l := f.links[address]; {
		case l != nil:
			another := l.expect != id && l.node != id
			back := !l.standing && f.living[address] == id && before[address] != id
			if l.expect = id; another || back {
				notify.Send(l.news)
			}
		case l == nil && f.holder(id) == nil && len(f.links) < maxLinks:
			f.begin(f.learned(address, id))
		}
	}
}

// gather collects the known nodes: all that any node with an open stream reports. Without an open stream, the
// known nodes stay the same, but none counts as live. The mutex is held.
func (f *follow) gather() {
	known, told := map[string]string{}, false
	for _, address := range slices.Sorted(maps.Keys(f.links)) {
		l := f.links[address]
		if !l.standing || l.peers == nil {
			continue
		}
		told = true
		for _, p := range append([]*rousev1.Peer{l.peers.GetSelf()}, l.peers.GetOthers()...) {
			if p.GetAddress() != "" {
				known[p.GetAddress()] = p.GetId()
			}
		}
	}
	f.living = nil
	if told {
		f.known, f.living = known, known
	}
}
