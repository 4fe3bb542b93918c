// Package claim holds the strategies: gates in front of the one claim that every store has. A strategy says which buckets a
// node may claim now, and whether it owns them, so that it may read rows and spend one write a fire, or has to hold them,
// which is a write. Strategies only avoid duplicates; revisions keep the state right.
//
//	Sole   one node, which owns every bucket
//	Lease  every node claims from every bucket, timer by timer, and holds what it gets
//	Tick   a clock in the store: who advances it claims what is due by then, and holds it; the others wait for the next tick
//	Share  nodes share the buckets by leases; who has a bucket's lease owns it, and reads
//
// Nodes know of each other by leases: Member keeps one that says that a node lives. Share has one of its own.
package claim

import (
	"context"

	"github.com/rousehq/rouse"
)

// Sole is the bucket strategy of a node that has its store to itself: it owns every bucket, for ever. What makes it the only
// node is the store's own lock on its directory or file.
type Sole struct{ buckets []uint32 }

// NewSole returns the strategy for a store whose timers are in the given number of buckets; at least 1.
func NewSole(buckets uint32) *Sole { return &Sole{allOf(buckets)} }

// allOf returns the numbers of all buckets.
func allOf(buckets uint32) []uint32 {
	all := make([]uint32, max(1, buckets))
	for i := range all {
		all[i] = uint32(i)
	}
	return all
}

// Grant returns all buckets at once.
func (s *Sole) Grant(ctx context.Context) (rouse.Grant, func(bool), error) {
	return rouse.Grant{Buckets: s.buckets}, func(bool) {}, ctx.Err()
}
