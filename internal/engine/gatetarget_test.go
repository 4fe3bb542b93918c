package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// withTarget is an edit of a put.
func withTarget(target string) func(*timers.Put) {
	return func(p *timers.Put) { p.Spec.Target = target }
}

// startTargeted starts an engine with limits, whose target takes a second for each fire.
func startTargeted(t *testing.T, list ...rouse.Limit) (h *harness, limits *someLimits, sink *recorder, c *counted) {
	limits, c = newLimits(list...), newCounted()
	sink = &recorder{answer: func(_ context.Context, f rouse.Fire) rouse.Outcome {
		c.addRunning(f.Spec.Target, 1)
		time.Sleep(time.Second)
		c.addRunning(f.Spec.Target, -1)
		return rouse.Outcome{Verdict: rouse.Done}
	}}
	return start(t, mem.New(), sink, timers.Options{Engine: engine.Options{Limits: limits}}), limits, sink, c
}

// TestALimitOfATargetBoundsItsTimers: all timers with the target, those that name a limit, too, and no
// others.
func TestALimitOfATargetBoundsItsTimers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h, _, sink, c := startTargeted(t, rouse.Limit{Name: "target:test:a", Concurrency: 3},
			rouse.Limit{Name: "named", Concurrency: 2}, rouse.Limit{Name: "wide", Concurrency: 8})
		began := time.Now()
		for i := range 30 {
			limit := []string{"", "named", "wide"}[i%3]
			h.put(fmt.Sprint(i), "@after 1s", withLimit(limit, ""))
			h.put(fmt.Sprint("b", i), "@after 1s", withTarget("test:b"))
		}
		time.Sleep(5500 * time.Millisecond)
		uses := h.LimitUses("n", "")
		if use := uses[rouse.Key{Namespace: "n", Name: "target:test:a"}]; use.InProgress != 3 || use.Waiting == 0 || use.Oldest == 0 {
			t.Errorf("in use %+v", use)
		}
		time.Sleep(time.Minute)
		if got := len(sink.got()); got != 60 || c.mostOf("test:a") != 3 || c.mostOf("test:b") != 30 {
			t.Errorf("%d fires, %d and %d at a time", got, c.mostOf("test:a"), c.mostOf("test:b"))
		}
		last := sink.got()[59].at.Sub(began)
		if last < 9900*time.Millisecond || last > 12*time.Second {
			t.Errorf("the last one began after %v", last)
		}
		for name, use := range h.LimitUses("n", "") {
			if use.Waiting != 0 || use.InProgress != 0 {
				t.Errorf("%s: %+v", name.Name, use)
			}
		}
	})
}

// TestALimitOfATargetHasARate: a share of it is the same at a slower rate.
func TestALimitOfATargetHasARate(t *testing.T) {
	for _, part := range []float64{1, 0.25} {
		bubble(t, func(t *testing.T) {
			h, limits, sink, _ := startTargeted(t, rouse.Limit{Name: "target:test:a", Rate: rouse.LimitRate{Count: 20, Per: time.Second}})
			limits.setShare(part)
			for i := range 300 {
				h.put(fmt.Sprint(i), "@after 1s")
			}
			time.Sleep(11 * time.Second)
			want := int(200 * part)
			if got := len(sink.got()); got < want-2 || got > want+3 {
				t.Errorf("%d began in 10 s, want %d", got, want)
			}
		})
	}
}

// TestANodeWithoutAShareWaits: until it has one. What has begun when it loses its share ends.
func TestANodeWithoutAShareWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h, limits, sink, c := startTargeted(t, rouse.Limit{Name: "target:test:a", Concurrency: 4})
		limits.setShare(0)
		for i := range 20 {
			h.put(fmt.Sprint(i), "@after 1s")
		}
		time.Sleep(10 * time.Second)
		if got := len(sink.got()); got != 0 {
			t.Errorf("%d began without a share", got)
		}
		limits.setShare(0.5)
		time.Sleep(2500 * time.Millisecond)
		limits.setShare(0)
		time.Sleep(10 * time.Second)
		if got := len(sink.got()); c.mostOf("test:a") != 2 || got < 4 || got > 8 {
			t.Errorf("%d began, %d at a time", got, c.mostOf("test:a"))
		}
	})
}

