package watch

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// laneCache keeps lane names, so that computing the lane of a fire allocates nothing. Each name is kept in
// the slot of its hash, which bounds their number.
type laneCache struct {
	places [256]atomic.Pointer[laneName]
}

type laneName struct{ namespace, target, name string }

var laneSeed = maphash.MakeSeed()

// name returns the target with its namespace. Neither contains a space.
func (c *laneCache) name(namespace, target string) string {
	h := maphash.String(laneSeed, target) ^ maphash.String(laneSeed, namespace)*31
	p := &c.places[h%uint64(len(c.places))]
	if l := p.Load(); l != nil && l.target == target && l.namespace == namespace {
		return l.name
	}
	// Cloned, because a target may be part of a timer's row and would keep all of it in memory.
	l := &laneName{strings.Clone(namespace), strings.Clone(target), target + " " + namespace}
	p.Store(l)
	return l.name
}
