package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// dues returns the due times of a timer's scheduled fires as offsets from the bubble's start, in order of
// arrival.
func (h *harness) dues(name string, from time.Time) (list []time.Duration) {
	for _, a := range h.sink.got() {
		if a.Name == name && !a.Manual {
			list = append(list, a.Due.Time().Sub(from).Truncate(10*time.Millisecond)) // a start is rounded up to the store's resolution
		}
	}
	return list
}

func (h *harness) records(name string) []rouse.Record {
	h.t.Helper()
	page, err := h.Records(context.Background(), rouse.RecordQuery{Namespace: "n", Name: name, Limit: 1000})
	if err != nil {
		h.t.Fatal(err)
	}
	slices.Reverse(page.Records)
	return page.Records
}

func (h *harness) wantEndings(name string, want ...string) {
	h.t.Helper()
	var got []string
	for _, r := range h.records(name) {
		s := r.Ending.String()
		if r.Count > 1 {
			s += fmt.Sprint("×", r.Count)
		}
		got = append(got, s)
	}
	if !slices.Equal(got, want) {
		h.t.Errorf("%s: records %v, want %v: %+v", name, got, want, h.records(name))
	}
}

func minutes(n ...int) (list []time.Duration) {
	for _, m := range n {
		list = append(list, time.Duration(m)*time.Minute)
	}
	return list
}

func TestAPauseEndsByItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		from := time.Now()
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		h.put("a", "@every 1m")
		if _, err := h.Pause(t.Context(), key("a"), "incident", rouse.At(from.Add(3*time.Minute+30*time.Second))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5*time.Minute + time.Second)
		if got := h.dues("a", from); !slices.Equal(got, minutes(4, 5)) {
			t.Errorf("fired %v", got)
		}
		h.wantEndings("a", "skipped×3", "fired", "fired")
		if _, err := h.Pause(t.Context(), key("a"), "", rouse.At(from)); err == nil {
			t.Error("a pause until a past time was taken")
		}
	})
}

// busy answers after a delay.
func busyFor(d time.Duration) func(context.Context, rouse.Fire) rouse.Outcome {
	return func(ctx context.Context, f rouse.Fire) rouse.Outcome {
		backoff.Sleep(ctx, d)
		return rouse.Outcome{Verdict: rouse.Done}
	}
}

func TestOverlapPolicies(t *testing.T) {
	for _, c := range []struct {
		overlap rouse.Overlap
		misfire rouse.Misfire
		want    []time.Duration
		endings []string
	}{
		// Each takes 2m30s, with one due every minute.
		{rouse.OverlapWait, rouse.MisfireAll, minutes(1, 2, 3), []string{"fired", "fired"}},
		{rouse.OverlapWait, rouse.MisfireLatest, minutes(1, 3, 6), []string{"fired", "missed", "fired", "missed×2"}},
		{rouse.OverlapSkip, rouse.MisfireLatest, minutes(1, 4, 7), []string{"fired", "skipped×2", "fired", "skipped×2"}},
		{rouse.OverlapAllow, rouse.MisfireLatest, minutes(1, 2, 3, 4, 5, 6, 7), []string{"fired", "fired", "fired", "fired"}},
	} {
		t.Run(c.overlap.String()+" "+c.misfire.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				from := time.Now()
				h := start(t, mem.New(), &recorder{answer: busyFor(150 * time.Second)}, timers.Options{Engine: engine.Options{Grace: time.Hour}})
				h.put("a", "@every 1m", func(p *timers.Put) { p.Spec.Overlap, p.Spec.Misfire = c.overlap, c.misfire })
				time.Sleep(7*time.Minute + 10*time.Second)
				if got := h.dues("a", from); !slices.Equal(got, c.want) {
					t.Errorf("fired %v, want %v", got, c.want)
				}
				var got []string
				for _, r := range h.records("a") {
					s := r.Ending.String()
					if r.Count > 1 {
						s += fmt.Sprint("×", r.Count)
					}
					got = append(got, s)
				}
				if !slices.Equal(got, c.endings) {
					t.Errorf("records %v, want %v", got, c.endings)
				}
			})
		})
	}
}

