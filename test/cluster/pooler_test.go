package cluster

import (
	"testing"

	"github.com/rousehq/rouse/test/servers"
)

// TestBehindPgBouncer runs nodes whose store is behind a PgBouncer in transaction mode. That is no fault.
func TestBehindPgBouncer(t *testing.T) {
	t.Parallel()
	y := plain
	y.flags = lasting
	y.front = func(url string) string { return servers.PgBouncer(t, url) }
	s := y.set(t)
	s.lasts(seconds(3, 5))
	s.finish(100)
}
