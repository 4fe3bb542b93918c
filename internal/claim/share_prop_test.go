package claim

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// step is an event in a fleet, and the time until the next one.
type step struct {
	node int
	what int
	arg  time.Duration
	then time.Duration
}

const (
	joins  = iota // or recovers
	leaves        // by shutdown
	dies          // as by kill -9
	faulty        // its calls have one of the faults of a wire
	slow          // fires in progress take long
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

// do performs the step, with a bound on the number of faults. After a fault only the node's own memory of
// it is left.
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

// Whatever nodes come, go, die, hang and lose their connection to the store, no two of them are granted the
// same bucket at the same time. After recovery, each bucket has an owner, and the numbers of shares differ
// by at most one.
func TestShareNeverGrantsABucketTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		plan := steps().Draw(rt, "plan")
		var wrong []string
		synctest.Test(t, func(*testing.T) {
			f := newFleet(ShareOptions{Buckets: 64})
			f.o.Handover = 5 * time.Minute // longer than fires are ever in progress here
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
					f.complain("%s is unhealthy: %v", p.Node(), err)
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
