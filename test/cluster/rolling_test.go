package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
)

// unnoticed is how late timers may be when a node stops or starts in order.
const unnoticed = 300 * time.Millisecond

// TestRollingRestart ends node after node in order, under load, and starts it again, while another receiver
// takes seconds. None of that is a fault: nothing may be doubled, and no timer of others may be silent.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	for _, y := range []play{
		{strategy: "bucket", storage: postgres},
		{strategy: "lease", storage: postgres},
		{strategy: "bucket", storage: redis},
	} {
		t.Run(y.name+"/"+y.strategy, func(t *testing.T) {
			t.Parallel()
			y.flags = []string{"--lease", long.String(), "--hold", rollingHold.String()}
			s := y.set(t)
			s.drag(12)
			s.rest()
			var stops, starts []time.Duration
			n := harness.Rounds(t, 2, 3)
			for i := range n {
				k := i % len(s.f.nodes)
				s.latest()
				out := s.outage(k)
				s.f.nodes[k].Stop()
				s.ends(out)
				s.again()
				stops = append(stops, s.latest()...)
				s.f.nodes[k].Start()
				s.f.settled()
				s.again()
				starts = append(starts, s.latest()...)
				s.Progress(20)
			}
			broken := long / 2 // others would wait for the leases of a node
			if y.strategy == "lease" {
				broken = rollingHold
			}
			s.bounded("late while a node stops", stops, unnoticed, broken)
			s.bounded("late while a node starts", starts, unnoticed, broken)
			s.undrag(12)
			s.lasts(dragged) // what was under way ends, and is recorded
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
			y.nodes, y.idle, y.flags = 5, 4, lasting
			s := y.set(t)
			serve := func(nodes int) { // waits until so many do
				s.f.settled()
				if y.strategy == "bucket" {
					s.f.shared(s.Client, nodes)
				}
				s.Progress(50)
			}
			for range harness.Rounds(t, 1, 1) {
				for k := 1; k < len(s.f.nodes); k++ {
					s.f.nodes[k].Start()
					if k%2 == 0 { // the others come two at a time
						serve(k + 1)
					}
				}
				for k := len(s.f.nodes) - 1; k > 0; k-- {
					out := s.outage(k)
					s.f.nodes[k].Stop()
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

// rollingHold is how long holds last in a rolling restart.
const rollingHold = 6 * time.Second

// dragged is how long the slow receiver takes, and longer than a hold: attempts that are out when their node
// stops go on under renewed ones.
const dragged = rollingHold + 500*time.Millisecond

func dragName(i int) string { return fmt.Sprintf("drag-%02d", i) }

// drag starts so many timers whose receiver is slow, due again and again.
func (p *pulses) drag(count int) {
	p.T.Helper()
	for i := range count {
		if _, res := p.Put(dragName(i), p.URL+slowPath, harness.Every(4*time.Second), false); res != history.OK {
			p.T.Fatalf("create %s: %v", dragName(i), res)
		}
	}
}

// undrag deletes them.
func (p *pulses) undrag(count int) {
	p.T.Helper()
	for i := range count {
		harness.Until(p.T, harness.Always("%s cannot be deleted", dragName(i)), func() bool {
			res, _ := p.Delete(dragName(i))
			return res == history.OK
		})
	}
}
