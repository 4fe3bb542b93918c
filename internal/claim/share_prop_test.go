package claim

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// step is something that happens to a fleet, and how long it is until the next thing does.
type step struct {
	node int
	what int
	arg  time.Duration
	then time.Duration
}

const (
	joins  = iota // also: is well again
	leaves        // as on a shutdown
	dies          // as by kill -9
	faulty        // its calls go wrong in one of the ways of a wire
	slow          // what is in progress there takes long
)

func steps() *rapid.Generator[[]step] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			node: rapid.IntRange(0, 4).Draw(t, "node"),
			what: rapid.SampledFrom([]int{joins, joins, joins, leaves, dies, faulty, faulty, slow}).Draw(t, "what"),
			arg:  time.Duration(rapid.IntRange(0, 20_000).Draw(t, "arg")) * time.Millisecond,
			then: time.Duration(rapid.SampledFrom([]int{0, 1, 300, 1000, 2700, 6000, 11000, 25000}).Draw(t, "then")) * time.Millisecond,
		}
	}), 1, 40)
}

// do makes the step, with as many faults as may be: at a fault's end nothing is left over but what the node itself remembers.
func (s step) do(f *fleet) {
	name := fmt.Sprint("node", s.node)
	p := f.nodes[name]
	switch {
	case p == nil && s.what == joins:
		f.join(name)
	case p == nil:
	case s.what == joins:
		p.wire.fault.Store(fine)
		p.slow.Store(0)
	case s.what == leaves && p.wire.fault.Load() != frozen:
		p.stop()
	case s.what == dies && p.wire.fault.Load() != frozen:
		p.cut()
	case s.what == faulty:
		p.wire.fault.Store(refused + int32(s.arg/time.Millisecond)%(frozen-refused+1))
	case s.what == slow:
		p.slow.Store(int64(s.arg))
	}
	time.Sleep(s.then)
}

// Whatever nodes come, go, die, stop and lose their way to the store, no two of them are granted one bucket at a time. Once all is
// well, each bucket has an owner, and all nodes have as many shares, give or take one.
func TestShareNeverGrantsABucketTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		plan := steps().Draw(rt, "plan")
		var wrong []string
		synctest.Test(t, func(*testing.T) {
			f := newFleet(ShareOptions{Buckets: 64})
			f.o.Handover = 5 * time.Minute // longer than what is in progress ever takes here
			f.join("steady")
			for _, s := range plan {
				s.do(f)
			}
			for _, p := range f.peers() {
				p.wire.fault.Store(fine)
				p.slow.Store(0)
			}
			time.Sleep(90 * time.Second)
			f.balanced()
			for _, p := range f.peers() {
				if err := p.Healthy(); err != nil {
					f.complain("%s is unwell: %v", p.Node(), err)
				}
			}
			f.end()
			wrong = f.wrong
		})
		if len(wrong) > 0 {
			rt.Fatalf("%d complaints, the first: %s", len(wrong), wrong[0])
		}
	})
}