func TestOverlappingOccurrencesEndWithTheirTimer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fail := func(context.Context, rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Failed, Detail: "no"}
		}
		h := start(t, mem.New(), &recorder{answer: fail}, timers.Options{})
		h.put("a", "@every 1m", func(p *timers.Put) {
			p.Spec.Overlap, p.Spec.Retry = rouse.OverlapAllow, rouse.Retry{Attempts: 5, Interval: 10 * time.Minute, Max: time.Hour, Jitter: -1}
		})
		time.Sleep(3*time.Minute + time.Second)
		if n, _ := h.Count(t.Context(), rouse.Query{States: []rouse.State{rouse.StateFiring}}); n != 3 {
			t.Fatalf("%d occurrences on their way, want 3", n)
		}
		if timers, _, _ := h.List(t.Context(), rouse.Query{Namespace: "n", Limit: 10}); len(timers) != 1 {
			t.Errorf("a list of timers shows %d rows", len(timers))
		}
		before := len(h.sink.got())
		if _, err := h.Delete(t.Context(), key("a"), 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour) // the last of their retries would have been sent
		if n := len(h.sink.got()); n != before {
			t.Errorf("%d attempts after the delete", n-before)
		}
		h.wantEndings("a", "skipped", "skipped", "skipped")
	})
}

func TestADeadlineEndsWhatIsLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		from := time.Now()
		h := start(t, store, &recorder{}, timers.Options{})
		h.put("late", "@after 1m", func(p *timers.Put) { p.Spec.Deadline = 10 * time.Second })
		h.put("intime", "@after 1m", func(p *timers.Put) { p.Spec.Deadline = time.Hour })
		h.put("recurring", "@every 1m", func(p *timers.Put) { p.Spec.Deadline, p.Spec.Misfire = 90*time.Second, rouse.MisfireAll })
		h.stop()
		time.Sleep(5*time.Minute + 5*time.Second)
		h = start(t, store, &recorder{}, timers.Options{})
		time.Sleep(time.Second)
		h.wantEndings("late", "missed")
		h.wantEndings("intime", "fired")
		if got := h.dues("recurring", from); !slices.Equal(got, minutes(4, 5)) {
			t.Errorf("fired %v", got)
		}
		h.wantEndings("recurring", "missed×3", "fired", "fired")
		if r := h.records("late")[0]; !strings.Contains(r.Reason, "deadline") {
			t.Errorf("reason %q", r.Reason)
		}

		// One that fails until its deadline becomes a dead letter.
		h.sink.answers(func(context.Context, rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Failed, Detail: "busy"}
		})
		h.put("failing", "@after 1s", func(p *timers.Put) {
			p.Spec.Deadline, p.Spec.Retry = 10*time.Second, rouse.Retry{Attempts: 100, Interval: 3 * time.Second, Factor: 1, Jitter: -1}
		})
		time.Sleep(time.Minute)
		h.wantEndings("failing", "dead")
		if r := h.records("failing")[0]; r.Attempts != 4 || !strings.Contains(r.Reason, "deadline") || !strings.Contains(r.Reason, "busy") || len(r.Failures) != 4 {
			t.Errorf("record %+v", r)
		}
	})
}

func TestAFireThatWaitsInItsLanePastItsDeadlineIsNotSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		one := func(ns string, s *rouse.Spec) rouse.Lane { return rouse.Lane{Name: "one", Limit: 1, Batch: 1} }
		h := start(t, mem.New(), &recorder{answer: busyFor(30 * time.Second), lane: one}, timers.Options{})
		h.put("first", "@after 1s")
		h.put("second", "@after 2s", func(p *timers.Put) { p.Spec.Deadline = 10 * time.Second })
		time.Sleep(2 * time.Minute)
		if n := len(h.sink.got()); n != 1 {
			t.Errorf("%d attempts, want the first one only", n)
		}
		h.wantEndings("second", "missed")
	})
}

