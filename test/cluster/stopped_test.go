package cluster

import (
	"syscall"
	"testing"
)

// TestNodeIsStopped stops a node for longer than all that it has lasts, and lets it go on. Others have taken over by then: what it
// still sends is a double with the same id, and what it still writes is refused.
func TestNodeIsStopped(t *testing.T) {
	t.Parallel()
	for _, y := range []play{
		{strategy: "bucket", storage: postgres},
		{strategy: "lease", storage: postgres, more: true},
		{strategy: "tick", storage: redis},
		{strategy: "bucket", storage: redis, more: true},
	} {
		t.Run(y.name+"/"+y.strategy, func(t *testing.T) {
			t.Parallel()
			y.judge = append(y.judge, zombies)
			s := y.set(t)
			n := rounds(t, 2, 1)
			for i := range n {
				k := i % len(s.f.nodes)
				node := s.f.nodes[k]
				heal := s.fault("stop", node.name, 0)
				node.signal(syscall.SIGSTOP)
				out := s.outage(k)
				s.ends(out)
				s.lasts(hold)
				node.signal(syscall.SIGCONT)
				heal()
				s.f.settled()
				s.progress(20)
			}
			s.finish(50 * n)
		})
	}
}
