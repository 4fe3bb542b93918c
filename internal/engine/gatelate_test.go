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

// startLimited starts an engine with a limit of the name a, and returns how to replace that.
func startLimited(t *testing.T, sink *recorder, l rouse.Limit) (h *harness, set func(rouse.Limit)) {
	l.Name = "a"
	limits := newLimits(l)
	h = start(t, mem.New(), sink, timers.Options{Engine: engine.Options{Limits: limits}})
	return h, func(l rouse.Limit) {
		l.Name = "a"
		limits.setLimits(l)
	}
}

// wantMissedFor checks that a timer has one record, which is missed for the cause limit, and when it ended.
func (h *harness) wantMissedFor(name string, after time.Duration) {
	h.t.Helper()
	list := h.records(name)
	if len(list) != 1 || list[0].Ending != rouse.EndMissed || list[0].Cause != rouse.CauseLimit {
		h.t.Errorf("%s: %+v", name, list)
		return
	}
	if late := list[0].Ended.Sub(list[0].Due) - after; late < 0 || late > time.Second {
		h.t.Errorf("%s ended %v after %v", name, late, after)
	}
}

// TestADeadlineEndsAWaitForALimit: a deadline is applied when it passes, however long the limit lets nothing
// begin then.
func TestADeadlineEndsAWaitForALimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := &recorder{}
		h, set := startLimited(t, sink, rouse.Limit{Concurrency: 1, Paused: true})
		for i := range 3000 {
			h.put(fmt.Sprint("gone", i), "@after 1s", withLimit("a", ""), func(p *timers.Put) { p.Spec.Deadline = time.Duration(1+i%60) * time.Second })
			if i%2 == 0 { // one that leaves before its deadline
				if _, err := h.Delete(t.Context(), key(fmt.Sprint("gone", i)), 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		h.put("long", "@after 1s", withLimit("a", ""), func(p *timers.Put) { p.Spec.Deadline = time.Hour })
		h.put("free", "@after 1s", withLimit("a", ""))
		time.Sleep(2 * time.Minute)
		for _, i := range []int{1, 59, 2999} {
			h.wantMissedFor(fmt.Sprint("gone", i), time.Duration(1+i%60)*time.Second)
		}
		set(rouse.Limit{Concurrency: 1})
		time.Sleep(time.Minute)
		if got := names(sink.got()); !slices.Equal(got, []string{"free", "long"}) {
			t.Errorf("%v began", got)
		}
		if n := h.Gates(); n != 0 {
			t.Errorf("%d gates are left", n)
		}
	})
}

// TestMisfirePoliciesAfterAWaitForALimit: an occurrence that is late because of its limit is subject to the
// misfire policy when it would begin, and has the cause limit; those that are given up take nothing of the
// rate.
func TestMisfirePoliciesAfterAWaitForALimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := &recorder{}
		rate := rouse.Limit{Rate: rouse.LimitRate{Count: 1, Per: time.Minute}}
		paused := rate
		paused.Paused = true
		h, set := startLimited(t, sink, paused)
		misfire := func(m rouse.Misfire) func(*timers.Put) {
			return func(p *timers.Put) { p.Spec.Misfire = m }
		}
		within := func(p *timers.Put) { p.Spec.Misfire, p.Spec.Within = rouse.MisfireWithin, time.Minute }
		for i := range 20 {
			h.put(fmt.Sprint("within", i), "@after 1s", withLimit("a", ""), within)
		}
		h.put("skip", "@after 1s", withLimit("a", ""), misfire(rouse.MisfireSkip))
		h.put("latest", "@every 10m", withLimit("a", ""))
		h.put("late", "@after 20m", withLimit("a", ""))
		time.Sleep(55 * time.Minute)
		if n := len(sink.got()); n != 0 {
			t.Errorf("%d began", n)
		}
		set(rate)
		time.Sleep(10 * time.Second)
		if n := len(sink.got()); n != 1 {
			t.Errorf("%v began at once, want one", names(sink.got()))
		}
		time.Sleep(2 * time.Minute)
		if got := names(sink.got()); !slices.Equal(got, []string{"late", "latest"}) {
			t.Errorf("%v began", got)
		}
		for i := range 20 {
			h.wantMissedFor(fmt.Sprint("within", i), 55*time.Minute-time.Second)
		}
		h.wantMissedFor("skip", 55*time.Minute-time.Second)
		h.wantEndings("latest", "missed×4", "fired")
		if r := h.records("latest"); r[0].Cause != rouse.CauseLimit {
			t.Errorf("%+v", r[0])
		}
	})
}

