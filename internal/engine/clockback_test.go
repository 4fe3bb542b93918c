package engine_test

import (
	"context"
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
