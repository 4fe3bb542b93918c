package cluster

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/rousehq/rouse/test/harness"
)

// points are the steps of a fire at which package engine can be told to die, and at which of its times at
// most.
var points = []struct {
	name string
	most int
	own  bool // only of what a node owns
}{
	{"before-commit", 20, false}, // a client's change, or a fire's outcome, is about to be written
	{"after-commit", 20, false},  // it is written, and not acknowledged yet
	{"after-claim", 2, true},     // rows were read that are due soon
	{"before-send", 20, false},   // a fire is about to go out
	{"after-send", 20, false},    // its target has answered
	{"before-settle", 20, false}, // the answer is about to be written
	{"after-settle", 20, false},  // it is written
}

// TestNodeDiesAtEachStep kills one of three nodes at each step of a fire. The others finish what it had
// begun.
func TestNodeDiesAtEachStep(t *testing.T) {
	t.Parallel()
	for _, y := range []play{
		{strategy: "bucket", storage: postgres},
		{strategy: "lease", storage: postgres, more: true},
		{strategy: "tick", storage: redis, more: true},
	} {
		t.Run(y.name+"/"+y.strategy, func(t *testing.T) {
			t.Parallel()
			y.binary = harness.Mortal
			s := y.set(t)
			r := rand.New(rand.NewPCG(s.dice, 1<<32))
			node, died := s.f.nodes[0], 0
			heal := s.Fault("kill", node.Name, 2*lease)
			node.Kill()
			for range harness.Rounds(t, 1, 1) {
				for _, point := range points {
					if point.own && y.strategy != "bucket" {
						continue
					}
					node.Launch("ROUSE_FAILPOINT=" + point.name + ":" + strconv.Itoa(1+r.IntN(point.most)))
					heal()
					heal = s.Fault(point.name, node.Name, 0) // from here on it may die at any moment
					select {
					case <-node.Exited:
					case <-time.After(harness.Patience):
						t.Fatalf("%s does not come to %s often enough", node.Name, point.name)
					}
					node.Died(point.name)
					died++
				}
			}
			out := s.outage(0)
			node.Start()
			heal()
			s.ends(out)
			s.finish(20 * died)
		})
	}
}
