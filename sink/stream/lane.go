package stream

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// laneCache caches names of lanes, to save allocations. A name's hash determines its only place, so the
// size is fixed.
type laneCache struct {
	places [256]atomic.Pointer[laneName]
}

type laneName struct{ namespace, target, name string }

var laneSeed = maphash.MakeSeed()

// name returns "stream:NAMESPACE/CHANNEL". A namespace has no slash, so no two channels share a name.
func (c *laneCache) name(namespace, target string) string {
	h := maphash.String(laneSeed, target) ^ maphash.String(laneSeed, namespace)*31
	p := &c.places[h%uint64(len(c.places))]
	if l := p.Load(); l != nil && l.target == target && l.namespace == namespace {
		return l.name
	}
	// Clone the strings: the target may be a part of a timer's row, which it would keep in memory.
	l := &laneName{strings.Clone(namespace), strings.Clone(target), scheme + namespace + "/" + strings.TrimPrefix(target, scheme)}
	p.Store(l)
	return l.name
}
