// Package claim contains the strategies: gates in front of the one claim of every store. A strategy decides
// which buckets a node may claim now, and whether it owns them. An owner may read rows and spends one write
// per fire; otherwise rows have to be held, which is another write. Strategies only avoid duplicates;
// revisions keep the state correct.
//
//	Sole   one node, which owns every bucket
//	Lease  every node claims from every bucket, timer by timer, and holds the rows it gets
//	Tick   a clock in the store: the node that advances it claims and holds the rows due by then
//	Share  nodes share the buckets by leases; the node with a bucket's lease owns it
//
// Nodes know each other by leases: a Member keeps the lease of a running node. A Share contains its own
// Member.
package claim

import (
	"context"

	"github.com/rousehq/rouse"
)

// Sole is the strategy of a node that has its store to itself: it permanently owns every bucket. The
// store's lock on its directory or file ensures that there is no other node.
type Sole struct{ buckets []uint32 }

// NewSole returns the strategy for a store with the given number of buckets; at least 1.
func NewSole(buckets uint32) *Sole { return &Sole{allOf(buckets)} }

// allOf returns the numbers of all buckets.
func allOf(buckets uint32) []uint32 {
	all := make([]uint32, max(1, buckets))
	for i := range all {
		all[i] = uint32(i)
	}
	return all
}

// Grant returns all buckets immediately.
func (s *Sole) Grant(ctx context.Context) (rouse.Grant, func(bool), error) {
	return rouse.Grant{Buckets: s.buckets}, func(bool) {}, ctx.Err()
}
