package cluster

import (
	"testing"
	"time"

	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
)

// certain is how long timers may be silent when it is certain that their node is dead.
const certain = 1500 * time.Millisecond

// TestDeadNodeIsReplacedAtOnce kills node after node on a host that answers, with the settings that nodes
// have by default: that the process is dead is certain then, and the others do not wait for its leases. Only
// what was under way at that moment may come twice.
func TestDeadNodeIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	for _, y := range []play{
		{strategy: "bucket", storage: postgres},
		{strategy: "bucket", storage: redis},
		{strategy: "lease", storage: postgres, more: true},
		{strategy: "tick", storage: postgres, more: true},
	} {
		t.Run(y.name+"/"+y.strategy, func(t *testing.T) {
			t.Parallel()
			y.flags = append([]string{"--ahead", "10s"}, lasting...)
			y.judge = append(y.judge, func(c *history.Config) {
				if y.strategy != "bucket" {
					c.Recovery = long // what the dead node had claimed and not begun waits for its hold
				}
			})
			s := y.set(t)
			s.rest()
			n := harness.Rounds(t, 2, 3)
			for i := range n {
				k := i % len(s.f.nodes)
				node := s.f.nodes[k]
				heal := s.Fault("kill", node.Name, long/2)
				node.Kill()
				s.ends(s.outage(k))
				node.Start()
				heal()
				s.f.settled()
				if y.strategy == "bucket" {
					s.f.shared(s.Client, len(s.f.nodes))
				}
				s.again()
			}
			s.bounded("silent after a kill", s.figures.failovers, certain, long/2)
			s.finish(50 * n)
		})
	}
}
