package cluster

import (
	"testing"
	"time"
)

// TestRollingRestart ends node after node in order, under load, and starts it again. None of that is a fault: nothing may be doubled.
func TestRollingRestart(t *testing.T) {
	for _, y := range []play{
		{strategy: "bucket", storage: postgres},
		{strategy: "lease", storage: postgres},
		{strategy: "bucket", storage: redis},
	} {
		t.Run(y.name+"/"+y.strategy, func(t *testing.T) {
			t.Parallel()
			s := y.set(t)
			n := rounds(t, 3, 2)
			for i := range n {
				k := i % len(s.f.nodes)
				out := s.outage(k)
				s.f.nodes[k].stop()
				s.ends(out)
				s.f.nodes[k].start()
				s.f.settled()
				s.progress(20)
			}
			s.finish(100 * n)
		})
	}
}

// TestScale goes from one node to five and back, under load. None of that is a fault: nothing may be doubled.
func TestScale(t *testing.T) {
	t.Parallel()
	y := plain
	y.nodes, y.idle = 5, 4
	s := y.set(t)
	for range rounds(t, 1, 1) {
		for k := 1; k < len(s.f.nodes); k++ {
			s.f.nodes[k].start()
			if k%2 == 1 { // two at a time, too
				continue
			}
			s.f.shared(s.c, k+1)
			s.progress(50)
		}
		for k := len(s.f.nodes) - 1; k > 0; k-- {
			out := s.outage(k)
			s.f.nodes[k].stop()
			s.ends(out)
			if k%2 == 1 {
				s.f.shared(s.c, k)
			}
		}
	}
	s.lasts(time.Second)
	s.finish(200)
}
