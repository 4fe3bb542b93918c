package cluster

import (
	"testing"
	"time"

	"github.com/rousehq/rouse/test/servers"
)

// TestStandbyTakesOver kills the primary of a PostgreSQL whose standby is behind, and promotes the standby.
// Replication is synchronous: what the standby has not received was not acknowledged, so nothing is lost.
func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"bucket", "lease"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			y := play{strategy: strategy, storage: postgres, more: strategy != "bucket"}
			var standby *servers.Standby
			y.prepare = func(primary *servers.Server) { standby = servers.StartStandby(t, primary, true) }
			y.front = func(string) string { return standby.Both() }
			s := y.set(t)
			heal := s.Fault("store-kill", "", 0)
			standby.Detach()
			s.lasts(time.Second)
			s.store.Kill()
			standby.Promote()
			heal()
			s.f.settled()
			s.finish(50)
		})
	}
}
