package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

func TestSimulateTellsWhatWouldFire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		from := time.Now()
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		h.put("hourly", "0 * * * *")
		h.put("thrice", "@every 10m", func(p *timers.Put) { p.Spec.MaxOccurrences = 3 })
		h.put("once", "@after 25m")
		h.put("paused", "@every 1m")
		if _, err := h.Pause(t.Context(), key("paused"), "", 0); err != nil {
			t.Fatal(err)
		}
		names := func(s timers.Simulated) (list []string) {
			for _, f := range s.Fires {
				list = append(list, fmt.Sprintf("%s@%v", f.Key.Name, f.Due.Time().Sub(from).Truncate(time.Second)))
			}
			return list
		}
		q := rouse.Query{Namespace: "n"}
		s, err := h.Simulate(t.Context(), q, 0, rouse.At(from.Add(3*time.Hour)), 100)
		want := []string{"thrice@10m0s", "thrice@20m0s", "once@25m0s", "thrice@30m0s", "hourly@1h0m0s", "hourly@2h0m0s"}
		if err != nil || !slices.Equal(names(s), want) || s.More || s.Timers != 4 {
			t.Errorf("%v, %v, want %v", names(s), err, want)
		}
		s, err = h.Simulate(t.Context(), q, 0, rouse.At(from.Add(3*time.Hour)), 2)
		if err != nil || !slices.Equal(names(s), want[:2]) || !s.More {
			t.Errorf("limited: %v more %v, %v", names(s), s.More, err)
		}
		s, err = h.Simulate(t.Context(), q, rouse.At(from.Add(90*time.Minute)), rouse.At(from.Add(121*time.Minute)), 100)
		if err != nil || !slices.Equal(names(s), []string{"hourly@2h0m0s"}) {
			t.Errorf("a later range: %v, %v", names(s), err)
		}
		h.put("paused later", "@every 1m")
		time.Sleep(90 * time.Second)
		if _, err := h.Pause(t.Context(), key("paused later"), "", rouse.At(from.Add(5*time.Minute-time.Second))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		s, err = h.Simulate(t.Context(), rouse.Query{Namespace: "n", Name: "paused later"}, rouse.At(from), rouse.At(from.Add(7*time.Minute)), 100)
		if want := []string{"paused later@1m0s", "paused later@5m0s", "paused later@6m0s"}; err != nil || !slices.Equal(names(s), want) {
			t.Errorf("a range in which a pause begins and ends: %v, %v, want %v", names(s), err, want)
		}
		if _, err := h.Delete(t.Context(), key("paused later"), 0); err != nil {
			t.Fatal(err)
		}
		fired := len(h.sink.got())
		time.Sleep(3*time.Hour - 150*time.Second - time.Second)
		var got []string
		for _, a := range h.sink.got()[fired:] {
			got = append(got, fmt.Sprintf("%s@%v", a.Name, a.Due.Time().Sub(from).Truncate(time.Second)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("simulated fires %v, actual fires %v", want, got)
		}
	})
}

