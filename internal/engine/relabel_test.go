package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// A timer that gets another target keeps its occurrence: if it waits, it goes to the new target; an attempt
// that is out counts, and its retry goes to the new target.
func TestRelabelMovesATimerAsItIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		free := make(chan rouse.Outcome)
		sink := &recorder{answer: func(ctx context.Context, f rouse.Fire) rouse.Outcome {
			if f.Spec.Target == "test:slow" {
				select {
				case o := <-free:
					return o
				case <-ctx.Done():
				}
			}
			return rouse.Outcome{Verdict: rouse.Done}
		}}
		sink.lane = func(_ string, s *rouse.Spec) rouse.Lane { return rouse.Lane{Name: s.Target, Limit: 1, Batch: 1} }
		h := start(t, mem.New(), sink, timers.Options{})
		slow := func(p *timers.Put) { p.Spec.Target = "test:slow" }
		out := h.put("out", "@every 5m", slow, func(p *timers.Put) {
			p.Spec.Retry = rouse.Retry{Attempts: 3, Interval: time.Second, Factor: 1, Jitter: -1}
		})
		time.Sleep(301 * time.Second) // its first attempt is out and fills the lane
		waits := h.put("waits", "@after 1s", slow)
		time.Sleep(2 * time.Second)

		for _, was := range []rouse.Timer{out, waits} {
			now, err := h.Relabel(t.Context(), was.Key, 0, "test:quick", map[string]string{"to": "quick"})
			if err != nil {
				t.Fatal(err)
			}
			if now.Generation != was.Generation || now.Spec.Labels["to"] != "quick" || now.Revision == was.Revision {
				t.Errorf("%s is %+v, was %+v", was.Key.Name, now, was)
			}
		}
		synctest.Wait()
		got := sink.got()
		if len(got) != 2 || got[1].Name != "waits" || got[1].Spec.Target != "test:quick" {
			t.Fatalf("arrivals %+v, want the one that waits at its new target", got)
		}
		free <- rouse.Outcome{Verdict: rouse.Failed}
		time.Sleep(2 * time.Second)
		got = sink.got()
		if len(got) != 3 || got[2].Attempt != 2 || got[2].ID != got[0].ID || got[2].Spec.Target != "test:quick" {
			t.Fatalf("arrivals %+v, want the retry of the same fire at the new target", got[2:])
		}

		if _, err := h.Relabel(t.Context(), key("out"), out.Revision, "test:other", nil); !errors.Is(err, rouse.ErrConflict) {
			t.Errorf("a change of an old revision: %v", err)
		}
		if _, err := h.Relabel(t.Context(), key("out"), 0, "", nil); err == nil {
			t.Error("a timer has no target now")
		}
		if now, err := h.Get(t.Context(), key("out")); err != nil || now.Spec.Target != "test:quick" {
			t.Errorf("what was refused has changed it: %+v, %v", now, err)
		}
	})
}

// TestRelabelOfWhatAnotherNodeHas: a timer that comes due soon and that another node has gets its new target
// in one call, if it has the revision that the call names. It is sent once, to the new target.
func TestRelabelOfWhatAnotherNodeHas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, sink := mem.New(), &recorder{}
		a, b := join(t, store, newManual(0), sink, timers.Options{}), join(t, store, newManual(1), sink, timers.Options{})
		for bucket, what := range []string{"held by the node that made it", "of the bucket of another node"} {
			name := inBucket(uint32(1-bucket), 1)[0]
			was := a.put(name, "@after 3s")
			if _, err := b.Relabel(t.Context(), was.Key, was.Revision+1000, "test:b", nil); !errors.Is(err, rouse.ErrConflict) {
				t.Errorf("%s: a change of another revision: %v", what, err)
			}
			if _, err := b.Relabel(t.Context(), was.Key, was.Revision, "test:b", nil); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			time.Sleep(5 * time.Second)
			if got := sink.got(); len(got) != bucket+1 || got[bucket].Spec.Target != "test:b" {
				t.Errorf("%s: arrivals %+v, want one at its new target", what, got[bucket:])
			}
		}
	})
}