func TestMisfireWithin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		from := time.Now()
		h := start(t, store, &recorder{}, timers.Options{})
		h.put("a", "@every 1m", func(p *timers.Put) { p.Spec.Misfire, p.Spec.Within = rouse.MisfireWithin, 3*time.Minute })
		h.put("once", "@after 1m", func(p *timers.Put) { p.Spec.Misfire = rouse.MisfireSkip })
		h.stop()
		time.Sleep(10*time.Minute + 30*time.Second)
		h = start(t, store, &recorder{}, timers.Options{})
		time.Sleep(time.Second)
		if got := h.dues("a", from); !slices.Equal(got, minutes(8, 9, 10)) {
			t.Errorf("fired %v", got)
		}
		h.wantEndings("a", "missed×7", "fired", "fired", "fired")
		h.wantEndings("once", "missed")
	})
}

func TestJitterIsStableAndWithinItsBound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		h.put("a", "@every 1m", func(p *timers.Put) { p.Spec.Jitter = 30 * time.Second })
		time.Sleep(30 * time.Minute)
		got := h.sink.got()
		if len(got) < 29 {
			t.Fatalf("%d fires", len(got))
		}
		different := map[time.Duration]bool{}
		for _, a := range got {
			late := a.at.Sub(a.Due.Time())
			if late < 0 || late > 30*time.Second+10*time.Millisecond || a.at.Before(a.At.Time()) {
				t.Errorf("sent %v after it was due", late)
			}
			different[late] = true
		}
		if len(different) < 20 {
			t.Errorf("only %d different delays of %d", len(different), len(got))
		}
		if _, err := h.Put(t.Context(), nil); err != nil {
			t.Error(err)
		}
		res, err := h.Put(t.Context(), []timers.Put{{Key: key("b"), Spec: rouse.Spec{Schedule: "@every 1m", Target: "t:", Jitter: time.Minute}}})
		if inv := new(rouse.Invalid); err != nil || !errors.As(res[0].Err, &inv) || inv.Problems[0].Field != "jitter" {
			t.Errorf("a jitter of a whole interval: %v, %v", res, err)
		}
	})
}

func TestMaxOccurrencesAndKeep(t *testing.T) {
	bubble(t, func(t *testing.T) {
		from := time.Now()
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		h.put("a", "@every 1m", func(p *timers.Put) { p.Spec.MaxOccurrences, p.Spec.Keep = 3, time.Hour })
		h.put("b", "@every 1m", func(p *timers.Put) { p.Spec.TTL = 150 * time.Second })
		h.put("c", "@after 1m", func(p *timers.Put) { p.Spec.Keep = -1 })
		if _, _, err := h.RunNow(t.Context(), key("a")); err != nil { // does not count
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if got := h.dues("a", from); !slices.Equal(got, minutes(1, 2, 3)) {
			t.Errorf("a fired %v", got)
		}
		if tm, err := h.Get(t.Context(), key("a")); err != nil || tm.State() != rouse.StateEnded || tm.Ended != 4 {
			t.Errorf("a ended as %+v, %v", tm, err)
		}
		time.Sleep(time.Hour)
		if _, err := h.Get(t.Context(), key("a")); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("a was kept for longer: %v", err)
		}
		if tm, err := h.Get(t.Context(), key("c")); err != nil || tm.State() != rouse.StateEnded {
			t.Errorf("c: %+v, %v", tm, err)
		}
		_ = from
	})
}