// TestTheOrderOfALimitIsChanged: those that wait are sorted again, and one that kept its place until it is
// tried again gives it up.
func TestTheOrderOfALimitIsChanged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := &recorder{answer: func(_ context.Context, f rouse.Fire) rouse.Outcome {
			if time.Sleep(time.Second); f.Name == "failing" {
				return rouse.Outcome{Verdict: rouse.Failed, Detail: "not yet"}
			}
			return rouse.Outcome{Verdict: rouse.Done}
		}}
		ordered := rouse.Limit{Concurrency: 1, Order: rouse.OrderByDue}
		h, set := startLimited(t, sink, ordered)
		h.put("failing", "@after 1s", withLimit("a", ""), func(p *timers.Put) {
			p.Spec.Retry = rouse.Retry{Attempts: 5, Interval: time.Hour, Max: time.Hour, Jitter: -1}
		})
		for i := range 6 {
			h.put(fmt.Sprint(i), fmt.Sprintf("@after %dms", 2000+i), withLimit("a", ""), func(p *timers.Put) {
				p.Spec.Priority = rouse.Priority(i % 3)
			})
		}
		time.Sleep(time.Minute)
		if got := names(sink.got()); !slices.Equal(got, []string{"failing"}) {
			t.Errorf("%v began in order", got)
		}
		set(rouse.Limit{Concurrency: 1})
		time.Sleep(2500 * time.Millisecond) // three begin
		set(ordered)
		time.Sleep(time.Minute)
		var got []string
		for _, a := range sink.got() {
			got = append(got, a.Name)
		}
		if want := []string{"failing", "2", "5", "1", "0", "3", "4"}; !slices.Equal(got, want) {
			t.Errorf("%v began, want %v", got, want)
		}
	})
}

// TestALimitIsLoweredWhilePlacesAreKept: those that are tried again wait until fewer are in progress.
func TestALimitIsLoweredWhilePlacesAreKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCounted()
		busy := c.answerAfter(time.Second)
		sink := &recorder{answer: func(ctx context.Context, f rouse.Fire) rouse.Outcome {
			if busy(ctx, f); f.Attempt == 1 {
				return rouse.Outcome{Verdict: rouse.Failed, Detail: "not yet"}
			}
			return rouse.Outcome{Verdict: rouse.Done}
		}}
		h, set := startLimited(t, sink, rouse.Limit{Concurrency: 4, Order: rouse.OrderByDue})
		for i := range 4 {
			h.put(fmt.Sprint(i), "@after 1s", withLimit("a", ""), func(p *timers.Put) {
				p.Spec.Retry = rouse.Retry{Attempts: 2, Interval: time.Minute, Max: time.Minute, Jitter: -1}
			})
		}
		time.Sleep(10 * time.Second)
		c.clearMost()
		set(rouse.Limit{Concurrency: 1, Order: rouse.OrderByDue})
		time.Sleep(2 * time.Minute)
		if n := len(sink.got()); n != 8 || c.mostOf("a") != 1 {
			t.Errorf("%d attempts, %d at a time", n, c.mostOf("a"))
		}
	})
}

