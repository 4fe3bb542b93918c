package claim

import (
	"cmp"
	"context"
	"time"

	"github.com/rousehq/rouse"
)

// Lease is the strategy of claims per timer: every node claims from all buckets and holds the rows it claims,
// so that no other node gets it before the hold ends. Nodes do not need to know each other. If a node dies,
// its timers wait for the rest of their holds.
type Lease struct{ grant rouse.Grant }

// NewLease returns the strategy for a store with the given number of buckets, at least 1. hold is how long
// a claim hides rows from other nodes; it has to be longer than the engine reads ahead, plus the duration
// of an attempt if the engine does not renew holds. 0 or less is 30 s.
func NewLease(buckets uint32, hold time.Duration) *Lease {
	hold = cmp.Or(max(hold, 0), defaultHold)
	return &Lease{rouse.Grant{Buckets: allOf(buckets), Hold: hold}}
}

// defaultHold is the default duration of holds.
const defaultHold = 30 * time.Second

// Grant returns all buckets immediately, to be held.
func (l *Lease) Grant(ctx context.Context) (rouse.Grant, func(bool), error) {
	return l.grant, func(bool) {}, ctx.Err()
}
