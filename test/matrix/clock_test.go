package matrix

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
)

// TestClockSetBack is the last row of the table: the store's clock was ahead for a while, and is right again.
// What is asked for now fires now: a run, and a throttled call.
func TestClockSetBack(t *testing.T) {
	for _, o := range []rouse.Overlap{rouse.OverlapWait, rouse.OverlapSkip, rouse.OverlapAllow} {
		t.Run(o.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newScene(&sites[0], evening)
				defer w.stop()
				node, ahead := w.nodes[0], 8*time.Hour
				move := func(skew time.Duration) {
					w.skew.Store(int64(skew))
					if err := node.ClockMoved(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				done := func(rouse.Instant, bool, int, rouse.Instant) answer { return answer{verdict: rouse.Done} }
				timer, throttled := &play{name: "timer", script: done}, &play{name: "throttled", script: done}
				w.plays["timer"], w.plays["throttled"] = timer, throttled
				call := func() {
					c := rouse.Coalesce{Every: 10 * time.Second}
					if _, err := node.Coalesce(t.Context(), key("throttled"),
						rouse.Spec{Target: "matrix:throttled"}, c); err != nil {
						t.Fatal(err)
					}
				}
				move(ahead)
				w.do(timer, &action{verb: "create", change: func(s *rouse.Spec) {
					*s = rouse.Spec{Schedule: "@every 1m", Target: "matrix:timer", Overlap: o}
				}}, 0)
				w.do(timer, &action{verb: "run"}, 0)
				call()
				time.Sleep(20 * time.Second)
				move(0)
				runs, calls := len(timer.arrivals), len(throttled.arrivals)
				if runs == 0 || calls == 0 {
					t.Fatalf("%d runs and %d calls fired before the clock was set back", runs, calls)
				}
				w.do(timer, &action{verb: "run"}, 0)
				call()
				time.Sleep(11 * time.Second)
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, c := range timer.calls {
					if c.err != nil {
						t.Errorf("%v: %v", c.step, c.err)
					}
				}
				if len(timer.arrivals) == runs {
					t.Error("a run waits until the clock is where it was")
				}
				if len(throttled.arrivals) == calls {
					t.Error("a throttled call waits until the clock is where it was")
				}
			})
		})
	}
}
