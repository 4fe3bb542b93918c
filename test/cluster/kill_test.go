package cluster

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rousehq/rouse/test/harness"
)

// TestNodesAreKilledInTurn kills node after node at random moments under load, and starts it again after a
// while. Others take over what it had: nothing is lost, and what was under way at that moment comes at most
// once more.
func TestNodesAreKilledInTurn(t *testing.T) {
	t.Parallel()
	for _, y := range []play{
		{strategy: "bucket", storage: postgres, nodes: 5},
		{strategy: "lease", storage: postgres},
		{strategy: "tick", storage: postgres},
		{strategy: "bucket", storage: redis},
	} {
		t.Run(y.name+"/"+y.strategy, func(t *testing.T) {
			t.Parallel()
			s := y.set(t)
			r := rand.New(rand.NewPCG(s.dice, 1<<32))
			n, end := harness.Rounds(t, len(s.f.nodes), 1), time.Now().Add(minutes(t))
			kills := 0
			for i := 0; i < n || time.Now().Before(end); i++ {
				s.Progress(20)
				s.lasts(time.Duration(r.IntN(1200)) * time.Millisecond) // until the random moment
				s.killed(i%len(s.f.nodes), r.IntN(3) == 0)
				s.f.settled()
				kills++
			}
			s.finish(50 * kills)
		})
	}
}

// killed kills a node and starts it again: soon, before the others have noticed, or when others fire what it
// did.
func (s *scene) killed(k int, soon bool) {
	s.T.Helper()
	node := s.f.nodes[k]
	heal := s.Fault("kill", node.Name, 2*lease)
	node.Kill()
	out := s.outage(k)
	if !soon {
		s.ends(out)
	}
	node.Start()
	heal()
	if soon {
		s.ends(out)
	}
}