func TestSkipAndReschedule(t *testing.T) {
	bubble(t, func(t *testing.T) {
		from := time.Now()
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		h.put("a", "@every 1m")
		if tm, err := h.Skip(t.Context(), key("a"), 2, "maintenance"); err != nil || tm.Due.Time().Sub(from).Truncate(time.Second) != 3*time.Minute {
			t.Fatalf("skip: due %v, %v", tm.Due, err)
		}
		time.Sleep(3*time.Minute + time.Second)
		if got := h.dues("a", from); !slices.Equal(got, minutes(3)) {
			t.Errorf("fired %v", got)
		}
		h.wantEndings("a", "skipped×2", "fired")
		if r := h.records("a")[0]; !strings.Contains(r.Reason, "maintenance") {
			t.Errorf("reason %q", r.Reason)
		}
		before, _ := h.Get(t.Context(), key("a"))
		res, err := h.Reschedule(t.Context(), key("a"), rouse.Spec{Schedule: "@every 1h"}, 0, false)
		if err != nil || res.Timer.Generation <= before.Generation || res.Timer.Spec.Target != before.Spec.Target || res.Timer.Ended != before.Ended {
			t.Fatalf("rescheduled %+v, %v", res, err)
		}
		time.Sleep(2*time.Hour + time.Second)
		if got := h.dues("a", from); len(got) != 3 || got[1] != time.Hour+3*time.Minute+time.Second {
			t.Errorf("fired %v", got)
		}
		if _, err := h.Reschedule(t.Context(), key("a"), rouse.Spec{Schedule: "@every 1h"}, 1, false); !errors.Is(err, rouse.ErrConflict) {
			t.Errorf("an old revision: %v", err)
		}
		// While one is in progress, skip applies to the next ones.
		h.sink.answers(busyFor(90 * time.Second))
		h.put("b", "@every 1m", func(p *timers.Put) { p.Spec.Misfire = rouse.MisfireAll })
		now := time.Now()
		time.Sleep(61 * time.Second)
		if _, err := h.Skip(t.Context(), key("b"), 1, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Minute)
		if got := h.dues("b", now); len(got) < 2 || got[1] != 3*time.Minute {
			t.Errorf("b fired %v", got)
		}
	})
}

func TestBackfillFiresThePastWithItsOwnIds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		time.Sleep(24 * time.Hour) // the bubble starts in the year 2000, before which nothing was due
		from := time.Now()
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		tm := h.put("a", "*/10 * * * *")
		ctx := t.Context()
		b, err := h.Backfill(ctx, key("a"), timers.BackfillRequest{From: rouse.At(from.Add(-time.Hour)), Until: rouse.At(from), DryRun: true})
		if err != nil || b.Count != 6 || b.Waiting != 0 || len(h.sink.got()) != 0 {
			t.Fatalf("dry run: %+v, %v", b, err)
		}
		if b, err = h.Backfill(ctx, key("a"), timers.BackfillRequest{From: rouse.At(from.Add(-time.Hour)), Until: rouse.At(from)}); err != nil || b.Count != 6 {
			t.Fatalf("%+v, %v", b, err)
		}
		time.Sleep(time.Second)
		got := h.dues("a", from)
		slices.Sort(got)
		if !slices.Equal(got, minutes(-60, -50, -40, -30, -20, -10)) {
			t.Errorf("fired %v", got)
		}
		for _, a := range h.sink.got() {
			if a.ID != rouse.FireID("n", "a", tm.Generation, a.Due, false) {
				t.Errorf("id of %v is not its own", a.Due)
			}
		}
		if n, _ := h.Count(ctx, rouse.Query{States: []rouse.State{rouse.StateFiring}}); n != 0 {
			t.Errorf("%d rows are left", n)
		}
		if _, err = h.Backfill(ctx, key("a"), timers.BackfillRequest{From: rouse.At(from), Until: rouse.At(from.Add(time.Hour))}); err == nil {
			t.Error("the future was backfilled")
		}
	})
}

func TestDebounceAndThrottle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		from := time.Now()
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		call := func(name, payload string, c rouse.Coalesce) {
			t.Helper()
			if _, err := h.Coalesce(ctx, key(name), rouse.Spec{Target: "test:a", Payload: []byte(payload)}, c); err != nil {
				t.Fatal(err)
			}
		}
		fires := func(name string) (list []string) {
			for _, a := range h.sink.got() {
				if a.Name == name {
					list = append(list, fmt.Sprintf("%s@%v", a.Spec.Payload, a.at.Sub(from).Round(100*time.Millisecond)))
				}
			}
			return list
		}
		for i := range 10 { // a call every 2 s for 20 s
			call("quiet", fmt.Sprint(i), rouse.Coalesce{Quiet: 5 * time.Second})
			call("bounded", fmt.Sprint(i), rouse.Coalesce{Quiet: 5 * time.Second, MaxWait: 11 * time.Second})
			call("throttled", fmt.Sprint(i), rouse.Coalesce{Every: 10 * time.Second})
			time.Sleep(2 * time.Second)
		}
		time.Sleep(time.Minute)
		for name, want := range map[string][]string{"quiet": {"9@23s"}, "bounded": {"5@11s", "9@23s"}, "throttled": {"0@0s", "5@10s", "9@20s"}} {
			if got := fires(name); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
		}
		if timers, _, _ := h.List(ctx, rouse.Query{Namespace: "n", Limit: 10}); len(timers) != 0 {
			t.Errorf("left: %+v", timers)
		}
		h.put("recurring", "@every 1m")
		if _, err := h.Coalesce(ctx, key("recurring"), rouse.Spec{Target: "test:a"}, rouse.Coalesce{Quiet: time.Second}); !errors.Is(err, rouse.ErrConflict) {
			t.Errorf("merged into a recurring timer: %v", err)
		}
		if _, err := h.Coalesce(ctx, key("x"), rouse.Spec{Target: "test:a", Schedule: "@every 1m"}, rouse.Coalesce{Quiet: time.Second}); err == nil {
			t.Error("a schedule together with debounce was accepted")
		}
	})
}

func TestARateHoldsBackALaneAndNothingElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		from := time.Now()
		limit := func(ns string, s *rouse.Spec, l rouse.Lane) rouse.Lane {
			if s.Target == "test:slow" {
				l.Rate, l.Burst = 10, 5
			}
			return l
		}
		h := start(t, mem.New(), &recorder{}, timers.Options{Engine: engine.Options{Limit: limit}})
		for i := range 50 {
			for _, target := range []string{"test:slow", "test:fast"} {
				h.put(fmt.Sprint(target, i), "@after 1s", func(p *timers.Put) { p.Spec.Target = target })
			}
		}
		time.Sleep(time.Minute)
		last := map[string]time.Duration{}
		perSecond := map[time.Duration]int{}
		for _, a := range h.sink.got() {
			at := a.at.Sub(from)
			last[a.Spec.Target] = max(last[a.Spec.Target], at)
			if a.Spec.Target == "test:slow" {
				perSecond[at.Truncate(time.Second)]++
			}
		}
		if len(h.sink.got()) != 100 || last["test:fast"] > 1100*time.Millisecond || last["test:slow"] < 5400*time.Millisecond || last["test:slow"] > 5700*time.Millisecond {
			t.Errorf("%d fires, the last ones at %v", len(h.sink.got()), last)
		}
		for s, n := range perSecond {
			if n > 15 {
				t.Errorf("%d fires in the second from %v on", n, s)
			}
		}
	})
}

func TestCatchingUpDoesNotFloodNorDelayTheRest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		lane := func(ns string, s *rouse.Spec) rouse.Lane {
			return rouse.Lane{Name: s.Target, Limit: 64, Batch: 1, CatchUp: 10}
		}
		h := start(t, store, &recorder{}, timers.Options{})
		for i := range 100 {
			h.put(fmt.Sprint("old", i), "@after 1m")
		}
		h.stop()
		time.Sleep(time.Hour)
		from := time.Now()
		h = start(t, store, &recorder{lane: lane}, timers.Options{})
		for i := range 20 {
			h.put(fmt.Sprint("new", i), "@after 2s")
		}
		time.Sleep(5 * time.Second)
		x, err := h.Explain(t.Context(), key("old99"), 0)
		if err != nil || !strings.Contains(x.Summary, "10 a second (catch-up-rate)") {
			t.Errorf("what waits for the rate is explained as %q, %v", x.Summary, err)
		}
		time.Sleep(55 * time.Second)
		var old, fresh time.Duration
		for _, a := range h.sink.got() {
			if at := a.at.Sub(from); strings.HasPrefix(a.Name, "old") {
				old = max(old, at)
			} else {
				fresh = max(fresh, at)
			}
		}
		if len(h.sink.got()) != 120 || fresh > 2100*time.Millisecond || old < 8900*time.Millisecond || old > 10*time.Second {
			t.Errorf("%d fires; the last of the old ones after %v, of the new ones after %v", len(h.sink.got()), old, fresh)
		}
	})
}

