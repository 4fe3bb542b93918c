// Package poll waits in tests for events outside of the test's control: in other processes, servers and
// goroutines. Tests of parts need none of this, as they run in testing/synctest bubbles.
package poll

import (
	"testing"
	"time"
)

// Patience is how long a test waits for an event that must happen soon before it gives up. Nothing is
// measured by it: the events take less even on a machine that is ten times slower.
const Patience = 2 * time.Minute

// Until waits until a condition holds, and fails the test if that takes too long.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !Holds(Patience, holds) {
		t.Fatalf("not within %v: %s", Patience, what)
	}
}

// Holds returns whether a condition holds before patience ends.
func Holds(patience time.Duration, holds func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
