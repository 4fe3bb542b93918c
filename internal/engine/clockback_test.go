package engine_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

func TestAClockThatGoesBackTakesQueuedFiresBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var shift atomic.Int64
		clock := func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }
		one := func(ns string, s *rouse.Spec) rouse.Lane { return rouse.Lane{Name: "one", Limit: 1, Batch: 1} }
		for _, direct := range []bool{true, false} {
			shift.Store(0)
			var early atomic.Int32
			h := start(t, mem.NewWithClock(clock), &recorder{lane: one, answer: func(ctx context.Context, f rouse.Fire) rouse.Outcome {
				if f.Due > rouse.Reached(clock()) {
					early.Add(1)
				}
				backoff.Sleep(ctx, time.Minute)
				return rouse.Outcome{Verdict: rouse.Done}
			}}, timers.Options{Engine: engine.Options{Direct: direct}})
			h.put("first", "@after 1h")
			h.put("second", "@after 1h")
			time.Sleep(time.Hour + time.Second)
			shift.Store(int64(-30 * time.Minute))
			if err := h.ClockMoved(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Minute)
			if n := len(h.sink.got()); n != 1 || early.Load() != 0 {
				t.Errorf("%d fires, %d early", n, early.Load())
			}
			time.Sleep(20 * time.Minute)
			if n := len(h.sink.got()); n != 2 || early.Load() != 0 {
				t.Errorf("%d fires, %d early", n, early.Load())
			}
			if st := h.Stats(); st.Window != 0 || st.Bytes != 0 || st.Queued != 0 || st.Out != 0 {
				t.Errorf("left: %+v", st)
			}
			h.stop()
		}
	})
}

// The store's clock was ahead for hours, and is set right: what fired too early, waits since then, or was
// made at that time, is set right by a replan.
func TestTimersAreSetRightAfterTheClockWasAhead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var shift atomic.Int64
		clock := func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }
		h := start(t, mem.NewWithClock(clock), &recorder{answer: func(_ context.Context, f rouse.Fire) rouse.Outcome {
			if f.Name == "fails" {
				return rouse.Outcome{Verdict: rouse.Failed}
			}
			return rouse.Outcome{Verdict: rouse.Done}
		}}, timers.Options{})
		h.put("minutely", "* * * * *")
		h.put("hourly", "@every 1h")
		h.put("tomorrow", time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339))
		if from, err := h.Timers.Clock.Keep(t.Context(), true); err != nil || from != 0 {
			t.Fatalf("%v, %v", from, err)
		}
		shift.Store(int64(8 * time.Hour))
		time.Sleep(10 * time.Minute)
		h.put("made", "@after 10m")
		h.put("fails", "@every 1m", func(p *timers.Put) {
			p.Spec.Retry = rouse.Retry{Interval: 30 * time.Minute, Max: 30 * time.Minute}
		})
		time.Sleep(2 * time.Minute)
		if from, err := h.Timers.Clock.Keep(t.Context(), true); err != nil || from != 0 {
			t.Fatalf("%v, %v", from, err)
		}
		shift.Store(0)
		time.Sleep(5 * time.Minute)
		since := func(from time.Time) map[string]int {
			n := map[string]int{}
			for _, a := range h.sink.got() {
				if !a.at.Before(from) {
					n[a.Name]++
				}
			}
			return n
		}
		if n := since(time.Now().Add(-4 * time.Minute)); len(n) != 0 {
			t.Errorf("fired after the clock was set right, before the timers were: %v", n)
		}
		from, err := h.Timers.Clock.Keep(t.Context(), true)
		if err != nil || from < rouse.Reached(time.Now().Add(7*time.Hour)) || h.Timers.Clock.WasAhead() == nil {
			t.Errorf("a clock that was ahead is not noticed: %v, %v, %v", from, h.Timers.Clock.WasAhead(), err)
		}
		x, err := h.Explain(t.Context(), key("minutely"), 0)
		if err != nil || x.Reasons[0].Code != "clock" || !strings.Contains(x.Reasons[0].Cure, "clock repair") {
			t.Errorf("explained as %+v, %v", x.Reasons, err)
		}
		for _, want := range []uint64{4, 0} { // the second time nothing is left to do
			var sum timers.BulkProgress
			err := h.Bulk(t.Context(), timers.BulkRequest{Action: "replan"}, func(p timers.BulkProgress) error {
				sum.Matched, sum.Changed, sum.Failed = p.Matched, p.Changed, p.Failed
				sum.Failures = append(sum.Failures, p.Failures...)
				return nil
			})
			if err != nil || sum.Changed != want || sum.Failed != 0 {
				t.Errorf("set right: %+v, %v, want %d", sum, err, want)
			}
		}
		right := time.Now()
		if h.Timers.Clock.WasAhead() != nil {
			t.Errorf("timers are set right, and still %v", h.Timers.Clock.WasAhead())
		}
		time.Sleep(61 * time.Minute)
		n := since(right)
		if n["minutely"] != 61 || n["hourly"] != 1 || n["made"] != 1 || n["fails"] < 2 || n["tomorrow"] != 0 {
			t.Errorf("in the next hour fired: %v", n)
		}
	})
}

// Calls that come after the store's clock was ahead do not wait for what was written at that time.
func TestCallsAfterTheClockWasAheadDoNotWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var shift atomic.Int64
		clock := func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }
		h := start(t, mem.NewWithClock(clock), &recorder{}, timers.Options{})
		h.put("runs", "0 0 1 1 *")
		h.put("runs aside", "0 0 1 1 *", func(p *timers.Put) { p.Spec.Overlap = rouse.OverlapAllow })
		shift.Store(int64(8 * time.Hour))
		time.Sleep(time.Minute)
		for range 2 { // ahead, and after that
			for _, name := range []string{"runs", "runs aside"} {
				if _, _, err := h.RunNow(t.Context(), key(name)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Minute)
			shift.Store(0)
			time.Sleep(time.Minute)
		}
		if got := h.sink.got(); len(got) != 4 {
			t.Errorf("%d fires, want 4", len(got))
		}
	})
}