func TestPrioritiesShareALane(t *testing.T) {
	bubble(t, func(t *testing.T) {
		one := func(ns string, s *rouse.Spec) rouse.Lane { return rouse.Lane{Name: "one", Limit: 1, Batch: 1} }
		h := start(t, mem.New(), &recorder{lane: one, answer: busyFor(10 * time.Millisecond)}, timers.Options{})
		for i := range 100 {
			for _, p := range []rouse.Priority{rouse.PriorityLow, rouse.PriorityNormal, rouse.PriorityHigh} {
				h.put(fmt.Sprint(p, i), "@after 1s", func(put *timers.Put) { put.Spec.Priority = p })
			}
		}
		time.Sleep(time.Minute)
		got := h.sink.got()
		if len(got) != 300 {
			t.Fatalf("%d fires", len(got))
		}
		first := map[rouse.Priority]int{}
		for _, a := range got[:105] {
			first[a.Spec.Priority]++
		}
		if first[rouse.PriorityHigh] < 70 || first[rouse.PriorityLow] < 3 || first[rouse.PriorityLow] > 10 {
			t.Errorf("of the first 105: %v", first)
		}
	})
}

func TestNamespacesShareByWeight(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lane := func(ns string, s *rouse.Spec) rouse.Lane { return rouse.Lane{Name: s.Target, Limit: 1, Batch: 1} }
		weight := func(ns string) int { return map[string]int{"big": 4}[ns] }
		h := start(t, mem.New(), &recorder{lane: lane, answer: busyFor(10 * time.Millisecond)}, timers.Options{Engine: engine.Options{Weight: weight, MaxDeliveries: 40}})
		var puts []timers.Put
		for i := range 400 {
			for _, ns := range []string{"big", "small"} {
				puts = append(puts, timers.Put{Key: rouse.Key{Namespace: ns, Name: fmt.Sprint(i)}, Spec: rouse.Spec{Schedule: "@after 1s", Target: fmt.Sprint("test:", i)}})
			}
		}
		if _, err := h.Put(t.Context(), puts); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		got := h.sink.got()
		n := map[string]int{}
		for _, a := range got[:400] {
			n[a.Namespace]++
		}
		if len(got) != 800 || n["big"] < 300 || n["small"] < 70 {
			t.Errorf("of the first 400: %v", n)
		}
	})
}

// TestAnAttemptIsSpentBeforeItIsMade: a fire that ends the process each time has an end, by the attempts of
// its policy or as poison.
func TestAnAttemptIsSpentBeforeItIsMade(t *testing.T) {
	for _, c := range []struct{ allowed, made uint32 }{{3, 3}, {rouse.MaxAttempts, rouse.MaxLost}} {
		spendAttempts(t, c.allowed, c.made)
	}
}

func spendAttempts(t *testing.T, allowed, made uint32) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		lane := func(ns string, s *rouse.Spec) rouse.Lane {
			return rouse.Lane{Name: "f", Limit: 8, Batch: 8, Spend: true}
		}
		spec := func(p *timers.Put) {
			p.Spec.Retry = rouse.Retry{Attempts: allowed, Interval: time.Second, Jitter: -1, Timeout: 10 * time.Second}
		}
		var mu sync.Mutex
		attempts := uint32(0)
		for life := range made + 2 { // each process dies during the fire: its store is cut off during the attempt
			cut := &cuttableStore{Store: store}
			sink := &recorder{lane: lane, answer: func(ctx context.Context, f rouse.Fire) rouse.Outcome {
				mu.Lock()
				attempts++
				mu.Unlock()
				cut.cut.Store(true)
				<-ctx.Done()
				return rouse.Outcome{Verdict: rouse.Deferred, After: time.Second}
			}}
			h := start(t, cut, sink, timers.Options{Engine: engine.Options{Grace: time.Millisecond}})
			if life == 0 {
				h.put("poison", "@after 1s", spec)
			}
			time.Sleep(30 * time.Second)
			h.stop()
		}
		h := start(t, store, &recorder{lane: lane}, timers.Options{})
		time.Sleep(time.Minute)
		h.wantEndings("poison", "dead")
		if r := h.records("poison"); attempts != made || len(r) != 1 || r[0].Cause != rouse.CausePoison || r[0].Attempts != made {
			t.Errorf("%d attempts, want %d; %+v", attempts, made, r)
		}
		// A success is one attempt, and a deferral spends none.
		n := 0
		h.sink.answers(func(ctx context.Context, f rouse.Fire) rouse.Outcome {
			if n++; n < 6 {
				return rouse.Outcome{Verdict: rouse.Deferred, After: time.Second}
			}
			return rouse.Outcome{Verdict: rouse.Done}
		})
		h.put("fine", "@after 1s", spec)
		time.Sleep(time.Minute)
		h.wantEndings("fine", "fired")
		if r := h.records("fine"); len(r) == 1 && r[0].Attempts != 1 {
			t.Errorf("record %+v", r)
		}
	})
}

func TestDeadLettersAreDeletedInTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fail := func(context.Context, rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Rejected, Detail: "no"}
		}
		h := start(t, mem.New(), &recorder{answer: fail}, timers.Options{Engine: engine.Options{DeadAge: 3 * time.Hour}})
		h.put("a", "@after 1s")
		dead := rouse.Query{States: []rouse.State{rouse.StateDead}}
		time.Sleep(170 * time.Minute)
		if n, _ := h.Count(t.Context(), dead); n != 1 {
			t.Errorf("%d dead letters after 170 min", n)
		}
		time.Sleep(20 * time.Minute)
		if n, _ := h.Count(t.Context(), dead); n != 0 {
			t.Errorf("%d dead letters after 190 min", n)
		}
		if n := len(h.sink.got()); n != 1 {
			t.Errorf("%d attempts", n)
		}
	})
}

// cuttableStore is a store that can be cut off permanently, as for a killed process.
type cuttableStore struct {
	rouse.Store
	cut atomic.Bool
}

var errCut = errors.New("cut off")

func (c *cuttableStore) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	if c.cut.Load() {
		return nil, errCut
	}
	return c.Store.Apply(ctx, changes)
}

func answerBy(f func(rouse.Fire) rouse.Outcome) func(context.Context, rouse.Fire) rouse.Outcome {
	return func(_ context.Context, fire rouse.Fire) rouse.Outcome { return f(fire) }
}

func TestAnOccurrenceThatIsCutOffIsRecordedOnce(t *testing.T) {
	for name, cut := range map[string]func(*harness) error{
		"delete": func(h *harness) error { _, err := h.Delete(context.Background(), key("a"), 0); return err },
		"delete many": func(h *harness) error {
			list, _, err := h.List(context.Background(), rouse.Query{Namespace: "n", Limit: 10})
			return errors.Join(append(h.DeleteMany(context.Background(), list), err)...)
		},
		"replace": func(h *harness) error {
			r, err := h.Put(context.Background(), []timers.Put{{Key: key("a"), Mode: timers.CreateOrReplace, Spec: rouse.Spec{Schedule: "@after 24h", Target: "test:a"}}})
			return errors.Join(err, r[0].Err)
		},
		"reschedule": func(h *harness) error {
			_, err := h.Reschedule(context.Background(), key("a"), rouse.Spec{Schedule: "@after 24h"}, 0, false)
			return err
		},
	} {
		for _, when := range []time.Duration{2 * time.Second, 5 * time.Second} { // during an attempt, and between two
			t.Run(fmt.Sprint(name, " after ", when), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					h := start(t, mem.New(), &recorder{}, timers.Options{})
					h.sink.answers(func(ctx context.Context, f rouse.Fire) rouse.Outcome {
						backoff.Sleep(ctx, 2*time.Second)
						return rouse.Outcome{Verdict: rouse.Failed, Detail: "busy"}
					})
					h.put("a", "@after 1s", func(p *timers.Put) { p.Spec.Retry = rouse.Retry{Attempts: 9, Interval: time.Minute, Max: time.Minute} })
					time.Sleep(when)
					if err := cut(h); err != nil {
						t.Fatal(err)
					}
					time.Sleep(10 * time.Minute)
					h.wantEndings("a", "skipped")
					if n := len(h.sink.got()); n != 1 {
						t.Errorf("%d attempts", n)
					}
				})
			})
		}
	}
}
