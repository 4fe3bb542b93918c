package cluster

import (
	"testing"
	"time"

	"github.com/rousehq/rouse/test/harness"
	"github.com/rousehq/rouse/test/servers"
)

// TestNodeIsCutOff takes the network between one node and the store away, both ways or for the answers only,
// and gives it back. The node reports unhealthy before the others take over, and fires none of their timers.
func TestNodeIsCutOff(t *testing.T) {
	t.Parallel()
	both := func(p *servers.Proxy) { p.CutToServer(); p.CutToClient() }
	for _, c := range []struct {
		name string
		cut  func(*servers.Proxy)
		play
	}{
		{"both", both, play{strategy: "bucket", storage: postgres}},
		{"answers", (*servers.Proxy).CutToClient, play{strategy: "bucket", storage: postgres}},
		{"both", both, play{strategy: "lease", storage: postgres, more: true}},
		{"both", both, play{strategy: "bucket", storage: redis, more: true}},
		{"answers", (*servers.Proxy).CutToClient, play{strategy: "bucket", storage: redis}},
	} {
		t.Run(c.storage.name+"/"+c.strategy+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			c.proxied = true
			c.judge = append(c.judge, zombies)
			s := c.set(t)
			n := harness.Rounds(t, 1, 2)
			for i := range n {
				k := i % len(s.f.nodes)
				node := s.f.nodes[k]
				heal := s.Fault("cut", node.Name, 0)
				c.cut(s.proxies[k])
				out := s.outage(k)
				ill := make(chan time.Duration, 1)
				go func() { // ends when the node is ill, which it is soon or the test fails
					harness.Until(t, harness.Always("%s reports healthy without a store", node.Name), func() bool { return !node.Ready() })
					ill <- time.Since(out.from)
				}()
				s.ends(out)
				if ok, _ := node.Probe("readyz"); ok && c.strategy == "bucket" {
					t.Errorf("%s reports healthy when others have taken over from it", node.Name)
				}
				t.Logf("%s was not well after %v", node.Name, <-ill)
				s.again()
				if late := s.firesSince(k, out.from.Add(lease)); late > 0 && c.strategy == "bucket" {
					t.Errorf("%s fired %d times after its leases had ended", node.Name, late)
				}
				s.proxies[k].Heal()
				heal()
				s.f.settled()
				s.Progress(20)
			}
			s.finish(50 * n)
		})
	}
}