func TestBulkVerbs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		for i := range 1200 {
			h.put(fmt.Sprintf("a%04d", i), "@every 1h")
		}
		h.put("b", "@every 1h")
		run := func(r timers.BulkRequest) (last timers.BulkProgress, names int) {
			t.Helper()
			r.Query.Namespace = "n"
			if err := h.Bulk(ctx, r, func(p timers.BulkProgress) error { last, names = p, names+len(p.Names); return nil }); err != nil {
				t.Fatal(err)
			}
			return last, names
		}
		count := func(states ...rouse.State) int64 {
			n, err := h.Count(ctx, rouse.Query{Namespace: "n", States: states})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		as := rouse.Query{Prefix: "a"}
		if p, names := run(timers.BulkRequest{Query: as, Action: "pause", DryRun: true}); p.Matched != 1200 || p.Changed != 0 || names != 1000 || !p.Done || count(rouse.StatePaused) != 0 {
			t.Errorf("dry run %+v, %d names", p, names)
		}
		if p, _ := run(timers.BulkRequest{Query: as, Action: "pause", Reason: "incident", Limit: 700}); p.Matched != 700 || p.Changed != 700 || count(rouse.StatePaused) != 700 {
			t.Errorf("limited %+v, %d paused", p, count(rouse.StatePaused))
		}
		if p, _ := run(timers.BulkRequest{Query: as, Action: "pause", Reason: "incident"}); p.Changed != 500 || count(rouse.StatePaused) != 1200 {
			t.Errorf("the rest %+v, %d paused", p, count(rouse.StatePaused))
		}
		if p, _ := run(timers.BulkRequest{Query: as, Action: "resume"}); p.Changed != 1200 || count(rouse.StatePaused) != 0 {
			t.Errorf("resume %+v", p)
		}
		if p, _ := run(timers.BulkRequest{Query: as, Action: "reschedule", When: &rouse.Spec{Schedule: "@every 2h"}}); p.Changed != 1200 {
			t.Errorf("reschedule %+v", p)
		}
		if tm, _ := h.Get(ctx, key("a0001")); tm.Spec.Schedule != "@every 2h" {
			t.Errorf("rescheduled %+v", tm.Spec)
		}
		if p, _ := run(timers.BulkRequest{Query: as, Action: "delete"}); p.Changed != 1200 || count() != 1 {
			t.Errorf("delete %+v, %d left", p, count())
		}
		for _, bad := range []timers.BulkRequest{{Action: "explode"}, {Action: "delete", ErrorContains: "x"}, {Action: "reschedule"}, {Action: "resume", When: &rouse.Spec{}},
			{Action: "redrive", Query: rouse.Query{States: []rouse.State{rouse.StatePaused}}}, {Action: "skip", Until: 5},
			{Action: "reschedule", When: &rouse.Spec{Schedule: "61 * * * *"}}, {Action: "purge", PerSecond: 1}, {Action: "redrive", PerSecond: -1},
			{Action: "redrive", PerSecond: math.NaN()}} {
			if err := h.Bulk(ctx, bad, func(timers.BulkProgress) error { return nil }); err == nil {
				t.Errorf("%+v was taken", bad)
			}
		}
		stop := errors.New("enough")
		if err := h.Bulk(ctx, timers.BulkRequest{Action: "pause"}, func(timers.BulkProgress) error { return stop }); err != stop {
			t.Errorf("progress that stops: %v", err)
		}
	})
}

func TestRedriveByError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := &recorder{answer: nil}
		h := start(t, mem.New(), sink, timers.Options{})
		h.sink.answers(answerBy(func(f rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Rejected, Detail: "no " + f.Name}
		}))
		for _, name := range []string{"x", "y", "z"} {
			h.put(name, "@after 1s")
		}
		time.Sleep(time.Minute)
		h.sink.answers(nil)
		var last timers.BulkProgress
		err := h.Bulk(t.Context(), timers.BulkRequest{Action: "redrive", ErrorContains: "no y"}, func(p timers.BulkProgress) error { last = p; return nil })
		time.Sleep(time.Minute)
		if n, _ := h.Count(t.Context(), rouse.Query{States: []rouse.State{rouse.StateDead}}); err != nil || last.Changed != 1 || n != 2 {
			t.Errorf("%+v, %v, %d dead letters are left", last, err, n)
		}
		h.wantEndings("y", "dead", "fired")
		began, reports := time.Now(), 0
		err = h.Bulk(t.Context(), timers.BulkRequest{Action: "redrive", PerSecond: 0.1}, func(timers.BulkProgress) error { reports++; return nil })
		if took := time.Since(began); err != nil || took < 10*time.Second || took > 11*time.Second || reports < 2 {
			t.Errorf("two redrives at 0.1/s took %v with %d reports, %v", took, reports, err)
		}
	})
}

