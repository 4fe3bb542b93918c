package hub

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// Lanes caches names of lanes, so that computing the lane of a fire allocates nothing. A name's hash
// determines its only place, so the size is fixed.
type Lanes struct {
	// Form makes the name of a lane; default the target with its namespace, neither of which contains a
	// space.
	Form func(namespace, target string) string

	places [256]atomic.Pointer[laneName]
}

type laneName struct{ namespace, target, name string }

var laneSeed = maphash.MakeSeed()

// Name returns the name of the lane of a target.
func (c *Lanes) Name(namespace, target string) string {
	h := maphash.String(laneSeed, target) ^ maphash.String(laneSeed, namespace)*31
	p := &c.places[h%uint64(len(c.places))]
	if l := p.Load(); l != nil && l.target == target && l.namespace == namespace {
		return l.name
	}
	// Cloned, because a target may be part of a timer's row and would keep all of it in memory.
	l := &laneName{strings.Clone(namespace), strings.Clone(target), target + " " + namespace}
	if c.Form != nil {
		l.name = c.Form(namespace, target)
	}
	p.Store(l)
	return l.name
}
