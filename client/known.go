package client

import (
	"cmp"
	"maps"
	"slices"
	"time"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/notify"
)

// hasSeveralLinks reports whether there is, or may be, another stream.
func (f *follow) hasSeveralLinks() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.links) > 1
}

// anyStreamOpen reports whether any stream is open.
func (f *follow) anyStreamOpen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.links {
		if l.standing {
			return true
		}
	}
	return false
}

// linkOnNode returns the link whose stream is on a node. The mutex is held.
func (f *follow) linkOnNode(node string) *link {
	for _, l := range f.links {
		if l.standing && l.node == node && node != "" {
			return l
		}
	}
	return nil
}

// noteStreamOpen notes that a link's stream is open, unless another link's stream is on the node.
func (f *follow) noteStreamOpen(l *link, node string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.node = node
	l.standing = f.links[l.address] == l && f.linkOnNode(node) == nil // not if it ended in the meantime
	f.adjustLinks()
	return l.standing
}

// notePeers notes the report of a link's node about the others.
func (f *follow) notePeers(l *link, p *rousev1.Peers) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.peers = p
	l.node = cmp.Or(l.node, p.GetSelf().GetId())
	f.adjustLinks()
}

// noteStreamOver notes that a link's stream is over.
func (f *follow) noteStreamOver(l *link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.standing, l.peers = false, nil
	for _, other := range f.links {
		if other.parked {
			notify.Send(other.news)
		}
	}
	f.adjustLinks()
}

// longestPause is how long a link may wait before it is retried.
func (f *follow) longestPause(l *link) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, lives := f.living[l.address]; lives {
		return livingPause
	}
	return mostPause
}

// adjustLinks starts and ends links, so that each known node has one. Links whose node has come back
// reconnect immediately. The mutex is held.
func (f *follow) adjustLinks() {
	if f.over || f.o.OneNode {
		return
	}
	before := f.living
	f.gatherKnown()
	for address, l := range f.links {
		if l.given || l.standing {
			continue
		}
		if id, wanted := f.known[address]; !wanted || f.linkOnNode(id) != nil {
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
		case l == nil && f.linkOnNode(id) == nil && len(f.links) < maxLinks:
			f.startFireLink(f.newLearnedLink(address, id))
		}
	}
}

// gatherKnown collects the known nodes: all that any node with an open stream reports. Without an open
// stream, the known nodes stay the same, but none counts as live. The mutex is held.
func (f *follow) gatherKnown() {
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