func TestExplain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		time.Sleep(24 * time.Hour) // the bubble starts in the year 2000, before which nothing was due
		store := mem.New()
		from := time.Now()
		h := start(t, store, &recorder{}, timers.Options{})
		say := func(name string, at time.Duration, code, text string) {
			t.Helper()
			var when rouse.Instant
			if at != 0 {
				when = rouse.At(from.Add(at))
			}
			x, err := h.Explain(ctx, key(name), when)
			if err != nil || len(x.Reasons) == 0 || x.Reasons[0].Code != code || !strings.Contains(x.Summary, text) {
				t.Errorf("%s at %v: %+v, %v; want %s, %q", name, at, x.Reasons, err, code, text)
			}
		}
		// lasts compares since when the last answer holds, until when, and what to do: for programs.
		lasts := func(name string, at, since, until time.Duration, cure string) {
			t.Helper()
			when := func(d time.Duration) rouse.Instant {
				if d == 0 {
					return 0
				}
				return rouse.At(from.Add(d))
			}
			x, err := h.Explain(ctx, key(name), when(at))
			if err != nil || len(x.Reasons) == 0 {
				t.Fatalf("%s at %v: %+v, %v", name, at, x, err)
			}
			if r := x.Reasons[0]; r.Since != when(since) || r.Until != when(until) || !strings.Contains(r.Cure, cure) || (r.Cure == "") != (cure == "") {
				t.Errorf("%s at %v: since %v until %v, cure %q; want %v, %v, %q", name, at, r.Since, r.Until, r.Cure, when(since), when(until), cure)
			}
		}
		h.put("a", "*/10 * * * *")
		say("a", 0, "scheduled", "00:10:00")
		lasts("a", 0, 0, 10*time.Minute, "")
		say("a", 10*time.Minute, "scheduled", "")
		say("a", 15*time.Minute, "off", "20:00")
		say("a", -10*time.Minute, "off", "created later")
		time.Sleep(11 * time.Minute)
		say("a", 10*time.Minute, "fired", "attempt 1")
		if _, err := h.Pause(ctx, key("a"), "incident 7", rouse.At(from.Add(45*time.Minute))); err != nil {
			t.Fatal(err)
		}
		say("a", 0, "paused", "incident 7")
		lasts("a", 0, 0, 45*time.Minute, "rouse resume")
		time.Sleep(40 * time.Minute)
		say("a", 30*time.Minute, "skipped", "paused")
		lasts("a", 30*time.Minute, 20*time.Minute, 40*time.Minute, "rouse resume")
		h.stop()
		time.Sleep(time.Hour)
		h = start(t, store, &recorder{}, timers.Options{})
		time.Sleep(time.Second)
		say("a", 70*time.Minute, "missed", "latest")
		lasts("a", 70*time.Minute, time.Hour, 100*time.Minute, "several nodes")
		h.sink.answers(answerBy(func(rouse.Fire) rouse.Outcome { return rouse.Outcome{Verdict: rouse.Failed, Code: 503, Detail: "busy"} }))
		h.put("b", "@after 1s", func(p *timers.Put) { p.Spec.Retry = rouse.Retry{Attempts: 2, Interval: time.Hour, Max: time.Hour} })
		time.Sleep(time.Minute)
		say("b", 0, "retrying", "busy")
		if x, err := h.Explain(ctx, key("b"), 0); err != nil || x.Reasons[0].Since == 0 || x.Reasons[0].Until < x.Reasons[0].Since.Add(30*time.Minute) || x.Reasons[0].Cure == "" {
			t.Errorf("%+v, %v", x.Reasons, err)
		}
		time.Sleep(2 * time.Hour)
		say("b", 0, "dead", "given up")
		x, _ := h.Explain(ctx, key("b"), 0)
		if codes := codesOf(x); !slices.Contains(codes, "ended") {
			t.Errorf("reasons %v", codes)
		}
		h.put("kept", "@after 1s", func(p *timers.Put) { p.Spec.Retry.Attempts, p.Spec.Keep = 1, 24*time.Hour })
		time.Sleep(time.Minute)
		h.sink.obstruct("its circuit is open")
		say("kept", 0, "dead", "503")
		x, _ = h.Explain(ctx, key("kept"), 0)
		if codes := codesOf(x); !slices.Equal(codes, []string{"dead", "ended", "dead"}) {
			t.Errorf("reasons %v of an ended timer, want how it ended first, and no obstacle", codes)
		}
		if _, err := h.Explain(ctx, key("absent"), 0); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("absent: %v", err)
		}
	})
}

func codesOf(x timers.Explanation) (codes []string) {
	for _, r := range x.Reasons {
		codes = append(codes, r.Code)
	}
	return codes
}

