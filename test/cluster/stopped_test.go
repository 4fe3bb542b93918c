package cluster

import (
	"syscall"
	"testing"
	"time"

	"github.com/rousehq/rouse/test/harness"
)

// TestNodeIsStopped stops a node for longer than all that it has lasts, and lets it go on. That it is dead is
// not certain: the others take over when its leases end, not before. When it goes on, it may send what was
// past its last look, with the same id, but nothing that came due while it was stopped; what it still writes
// is refused.
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
			n := harness.Rounds(t, 1, 2)
			for i := range n {
				k := i % len(s.f.nodes)
				node := s.f.nodes[k]
				heal := s.Fault("stop", node.Name, 0)
				node.Signal(syscall.SIGSTOP)
				stopped := time.Now()
				out := s.outage(k)
				s.ends(out)
				if n := len(out.took); n > 0 && out.took[n/2] < lease/2 { // some fires may have been on their way
					t.Errorf("the others took over %v after %s had stopped, long before its leases ended", out.took[n/2], node.Name)
				}
				s.lasts(hold)
				goesOn := time.Now()
				node.Signal(syscall.SIGCONT)
				heal()
				s.f.settled()
				s.Progress(20)
				s.again()
				s.noEchoes(k, stopped, goesOn)
			}
			s.finish(50 * n)
		})
	}
}

// noEchoes fails the test if a node delivered, after another one, what came due while it was stopped: it
// cannot have begun to send that before.
func (p *pulses) noEchoes(node int, stopped, goesOn time.Time) {
	p.T.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.echoes {
		if e.node == node && e.due.After(stopped.Add(100*time.Millisecond)) && e.due.Before(goesOn) {
			p.T.Errorf("%s, due %v, %v after the node had stopped, was delivered by another node and then by it, at %v",
				e.timer, e.due, e.due.Sub(stopped), e.came)
		}
	}
}
