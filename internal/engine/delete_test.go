package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

func TestDueOccurrencesAreRecordedWhenTheirTimerIsDeleted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		one := func(ns string, s *rouse.Spec) rouse.Lane { return rouse.Lane{Name: "one", Limit: 1, Batch: 1} }
		h := start(t, mem.New(), &recorder{lane: one, answer: busyFor(time.Hour)}, timers.Options{})
		h.put("first", "@after 1s")
		h.put("a", "@every 1m", func(p *timers.Put) { p.Spec.Overlap = rouse.OverlapAllow })
		h.put("run", "@after 24h")
		time.Sleep(3*time.Minute + time.Second)
		if _, _, err := h.RunNow(ctx, key("run")); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "run"} {
			if _, err := h.Delete(ctx, key(name), 0); err != nil {
				t.Fatal(err)
			}
		}
		h.wantEndings("a", "skipped", "skipped", "skipped") // each had its own row next to the timer
		h.wantEndings("run", "skipped")                     // it was requested, and its id was returned
	})
}

// TestADeleteThatWasCutOffIsFinished: a delete removes the occurrences next to a timer, even if the timer
// itself is already gone.
func TestADeleteThatWasCutOffIsFinished(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{answer: func(context.Context, rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Failed, Detail: "busy"}
		}}, timers.Options{})
		made := h.put("a", "@every 1m", func(p *timers.Put) { p.Spec.Overlap = rouse.OverlapAllow })
		time.Sleep(61 * time.Second)
		if _, err := h.store.Apply(t.Context(), []rouse.Change{{Key: key("a"), If: rouse.AnyRevision}}); err != nil { // a delete that crashed halfway
			t.Fatal(err)
		}
		if d, err := h.Delete(t.Context(), key("a"), 0); err != nil || d.Generation != made.Generation {
			t.Errorf("delete: %+v, %v", d, err)
		}
		if n, err := h.Count(t.Context(), rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateFiring}}); err != nil || n != 0 {
			t.Errorf("%d occurrences go on, %v", n, err)
		}
	})
}

func TestGoneFromAnOverlappingOccurrenceEndsItsTimer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{answer: answerBy(func(rouse.Fire) rouse.Outcome { return rouse.Outcome{Verdict: rouse.Gone} })}, timers.Options{})
		h.put("a", "@every 1m", func(p *timers.Put) { p.Spec.Overlap = rouse.OverlapAllow })
		time.Sleep(10 * time.Minute)
		if n := len(h.sink.got()); n != 1 {
			t.Errorf("%d fires after the target wanted no more", n)
		}
		if _, err := h.Get(t.Context(), key("a")); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("the timer is still there: %v", err)
		}
	})
}