func TestImportBringsBackWhatListReturned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		h.sink.answers(answerBy(func(f rouse.Fire) rouse.Outcome {
			if f.Name == "dies" {
				return rouse.Outcome{Verdict: rouse.Rejected, Detail: "no"}
			}
			return rouse.Outcome{Verdict: rouse.Failed, Detail: "busy"}
		}))
		h.put("dies", "@after 1s")
		h.put("retries", "@after 1s", func(p *timers.Put) { p.Spec.Retry = rouse.Retry{Attempts: 9, Interval: time.Hour, Max: time.Hour} })
		h.put("paused", "@every 1h")
		h.put("counts", "@every 1h", func(p *timers.Put) { p.Spec.MaxOccurrences = 2 })
		time.Sleep(time.Minute)
		if _, err := h.Pause(ctx, key("paused"), "why", 0); err != nil {
			t.Fatal(err)
		}
		all := rouse.Query{Namespace: "n", Limit: 100, States: append(slices.Clone(rouse.ListedStates), rouse.StateDead, rouse.StateFiring)}
		list, _, err := h.List(ctx, all)
		if err != nil || len(list) != 4 {
			t.Fatalf("%d timers, %v", len(list), err)
		}
		other := start(t, mem.New(), &recorder{}, timers.Options{})
		for _, mode := range []timers.Mode{timers.CreateOnly, timers.CreateOrReplace} {
			res, err := other.Import(ctx, list, mode)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range res {
				if r.Err != nil {
					t.Errorf("%s: %v", list[i].Key.Name, r.Err)
				}
			}
			time.Sleep(time.Second)
		}
		if res, _ := other.Import(ctx, list[:1], timers.CreateOnly); !errors.Is(res[0].Err, rouse.ErrExists) {
			t.Errorf("again: %v", res[0].Err)
		}
		again, _, _ := other.List(ctx, all)
		states := map[string]string{}
		for _, tm := range again {
			states[tm.Key.Name] = tm.State().String()
		}
		if want := "map[counts:scheduled dies:dead paused:paused]"; fmt.Sprint(states) != want {
			t.Errorf("states %v, want %v (what was being retried was tried again, and went well)", states, want)
		}
		if tm, _ := other.Get(ctx, key("paused")); tm.Reason != "why" {
			t.Errorf("paused: %+v", tm)
		}
		bad := list[0]
		bad.Key.Fire, bad.Generation = "0123", 7
		if res, _ := other.Import(ctx, []rouse.Timer{bad}, timers.CreateOnly); res[0].Err == nil {
			t.Error("a made-up fire id was taken")
		}
	})
}

func TestInvariantsHoldAndAreCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		h.put("a", "@every 1m")
		time.Sleep(10 * time.Minute)
		if v := h.Violations(); v.Looks < 9 || v.Total != 0 {
			t.Errorf("%+v", v)
		}
		// A due row that is missing in memory although the cursor has passed it is found.
		row := rouse.Timer{Key: key("lost"), Spec: rouse.Spec{Schedule: "2000-01-01T00:00:00Z", Target: "test:a"}, Due: h.Now(), Visible: h.Now() - 100}
		r := row.Row()
		if _, err := h.store.Apply(t.Context(), []rouse.Change{{Key: r.Key, If: rouse.NoRow, To: &r}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		if v := h.Violations(); v.Unclaimed != 1 || v.Total == 0 {
			t.Errorf("%+v", v)
		}
	})
}

