package watch

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// laneCache keeps names of lanes, so that asking for the lane of a fire makes no garbage. A name is kept in the one place its
// hash says, so there are never more than places.
type laneCache struct {
	places [256]atomic.Pointer[laneName]
}

type laneName struct{ namespace, target, name string }

var laneSeed = maphash.MakeSeed()

// name returns the target with its namespace in it. Neither of the two has a space.
func (c *laneCache) name(namespace, target string) string {
	h := maphash.String(laneSeed, target) ^ maphash.String(laneSeed, namespace)*31
	p := &c.places[h%uint64(len(c.places))]
	if l := p.Load(); l != nil && l.target == target && l.namespace == namespace {
		return l.name
	}
	// Clones, because a target may be a part of a timer's row, all of which it would keep in memory.
	l := &laneName{strings.Clone(namespace), strings.Clone(target), target + " " + namespace}
	p.Store(l)
	return l.name
}