// TestATimerGetsAnotherLimitDuringAnAttempt: the attempt that follows has a place of the new one.
func TestATimerGetsAnotherLimitDuringAnAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := &recorder{answer: func(_ context.Context, f rouse.Fire) rouse.Outcome {
			if f.Name == "next" {
				return rouse.Outcome{Verdict: rouse.Done}
			}
			time.Sleep(5 * time.Second)
			return rouse.Outcome{Verdict: rouse.Failed, Detail: "not yet"}
		}}
		limits := newLimits(rouse.Limit{Name: "a", Concurrency: 1, Order: rouse.OrderByDue}, rouse.Limit{Name: "b", Concurrency: 1, Paused: true})
		h := start(t, mem.New(), sink, timers.Options{Engine: engine.Options{Limits: limits}})
		for i, to := range []string{"b", ""} {
			name := fmt.Sprint(i)
			edit := func(limit string) func(*timers.Put) {
				return func(p *timers.Put) {
					p.Mode, p.Spec.Limit = timers.CreateOrReplace, limit
					p.Spec.Retry = rouse.Retry{Attempts: 3, Interval: 10 * time.Second, Max: 10 * time.Second, Jitter: -1}
				}
			}
			was := h.put(name, "@every 1h", edit("a"))
			time.Sleep(time.Hour + 2*time.Second)
			if is := h.put(name, "@every 1h", edit(to)); is.Generation != was.Generation {
				t.Fatal("a new generation began")
			}
			h.put("next", "@after 1s", withLimit("a", ""))
			before := len(sink.got())
			time.Sleep(30 * time.Second)
			if got, want := names(sink.got()[before:]), [][]string{{"next"}, {"1", "1", "next"}}[i]; !slices.Equal(got, want) {
				t.Errorf("after the change to the limit %q begin %v, want %v", to, got, want)
			}
			if _, err := h.Delete(t.Context(), key(name), 0); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour) // gates that are not in use are closed now and then
			if n := h.Gates(); n != 0 {
				t.Errorf("%d gates are left", n)
			}
		}
	})
}

// TestACostlyScheduleKeepsItsTurn: whether the misfire policy gives up an occurrence whose schedule is
// expensive is found out elsewhere, and others that wait for the limit do not overtake it in the meantime.
func TestACostlyScheduleKeepsItsTurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		time.Sleep(23 * time.Hour) // no engine runs: its idle hours take long to simulate
		sink := &recorder{answer: busyFor(time.Second)}
		h, set := startLimited(t, sink, rouse.Limit{Paused: true})
		h.put("costly", "0 0 * * *", withLimit("a", ""), func(p *timers.Put) {
			p.Spec.Except = []string{"0 0 1,3-31 * *", "0 0 * 2-12 *"} // it looks at all days of a year
		})
		for i := range 3 {
			h.put(fmt.Sprint(i), "@after 2h", withLimit("a", ""))
		}
		time.Sleep(4 * time.Hour)
		before := h.Evaluations().Count
		set(rouse.Limit{Concurrency: 1})
		time.Sleep(time.Minute)
		var order []string
		for _, a := range sink.got() {
			order = append(order, a.Name)
		}
		if want := []string{"costly", "0", "1", "2"}; !slices.Equal(order, want) {
			t.Errorf("%v began, want %v", order, want)
		}
		if h.Evaluations().Count == before {
			t.Error("its schedule is not expensive")
		}
	})
}

// TestTimersLeaveWithTheBucketOfTheirLimit: the fires that are to be given back are those of the bucket that
// a node has lost, in which timers are by their limits, not by their names.
func TestTimersLeaveWithTheBucketOfTheirLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, seat := mem.New(), newManual(0, 1)
		limits := newLimits(rouse.Limit{Name: "a", Concurrency: 5, PerKey: true})
		sink := &recorder{answer: busyFor(10 * time.Second)}
		h := join(t, store, seat, sink, timers.Options{Engine: engine.Options{Limits: limits}})
		for bucket := range uint32(2) {
			for i := 0; ; i++ { // a key that is not in the bucket of the name
				spec := rouse.Spec{Limit: "a", LimitKey: fmt.Sprint(i)}
				name := inBucket(bucket, 1)[0]
				if rouse.Placed(&rouse.Timer{Key: key(name), Spec: spec}, nil, 2) != bucket {
					h.put(name, "@after 1s", withLimit("a", spec.LimitKey))
					break
				}
			}
		}
		time.Sleep(2 * time.Second)
		seat.give(0)
		time.Sleep(100 * time.Millisecond)
		leaving, got := h.Leaving(), sink.got()
		if leaving == nil || len(got) != 2 {
			t.Fatalf("%d fires are out", len(got))
		}
		for i := range got {
			placed := rouse.BucketOf(key(got[i].Name), 2) == 0
			if leaving(&got[i].Fire) != placed {
				t.Errorf("the fire of %s is leaving: %v", got[i].Name, !placed)
			}
		}
	})
}
