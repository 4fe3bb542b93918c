// Package state reads and writes the data that the reminder service has in the store in addition to its
// timers: notes, rows that are no timers and are never visible.
//
//	tokenBucket||consumed           the generation of the following: whether anything is new                   (allocation.go)
//	tokenBucket||apps||orderapp     how far the tokens of an app are put into buckets                          (allocation.go)
//	tokenBucket||buckets||B3        a token bucket: its range, vector and state                                (allocation.go)
//	tokenBucket||allocations||B3    the sidecar and the instance of a token bucket                             (allocation.go)
//	tokenBucket||B3||consumedTill   how far its tokens are given out                                           (tokens.go)
//	tokenBucket||prefixes           the prefix of each app                                                     (prefix.go)
//	instance||10.1.2.3:7411         the report of an instance: connected sidecars, rates, spent token buckets  (instance.go)
//	alias||reminder||B||7||abc…     the name of the timer of a reminder that has, or had, this id later        (alias.go)
//
// Every write names the revision that it read. So two leaders, or one that was paused, do no harm: the later
// write is refused.
package state

import (
	"time"

	"github.com/rousehq/rouse/internal/note"
)

// Notes are the notes in one namespace of a store. They are safe for concurrent use, and nothing of them is
// cached.
type Notes struct{ notes note.Notes }

// New returns the notes in a namespace of a store with the given number of buckets.
func New(store note.Store, namespace string, buckets uint32) *Notes {
	return &Notes{note.Notes{Store: store, Namespace: namespace, Prefix: Prefix, Buckets: buckets, Patience: patience}}
}

// patience is how long one call to the store may take.
const patience = 10 * time.Second

// Prefix begins the names of the rows of the reminder service's notes: no timer's name has a control
// character.
const Prefix = "\x01reminder/"