// TestALimitOfATargetHoldsThoseThatWait: also those that were in the lane of their target already when it was
// made or paused.
func TestALimitOfATargetHoldsThoseThatWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h, limits, sink, c := startTargeted(t)
		for i := range 400 {
			h.put(fmt.Sprint(i), "@after 1s")
			h.put(fmt.Sprint("b", i), "@after 1s", withTarget("test:b"))
		}
		fired := func(target string) (n int) {
			for _, a := range sink.got() {
				if a.Spec.Target == target {
					n++
				}
			}
			return n
		}
		time.Sleep(1500 * time.Millisecond)
		limits.setLimits(rouse.Limit{Name: "target:test:a", Rate: rouse.LimitRate{Count: 200, Per: time.Second}, Paused: true})
		time.Sleep(time.Minute)
		if a, b := fired("test:a"), fired("test:b"); a != 64 || b != 400 {
			t.Errorf("%d and %d began, want those that were out and all", a, b)
		}
		limits.setLimits(rouse.Limit{Name: "target:test:a", Rate: rouse.LimitRate{Count: 200, Per: time.Second}})
		time.Sleep(1500 * time.Millisecond) // more have passed the gate than the lane lets out
		limits.setLimits(rouse.Limit{Name: "target:test:a", Concurrency: 5, Paused: true})
		time.Sleep(time.Second)
		a := fired("test:a")
		c.clearMost()
		time.Sleep(time.Minute)
		if now := fired("test:a"); a < 128 || a > 300 || now != a {
			t.Errorf("%d began, and %d while it was paused", a, now-a)
		}
		limits.setLimits(rouse.Limit{Name: "target:test:a", Concurrency: 5})
		time.Sleep(2 * time.Minute)
		if a := fired("test:a"); a != 400 || c.mostOf("test:a") != 5 {
			t.Errorf("%d began, %d at a time", a, c.mostOf("test:a"))
		}
		for name, use := range h.LimitUses("n", "") {
			if use.Waiting != 0 || use.InProgress != 0 {
				t.Errorf("%s: %+v", name.Name, use)
			}
		}
	})
}

// TestTheLimitOfATargetIsACause: of those whose deadline passes while they wait, also if they wait for the
// limit that they name before.
func TestTheLimitOfATargetIsACause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h, limits, sink, _ := startTargeted(t, rouse.Limit{Name: "target:test:a", Concurrency: 1, Paused: true},
			rouse.Limit{Name: "named", Concurrency: 1})
		for i, limit := range []string{"", "named", "named"} {
			h.put(fmt.Sprint(i), "@after 1s", withLimit(limit, ""), func(p *timers.Put) { p.Spec.Deadline = 5 * time.Second })
		}
		h.put("stays", "@after 1s")
		time.Sleep(3 * time.Second)
		if p := h.Progress(key("stays")); !p.AtLimit || p.Named.Name != "target:test:a" || p.Before != 2 {
			t.Errorf("%+v", p)
		}
		time.Sleep(time.Minute)
		for i := range 3 {
			h.wantMissedFor(fmt.Sprint(i), 5*time.Second)
		}
		limits.removeLimit("target:test:a")
		time.Sleep(time.Second)
		if got := sink.got(); len(got) != 1 || got[0].Name != "stays" {
			t.Errorf("%d began when the limit was gone", len(got))
		}
	})
}

// TestARetryLeavesThePlaceAtItsTarget: and keeps that of a limit in order.
func TestARetryLeavesThePlaceAtItsTarget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h, _, sink, _ := startTargeted(t, rouse.Limit{Name: "target:test:a", Concurrency: 1},
			rouse.Limit{Name: "ledger", Concurrency: 1, Order: rouse.OrderByDue})
		sink.answers(func(_ context.Context, f rouse.Fire) rouse.Outcome {
			if f.Name == "fails" && f.Attempt < 3 {
				return rouse.Outcome{Verdict: rouse.Failed}
			}
			return rouse.Outcome{Verdict: rouse.Done}
		})
		h.put("fails", "@after 1s", withLimit("ledger", ""), func(p *timers.Put) {
			p.Spec.Retry = rouse.Retry{Attempts: 5, Interval: 10 * time.Second, Factor: 1}
		})
		h.put("next", "@after 2s", withLimit("ledger", ""))
		h.put("other", "@after 2s")
		time.Sleep(time.Minute)
		var order []string
		for _, a := range sink.got() {
			order = append(order, a.Name)
		}
		if want := []string{"fails", "other", "fails", "fails", "next"}; !slices.Equal(order, want) {
			t.Errorf("%v, want %v", order, want)
		}
	})
}