func TestCalendarsMoveTheirTimers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		cal := rouse.Calendar{Namespace: "n", Name: "off"}
		if _, _, err := h.PutCalendar(ctx, cal); err != nil {
			t.Fatal(err)
		}
		h.put("a", "30 12 * * *", func(p *timers.Put) { p.Spec.Calendar.Off = []string{"off"} })
		first, _ := h.Get(ctx, key("a"))
		day := rouse.DateOf(first.Due.Time())
		cal.Days = []rouse.Day{{Date: day, Text: "a holiday"}}
		saved, job, err := h.PutCalendar(ctx, cal)
		moved := job.Changed
		if err != nil || moved != 1 || saved.Revision == 0 {
			t.Fatalf("moved %d, %v", moved, err)
		}
		if tm, _ := h.Get(ctx, key("a")); tm.Due != first.Due.Add(24*time.Hour) || tm.Visible != tm.Due {
			t.Errorf("due %v, want the day after %v", tm.Due, first.Due)
		}
		if x, err := h.Explain(ctx, key("a"), first.Due); err != nil || x.Reasons[0].Code != "calendar" {
			t.Errorf("explained as %+v, %v", x.Reasons, err)
		}
		if got, err := h.Calendar(ctx, "n", "off"); err != nil || len(got.Days) != 1 || got.Days[0].Text != "a holiday" {
			t.Errorf("%+v, %v", got, err)
		}
		if list, err := h.Calendars(ctx, "n"); err != nil || len(list) != 1 {
			t.Errorf("%+v, %v", list, err)
		}
		if timers, _, _ := h.List(ctx, rouse.Query{Limit: 10}); len(timers) != 1 {
			t.Errorf("a list of timers shows %d rows", len(timers))
		}
		if err := h.DeleteCalendar(ctx, "n", "off"); !errors.Is(err, rouse.ErrConflict) {
			t.Errorf("deleted a calendar that a timer uses: %v", err)
		}
		if _, err := h.Delete(ctx, key("a"), 0); err != nil {
			t.Fatal(err)
		}
		if err := h.DeleteCalendar(ctx, "n", "off"); err != nil {
			t.Error(err)
		}
		if _, err := h.Calendar(ctx, "n", "off"); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("after the delete: %v", err)
		}
	})
}

// slowList is a store whose lists take a while.
type slowList struct{ rouse.Store }

func (s slowList) List(ctx context.Context, q rouse.Query) (rouse.Page, error) {
	time.Sleep(100 * time.Millisecond)
	return s.Store.List(ctx, q)
}

// TestSimulateOfNow: a simulation from now on is of one moment, however long its parts take. From a moment
// that has passed it would list what was skipped since.
func TestSimulateOfNow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		time.Sleep(24 * time.Hour)
		h := start(t, slowList{mem.New()}, &recorder{}, timers.Options{})
		h.put("skipped", "0 * * * *")
		if _, err := h.Skip(t.Context(), key("skipped"), 5, "not now"); err != nil {
			t.Fatal(err)
		}
		from := time.Now()
		s, err := h.Simulate(t.Context(), rouse.Query{Namespace: "n"}, 0, rouse.At(from.Add(8*time.Hour)), 100)
		if err != nil || len(s.Fires) != 2 || s.Fires[0].Due != rouse.At(from.Truncate(time.Hour).Add(6*time.Hour)) {
			t.Errorf("from %v: %+v, %v; want two fires after the five that are skipped", from, s.Fires, err)
		}
		if time.Since(from) < 200*time.Millisecond {
			t.Error("the simulation had one part only: it shows nothing")
		}
	})
}

// TestSimulateFindsTheEarliest has timers in the order opposite to that of their keys, the first one in some
// hours, and one that recurs: a part of the range has enough fires for a small limit, and none is left out of
// it.
func TestSimulateFindsTheEarliest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		from := time.Now()
		const many, gap, ahead = 500, 7 * time.Second, 5 * time.Hour
		for i := range many {
			h.put(fmt.Sprintf("t%03d", many-1-i), fmt.Sprintf("@after %v", ahead+time.Duration(i)*gap))
		}
		h.put("again", "@every 6h")
		for _, limit := range []int{1, 10, 100, many, 10_000} {
			s, err := h.Simulate(t.Context(), rouse.Query{Namespace: "n"}, 0, rouse.At(from.Add(48*time.Hour)), limit)
			if err != nil {
				t.Fatal(err)
			}
			if want := min(limit, many+8); len(s.Fires) != want && want != many+8 || s.More != (limit <= many) {
				t.Errorf("limit %d: %d fires, more %v", limit, len(s.Fires), s.More)
			}
			for i, f := range s.Fires[:min(len(s.Fires), 400)] {
				if want := fmt.Sprintf("t%03d", many-1-i); f.Key.Name != want {
					t.Fatalf("limit %d: fire %d is %s at %v, want %s", limit, i, f.Key.Name, f.At, want)
				}
			}
		}
	})
}
