package postgres

import (
	"context"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/servers"
)

// TestSinceLeavesOutWhatTheStoreKnows: a claim since a token returns the writes of others, and this store's
// own writes with an unknown outcome.
func TestSinceLeavesOutWhatTheStoreKnows(t *testing.T) {
	url := servers.Postgres(t)
	mine, other := openTest(t, url, unsafe), openTest(t, url, unsafe)
	defer mine.Close()
	defer other.Close()
	w := rouse.Window{Buckets: []uint32{0}, Limit: 100}
	first, err := mine.Claim(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	w.Since = first.Token
	sees := func(when string, s *Store, want int) {
		t.Helper()
		b, err := s.Claim(t.Context(), w)
		if err != nil || len(b.Rows) != want {
			t.Errorf("%s: %d rows, not %d: %v", when, len(b.Rows), want, err)
		}
	}
	create(t, mine, timers("a", 3))
	create(t, other, timers("b", 2))
	sees("its own left out", mine, 2)
	sees("the other's own left out", other, 3)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := mine.Apply(ctx, timers("c", 1)); err == nil {
		t.Fatal("a write whose context had ended succeeded")
	}
	sees("after a write of which nothing is known", mine, 5)
	create(t, mine, timers("d", 1))
	sees("under a new number", mine, 5)
	sees("for the other", other, 4)

	w.Since = 0
	sees("since nothing", mine, 6)
}
