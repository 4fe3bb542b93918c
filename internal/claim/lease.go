package claim

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
)

// Lease is the strategy of claims timer by timer: every node claims from all buckets, and holds what it claims, so that no
// other node gets it before the hold ends. Nodes need not know of each other; a node that dies costs its timers the rest of
// their holds.
type Lease struct{ grant rouse.Grant }

// NewLease returns the strategy for a store whose timers are in the given number of buckets, at least 1. hold is how long a claim
// hides rows from the others; it has to be longer than the engine reads ahead, and how long an attempt may take adds to it only if
// the engine does not renew holds. 0 or less is 30 s.
func NewLease(buckets uint32, hold time.Duration) *Lease {
	if hold <= 0 {
		hold = defaultHold
	}
	return &Lease{rouse.Grant{Buckets: allOf(buckets), Hold: hold}}
}

// defaultHold is how long claims hold rows where nothing else is said.
const defaultHold = 30 * time.Second

// Grant returns all buckets at once, to be held.
func (l *Lease) Grant(ctx context.Context) (rouse.Grant, func(bool), error) {
	return l.grant, func(bool) {}, ctx.Err()
}
