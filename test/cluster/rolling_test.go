package cluster

import "testing"

// TestRollingRestart ends node after node in order, under load, and starts it again. None of that is a fault: nothing may be doubled.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
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
	for _, y := range []play{
		{strategy: "bucket", storage: postgres},
		{strategy: "lease", storage: postgres, more: true},
		{strategy: "bucket", storage: redis, more: true},
	} {
		t.Run(y.name+"/"+y.strategy, func(t *testing.T) {
			t.Parallel()
			y.nodes, y.idle = 5, 4
			s := y.set(t)
			serve := func(nodes int) { // waits until so many do
				s.f.settled()
				if y.strategy == "bucket" {
					s.f.shared(s.c, nodes)
				}
				s.progress(50)
			}
			for range rounds(t, 1, 1) {
				for k := 1; k < len(s.f.nodes); k++ {
					s.f.nodes[k].start()
					if k%2 == 0 { // the others come two at a time
						serve(k + 1)
					}
				}
				for k := len(s.f.nodes) - 1; k > 0; k-- {
					out := s.outage(k)
					s.f.nodes[k].stop()
					s.ends(out)
					if k%2 == 1 {
						serve(k)
					}
				}
			}
			s.finish(200)
		})
	}
}
