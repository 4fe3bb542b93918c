package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/sink"
	"github.com/rousehq/rouse/store/mem"
)

// paths is a sink of one host, whose targets are addresses of their own.
type paths struct{ *recorder }

func (paths) Lane(string, *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: "test://host", Limit: 64, Batch: 1}
}

func (paths) Address(spec *rouse.Spec) (host, address string) { return "test://host", spec.Target }

// TestAFailingPathOfAHost has twelve timers of every second to a path that fails, next to twenty to one that
// does not, for minutes: none of the latter is late. What waits for the circuit is missed only if its policy
// gives it up.
func TestAFailingPathOfAHost(t *testing.T) {
	const down, all = 3 * time.Minute, 5 * time.Minute
	bubble(t, func(t *testing.T) {
		began := time.Now()
		r := &recorder{answer: func(_ context.Context, f rouse.Fire) rouse.Outcome {
			if strings.HasPrefix(f.Spec.Target, "test://host/bad") && time.Since(began) < down {
				return rouse.Outcome{Verdict: rouse.Failed, Code: 500}
			}
			return done
		}}
		waits := func(p *timers.Put) { p.Spec.Overlap = rouse.OverlapWait }
		h := begin(t, mem.New(), sink.NewBreaker(paths{r}, sink.BreakerOptions{}), timers.Options{Engine: engine.Options{RecordsPerTimer: -1}})
		for i := range 20 {
			h.put(fmt.Sprint("ok", i), "@every 1s", to("test://host/ok"))
		}
		for i := range 12 {
			misfire := rouse.MisfireLatest
			if i == 0 {
				misfire = rouse.MisfireAll
			}
			h.put(fmt.Sprint("bad", i), "@every 1s", to("test://host/bad"), retries(1000, rouse.Retry{Max: 5 * time.Second}), misfires(misfire), waits)
		}
		time.Sleep(all)
		for _, a := range r.got() {
			if late := a.at.Sub(a.Due.Time()); a.Spec.Target == "test://host/ok" && late > 10*time.Millisecond {
				t.Fatalf("a healthy fire of %s is %v late", a.Name, late)
			}
		}
		count := func(name string) (fired, missed int) {
			for _, r := range h.records(name) {
				switch {
				case r.Ending == rouse.EndFired:
					fired++
				case r.Ending == rouse.EndMissed && r.Cause == rouse.CauseCircuitOpen:
					missed += int(max(1, r.Count))
				case r.Ending != rouse.EndMissed || r.Cause != rouse.CauseOverlapped:
					t.Errorf("%s: %+v", name, r)
				}
			}
			return fired, missed
		}
		if fired, missed := count("ok0"); fired < 298 || missed != 0 {
			t.Errorf("a healthy timer: %d fired, %d missed", fired, missed)
		}
		if fired, missed := count("bad0"); fired < 298 || missed != 0 {
			t.Errorf("with misfire all: %d fired, %d missed", fired, missed)
		}
		if fired, _ := count("bad1"); fired < 40 || fired > 150 {
			t.Errorf("with misfire latest: %d fired", fired)
		}
	})
}
