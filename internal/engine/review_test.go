package engine_test

import (
	"context"
	"errors"
	"fmt"
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

// hooked is a store whose calls a test may look at, hold up and fail.
type hooked struct {
	rouse.Store
	mu     sync.Mutex
	get    func(keys []rouse.Key) error
	before func(changes []rouse.Change) error
	after  func(changes []rouse.Change, results []rouse.Result) error
}

func (h *hooked) set(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

func (h *hooked) Get(ctx context.Context, keys []rouse.Key) ([]rouse.Row, error) {
	h.mu.Lock()
	get := h.get
	h.mu.Unlock()
	if get != nil {
		if err := get(keys); err != nil {
			return nil, err
		}
	}
	return h.Store.Get(ctx, keys)
}

func (h *hooked) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	h.mu.Lock()
	before, after := h.before, h.after
	h.mu.Unlock()
	if before != nil {
		if err := before(changes); err != nil {
			return nil, err
		}
	}
	results, err := h.Store.Apply(ctx, changes)
	if err == nil && after != nil {
		err = after(changes, results)
	}
	return results, err
}

var errHook = errors.New("the store does not answer")

// wantOneRecordEach refuses two records of one occurrence.
func (h *house) wantOneRecordEach(name string) {
	h.t.Helper()
	list := h.records(name)
	for i, a := range list {
		for _, b := range list[i+1:] {
			if a.Manual == b.Manual && a.Generation == b.Generation && max(a.Due, b.Due) <= min(max(a.Due, a.LastDue), max(b.Due, b.LastDue)) {
				h.t.Errorf("%s: two records of one occurrence: %v of %v-%v (%s) and %v of %v-%v (%s)", name, a.Ending, a.Due, a.LastDue, a.Reason, b.Ending, b.Due, b.LastDue, b.Reason)
			}
		}
	}
}

func TestResumeLeavesAloneWhatIsOnItsWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{answer: busyFor(3 * time.Minute)}, timers.Options{})
		h.put("a", "@every 1m")
		time.Sleep(90 * time.Second)
		if _, err := h.Pause(t.Context(), key("a"), "", 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := h.Resume(t.Context(), key("a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		h.wantOneRecordEach("a")
		if r := h.records("a"); len(r) == 0 || r[0].Ending != rouse.EndFired || r[0].Count != 0 {
			t.Errorf("records %+v", r)
		}
	})
}

func TestSkipLeavesAloneWhatIsOnItsWayThoughARunWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		from := time.Now()
		h := start(t, mem.New(), &recorder{answer: busyFor(20 * time.Second)}, timers.Options{})
		h.put("a", "@every 1m")
		time.Sleep(61 * time.Second)
		if _, _, err := h.RunNow(t.Context(), key("a")); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Skip(t.Context(), key("a"), 1, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		h.wantOneRecordEach("a")
		if got := h.dues("a", from); len(got) < 2 || got[0] != time.Minute || got[1] != 3*time.Minute {
			t.Errorf("fired %v", got)
		}
	})
}

func TestASkipThatComesTooLateMakesNoSecondRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &hooked{Store: mem.New()}
		h := start(t, store, &recorder{answer: busyFor(10 * time.Millisecond)}, timers.Options{})
		h.put("a", "@every 1m")
		time.Sleep(59*time.Second + 900*time.Millisecond)
		store.set(func() {
			store.before = func(changes []rouse.Change) error {
				if len(changes[0].Log) > 0 && changes[0].Log[0].Ending == rouse.EndSkipped {
					time.Sleep(200 * time.Millisecond)
				}
				return nil
			}
		})
		if _, err := h.Skip(t.Context(), key("a"), 1, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		h.wantOneRecordEach("a")
		// What is said of that occurrence says nothing of the next one.
		h.sink.answers(busyFor(30 * time.Second))
		time.Sleep(time.Minute)
		if d, err := h.Delete(t.Context(), key("a"), 0); err != nil || !d.InFlight {
			t.Fatalf("%+v, %v", d, err)
		}
		time.Sleep(time.Minute)
		h.wantEndings("a", "skipped", "fired")
	})
}

func TestAPauseEndsWithItsRecordsThoughTheStoreFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		from := time.Now()
		store := &hooked{Store: mem.New()}
		h := start(t, store, &recorder{}, timers.Options{})
		h.put("a", "@every 1m")
		if _, err := h.Pause(t.Context(), key("a"), "", rouse.At(from.Add(210*time.Second))); err != nil {
			t.Fatal(err)
		}
		var failed atomic.Int32
		store.set(func() {
			store.before = func(changes []rouse.Change) error {
				if time.Since(from) > 200*time.Second && failed.Add(1) <= 2 {
					return errHook
				}
				return nil
			}
		})
		time.Sleep(5*time.Minute + time.Second)
		h.wantEndings("a", "skipped×3", "fired", "fired")
	})
}

func TestATimerOutlivesACalendarThatCannotBeRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		inner := mem.New()
		h := start(t, inner, &recorder{}, timers.Options{})
		if _, _, err := h.PutCalendar(ctx, rouse.Calendar{Namespace: "n", Name: "holidays", Days: []rouse.Day{{Date: 20_000}}}); err != nil {
			t.Fatal(err)
		}
		off := func(p *timers.Put) { p.Spec.Calendar.Off = []string{"holidays"} }
		h.put("a", "@every 1m", off)
		h.put("skipped", "@every 1m", off)
		h.put("paused", "@every 1m", off)
		h.put("allow", "@every 1m", off, func(p *timers.Put) { p.Spec.Overlap = rouse.OverlapAllow })
		h.stop()
		store := &hooked{Store: inner, get: func(keys []rouse.Key) error {
			if strings.Contains(keys[0].Name, "calendar") {
				return errHook
			}
			return nil
		}}
		h = start(t, store, &recorder{}, timers.Options{})
		if _, err := h.Skip(ctx, key("skipped"), 1, ""); err == nil {
			t.Error("a skip without a schedule was taken")
		}
		if _, err := h.Pause(ctx, key("paused"), "", 0); err != nil {
			t.Error(err)
		}
		time.Sleep(90 * time.Second)
		if _, err := h.Resume(ctx, key("paused")); err == nil {
			t.Error("a resume without a schedule was taken")
		}
		store.set(func() { store.get = nil })
		if _, err := h.Resume(ctx, key("paused")); err != nil {
			t.Error(err)
		}
		before := len(h.sink.got())
		time.Sleep(5 * time.Minute)
		for _, name := range []string{"a", "skipped", "paused", "allow"} {
			if tm, err := h.Get(ctx, key(name)); err != nil || tm.Due == rouse.Never {
				t.Errorf("%s: %+v, %v", name, tm.Due, err)
			}
			h.wantOneRecordEach(name)
		}
		if n := len(h.sink.got()) - before; n < 16 {
			t.Errorf("%d fires after the calendar came back", n)
		}
	})
}

func TestImportRefusesWhatCannotGoOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		now := h.Now()
		spec := rouse.Spec{Schedule: "@every 1m", Target: "test:a", Retry: rouse.Retry{Attempts: 3}}
		beside := func(tm rouse.Timer) rouse.Timer {
			tm.Key.Fire = rouse.FireID("n", tm.Key.Name, tm.Generation, tm.Due, tm.Manual)
			return tm
		}
		for name, tm := range map[string]rouse.Timer{
			"manual without a run":     beside(rouse.Timer{Spec: spec, Due: now, Generation: 7, Attempts: 1, Manual: true, Live: true}),
			"dead without a run":       beside(rouse.Timer{Spec: spec, Due: now, Generation: 7, Attempts: 1, Manual: true}),
			"manual, not begun":        beside(rouse.Timer{Spec: spec, Due: now, Generation: 7, Manual: true, Live: true}),
			"another run":              beside(rouse.Timer{Spec: spec, Due: now, Generation: 7, Manual: true, Live: true, Runs: []rouse.Instant{now + 1}}),
			"runs of a scheduled one":  beside(rouse.Timer{Spec: spec, Due: now, Generation: 7, Live: true, Runs: []rouse.Instant{now}}),
			"paused beside":            beside(rouse.Timer{Spec: spec, Due: now, Generation: 7, Live: true, Paused: true}),
			"never due beside":         beside(rouse.Timer{Spec: spec, Due: rouse.Never, Generation: 7, Live: true}),
			"without a generation":     beside(rouse.Timer{Spec: spec, Due: now, Live: true}),
			"a try of nothing":         {Spec: spec, Due: rouse.Never, Attempts: 1, Runs: []rouse.Instant{now}},
			"a run that never comes":   {Spec: spec, Due: now, Runs: []rouse.Instant{rouse.Never}},
			"a run of no time":         {Spec: spec, Due: now, Runs: []rouse.Instant{0}},
			"due before time":          {Spec: spec, Due: -1 << 62},
			"too many skips":           {Spec: spec, Due: now, Attempts: 1, Skips: 1<<32 - 1},
			"an anchor beyond time":    {Spec: spec, Due: now, Anchor: 1 << 62},
			"edited beyond time":       {Spec: spec, Due: now, Updated: 1 << 62},
			"paused until before time": {Spec: spec, Due: now, Paused: true, Until: -1 << 62},
		} {
			tm.Key.Namespace, tm.Key.Name = "n", name
			if tm.Key.Fire != "" {
				tm.Key.Fire = rouse.FireID("n", name, tm.Generation, tm.Due, tm.Manual)
			}
			res, err := h.Import(t.Context(), []rouse.Timer{tm}, timers.CreateOnly)
			if inv := new(rouse.Invalid); err != nil || !errors.As(res[0].Err, &inv) {
				t.Errorf("%s: %v, %v", name, res, err)
				_, _ = h.Delete(t.Context(), tm.Key, 0)
			}
		}
	})
}

func TestExportedRowsCanBeImportedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		fail := func(_ context.Context, f rouse.Fire) rouse.Outcome {
			if f.Manual {
				return rouse.Outcome{Verdict: rouse.Rejected, Detail: "no"}
			}
			return rouse.Outcome{Verdict: rouse.Failed, Detail: "no"}
		}
		retry := rouse.Retry{Attempts: 5, Interval: time.Hour, Max: time.Hour, Jitter: -1}
		h := start(t, mem.New(), &recorder{answer: fail}, timers.Options{})
		h.put("a", "@every 1m", func(p *timers.Put) { p.Spec.Overlap, p.Spec.Retry = rouse.OverlapAllow, retry })
		h.put("b", "@after 1s", func(p *timers.Put) { p.Spec.Retry = retry })
		h.put("ended", "@after 1s", func(p *timers.Put) { p.Spec.Retry.Attempts, p.Spec.Keep = 1, -1 })
		h.put("paused", "@every 1m", func(p *timers.Put) { p.Spec.Overlap, p.Spec.Retry = rouse.OverlapWait, retry })
		if _, _, err := h.RunNow(ctx, key("a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(150 * time.Second)
		if _, err := h.Pause(ctx, key("paused"), "", 0); err != nil {
			t.Fatal(err)
		}
		all := rouse.Query{Namespace: "n", Limit: 100, States: append([]rouse.State{rouse.StateFiring, rouse.StateDead}, rouse.ListedStates...)}
		rows, _, err := h.List(ctx, all)
		if err != nil || len(rows) != 8 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		other := start(t, mem.New(), &recorder{}, timers.Options{})
		res, err := other.Import(ctx, rows, timers.CreateOnly)
		if err != nil {
			t.Fatal(err)
		}
		for i := range res {
			if res[i].Err != nil {
				t.Errorf("%+v: %v", rows[i], res[i].Err)
			}
		}
		time.Sleep(time.Second)
		if n, _ := other.Count(ctx, rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateFiring}}); n != 0 {
			t.Errorf("%d of what was on its way still is", n)
		}
		if n, _ := other.Count(ctx, rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateDead}}); n != 2 {
			t.Errorf("%d dead letters", n)
		}
	})
}

func TestAnImportThatReplacesEndsTheOldGeneration(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		fail := func(context.Context, rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Failed, Detail: "no"}
		}
		retry := rouse.Retry{Attempts: 5, Interval: 10 * time.Minute, Max: time.Hour, Jitter: -1}
		h := start(t, mem.New(), &recorder{answer: fail}, timers.Options{})
		old := h.put("a", "@every 1m", func(p *timers.Put) { p.Spec.Overlap, p.Spec.Retry = rouse.OverlapAllow, retry })
		h.put("b", "@after 1m", func(p *timers.Put) { p.Spec.Retry = retry })
		time.Sleep(61 * time.Second)
		a, _ := h.Get(ctx, key("a"))
		side, _, _ := h.List(ctx, rouse.Query{Namespace: "n", Name: "a", States: []rouse.State{rouse.StateFiring}, Limit: 10})
		b, _ := h.Get(ctx, key("b"))
		time.Sleep(time.Minute)
		b.Attempts, b.Due = 0, b.Due.Add(time.Hour)
		if res, err := h.Import(ctx, append([]rouse.Timer{a, b}, side...), timers.CreateOrReplace); err != nil || res[0].Err != nil || res[1].Err != nil || res[2].Err != nil {
			t.Fatalf("%+v, %v", res, err)
		}
		after := time.Now()
		time.Sleep(time.Second)
		imported := 0
		time.Sleep(30 * time.Minute)
		for _, f := range h.sink.got() {
			if f.Name == "a" && f.Generation == old.Generation && f.at.After(after) {
				if f.ID != side[0].Key.Fire {
					t.Errorf("an attempt of %v of the old generation", f.Due)
				} else {
					imported++
				}
			}
		}
		if imported == 0 {
			t.Error("the imported occurrence was not tried again")
		}
		h.wantEndings("b", "skipped")
	})
}

func TestWhatIsReplacedWhileItIsTriedIsRecorded(t *testing.T) {
	for name, cut := range map[string]func(h *house) error{
		"a coalesced call": func(h *house) error {
			_, err := h.Coalesce(context.Background(), key("a"), rouse.Spec{Target: "test:a"}, rouse.Coalesce{Quiet: 24 * time.Hour})
			return err
		},
		"a paused timer is replaced": func(h *house) error {
			if _, err := h.Pause(context.Background(), key("a"), "", 0); err != nil {
				return err
			}
			r, err := h.Put(context.Background(), []timers.Put{{Key: key("a"), Mode: timers.CreateOrReplace, Spec: rouse.Spec{Schedule: "@after 24h", Target: "test:a"}}})
			return errors.Join(err, r[0].Err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				fail := func(context.Context, rouse.Fire) rouse.Outcome {
					return rouse.Outcome{Verdict: rouse.Failed, Detail: "busy"}
				}
				h := start(t, mem.New(), &recorder{answer: fail}, timers.Options{})
				h.put("a", "@after 1s", func(p *timers.Put) { p.Spec.Retry = rouse.Retry{Attempts: 9, Interval: time.Hour, Max: time.Hour} })
				time.Sleep(2 * time.Second)
				if err := cut(h); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Hour)
				h.wantEndings("a", "skipped")
				if n := len(h.sink.got()); n != 1 {
					t.Errorf("%d attempts", n)
				}
			})
		})
	}
}

func TestADeadRunIsPurgedWithoutAnotherRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		reject := func(context.Context, rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Rejected, Detail: "no"}
		}
		h := start(t, mem.New(), &recorder{answer: reject}, timers.Options{})
		h.put("a", "@after 24h")
		id, _, err := h.RunNow(ctx, key("a"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		dead := rouse.Key{Namespace: "n", Name: "a", Fire: id}
		if err := h.Purge(ctx, dead); err != nil {
			t.Fatal(err)
		}
		h.wantEndings("a", "dead")
	})
}

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
		h.wantEndings("a", "skipped", "skipped", "skipped") // each was on its way beside the timer
		h.wantEndings("run", "skipped")                     // it was asked for, and answered with its id
	})
}

func TestADeadLetterIsNotForgottenWhenItIsRedrivenMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner := mem.New()
		store := &hooked{Store: inner}
		reject := func(context.Context, rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Rejected, Detail: "no"}
		}
		h := start(t, store, &recorder{answer: reject}, timers.Options{Engine: engine.Options{DeadAge: time.Hour}})
		h.put("a", "@after 1s")
		h.put("ended", "@after 1s", func(p *timers.Put) { p.Spec.Keep = time.Hour })
		time.Sleep(time.Minute)
		h.sink.answers(nil)
		var changed atomic.Int32
		store.set(func() {
			store.before = func(changes []rouse.Change) error {
				for _, c := range changes { // an edit that is committed in front of the one that forgets
					if c.To != nil || c.Keep {
						continue
					}
					rows, _ := inner.Get(context.Background(), []rouse.Key{c.Key})
					tm, err := rouse.DecodeTimer(&rows[0])
					if err != nil || tm.Live || tm.Due != rouse.Never && c.Key.Fire == "" || len(tm.Runs) > 0 {
						continue
					}
					now, _ := inner.Now(context.Background())
					if c.Key.Fire != "" {
						tm = tm.Redrive(now)
					} else if _, err := tm.Run(now); err != nil {
						t.Error(err)
					}
					row := tm.Row()
					if _, err := inner.Apply(context.Background(), []rouse.Change{{Key: c.Key, If: c.If, To: &row}}); err != nil {
						t.Error(err)
					}
					changed.Add(1)
				}
				if changed.Load() >= 3 {
					store.set(func() { store.before = nil })
				}
				return nil
			}
		})
		time.Sleep(59*time.Minute + 30*time.Second)
		if n := changed.Load(); n != 3 {
			t.Errorf("%d rows were about to be forgotten", n)
		}
		time.Sleep(time.Minute)
		h.wantEndings("a", "dead", "fired")
		if n := len(h.sink.got()); n != 5 {
			t.Errorf("%d attempts", n)
		}
	})
}

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

func TestASettleWhoseAnswerIsLostIsRecordedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &hooked{Store: mem.New()}
		h := start(t, store, &recorder{}, timers.Options{})
		var lose sync.Map
		store.set(func() {
			store.after = func(changes []rouse.Change, _ []rouse.Result) error {
				for _, c := range changes {
					if len(c.Log) > 0 {
						if _, lost := lose.LoadOrStore(c.Key.Name, true); !lost {
							return errHook
						}
					}
				}
				return nil
			}
		})
		h.put("a", "@every 1m")
		time.Sleep(5 * time.Second)
		h.put("once", "@after 1m")
		h.put("kept", "@after 2m", func(p *timers.Put) { p.Spec.Keep = -1 })
		time.Sleep(2*time.Minute + time.Second)
		h.wantEndings("a", "fired", "fired")
		h.wantEndings("once", "fired")
		h.wantEndings("kept", "fired")
	})
}

func TestABackfillEndsWithItsTimer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		time.Sleep(240 * time.Hour) // the bubble begins with the year 2000, before which nothing was due
		from := time.Now()
		store := &hooked{Store: mem.New()}
		store.before = func([]rouse.Change) error { time.Sleep(time.Millisecond); return nil }
		h := start(t, store, &recorder{}, timers.Options{})
		tm := h.put("a", "* * * * *")
		done := make(chan error, 1)
		go func() {
			_, err := h.Backfill(ctx, key("a"), rouse.At(from.Add(-100*time.Hour)), rouse.At(from), false)
			done <- err
		}()
		time.Sleep(3 * time.Millisecond)
		if _, err := h.Delete(ctx, key("a"), 0); err != nil {
			t.Fatal(err)
		}
		ended := time.Now()
		if err := <-done; !errors.Is(err, rouse.ErrNotFound) && !errors.Is(err, rouse.ErrConflict) {
			t.Errorf("the backfill of a timer that was deleted meanwhile: %v", err)
		}
		time.Sleep(time.Minute)
		late := 0
		for _, a := range h.sink.got() {
			if a.Generation == tm.Generation && a.at.After(ended) {
				late++
			}
		}
		if late > 0 {
			t.Errorf("%d attempts of the deleted timer", late)
		}
		if n, _ := h.Count(ctx, rouse.Query{States: []rouse.State{rouse.StateFiring}}); n != 0 {
			t.Errorf("%d rows are left", n)
		}
	})
}

func TestBackfillLeavesToTheTimerWhatIsItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{answer: busyFor(90 * time.Second)}, timers.Options{})
		from := time.Now()
		h.put("a", "@every 1m", func(p *timers.Put) { p.Spec.Misfire = rouse.MisfireAll })
		time.Sleep(70 * time.Second)
		b, err := h.Backfill(t.Context(), key("a"), rouse.At(from.Add(30*time.Second)), h.Now(), false)
		if err != nil || b.Count != 1 || b.Waiting != 1 {
			t.Errorf("%+v, %v", b, err)
		}
		time.Sleep(5 * time.Minute)
		h.wantOneRecordEach("a")
	})
}

func TestRecordsOfReportedFiresAreTrimmedToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		accept := func(context.Context, rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Accepted, After: time.Hour}
		}
		h := start(t, mem.New(), &recorder{answer: accept}, timers.Options{Engine: engine.Options{RecordsPerTimer: 5}})
		h.put("a", "@every 1m")
		for range 40 {
			time.Sleep(time.Minute + time.Second)
			tm, err := h.Get(t.Context(), key("a"))
			if err != nil {
				t.Fatal(err)
			}
			if tm.Token == 0 {
				continue
			}
			occ, _ := tm.Current()
			if _, err := h.Report(t.Context(), key("a"), timers.Report{FireID: tm.Fire(occ).ID, Token: tm.Token, Outcome: rouse.Outcome{Verdict: rouse.Done}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if n := len(h.records("a")); n > 10 || n < 5 {
			t.Errorf("%d records", n)
		}
	})
}

func TestAQueueForgetsWhatIsNotQueuedAnyMore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow := func(ns string, s *rouse.Spec) rouse.Lane {
			return rouse.Lane{Name: "slow", Limit: 64, Batch: 1, Rate: 0.001, Burst: 1}
		}
		h := start(t, mem.New(), &recorder{lane: slow}, timers.Options{})
		for i := range 20_000 {
			name := fmt.Sprint(i)
			h.put(name, "2000-01-01T00:00:00Z")
			if i > 10 {
				if _, err := h.Delete(t.Context(), key(name), 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		if places, fires := h.LaneRoom(); places > 5000 {
			t.Errorf("%d places for %d fires", places, fires)
		}
	})
}

func TestVerbsOfTimersAreNotForRowsBesideThem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		reject := func(context.Context, rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Rejected, Detail: "no"}
		}
		h := start(t, mem.New(), &recorder{answer: reject}, timers.Options{})
		tm := h.put("a", "@after 1s")
		h.put("alive", "@after 1h")
		time.Sleep(2 * time.Second)
		dead := rouse.Key{Namespace: "n", Name: "a", Fire: rouse.FireID("n", "a", tm.Generation, tm.Due, false)}
		for name, do := range map[string]func() error{
			"pause":              func() error { _, err := h.Pause(ctx, dead, "", 0); return err },
			"resume":             func() error { _, err := h.Resume(ctx, dead); return err },
			"skip":               func() error { _, err := h.Skip(ctx, dead, 1, ""); return err },
			"run":                func() error { _, _, err := h.RunNow(ctx, dead); return err },
			"reschedule":         func() error { _, err := h.Reschedule(ctx, dead, rouse.Spec{Schedule: "@every 1m"}, 0); return err },
			"redrive of a timer": func() error { return h.Redrive(ctx, key("alive")) },
		} {
			if err := do(); err == nil {
				t.Errorf("%s was taken", name)
			}
		}
		h.sink.answers(busyFor(time.Minute))
		if err := h.Redrive(ctx, dead); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := h.Redrive(ctx, dead); err != nil {
			t.Errorf("a redrive of what is on its way: %v", err)
		}
		time.Sleep(2 * time.Minute)
		h.wantEndings("a", "dead", "fired")
		if n := len(h.sink.got()); n != 2 {
			t.Errorf("%d attempts", n)
		}
	})
}

func TestDeadLettersAreKeptByTheAgeThatHoldsNow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		reject := func(context.Context, rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Rejected, Detail: "no"}
		}
		h := start(t, store, &recorder{answer: reject}, timers.Options{Engine: engine.Options{DeadAge: time.Hour}})
		h.put("a", "@after 1s")
		time.Sleep(time.Minute)
		dead := rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateDead}, Limit: 10}
		for _, age := range []time.Duration{-1, 9 * time.Hour} {
			h.stop()
			h = start(t, store, &recorder{}, timers.Options{Engine: engine.Options{DeadAge: age}})
			rows, _, err := h.List(t.Context(), dead)
			if err != nil || len(rows) != 1 {
				t.Fatalf("age %v: %v, %v", age, rows, err)
			}
			if res, err := h.Import(t.Context(), rows, timers.CreateOrReplace); age > 0 && (err != nil || res[0].Err != nil) {
				t.Fatal(res, err)
			}
			time.Sleep(3 * time.Hour)
			if n, _ := h.Count(t.Context(), dead); n != 1 {
				t.Errorf("age %v: %d dead letters", age, n)
			}
		}
		time.Sleep(4 * time.Hour)
		if n, _ := h.Count(t.Context(), dead); n != 0 {
			t.Errorf("%d dead letters in the end", n)
		}
	})
}

func TestBackoffHoldsThroughAPauseThatEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		from := time.Now()
		fail := func(ctx context.Context, f rouse.Fire) rouse.Outcome {
			backoff.Sleep(ctx, 30*time.Second)
			return rouse.Outcome{Verdict: rouse.Failed, Detail: "no", After: 10 * time.Minute}
		}
		h := start(t, mem.New(), &recorder{answer: fail}, timers.Options{})
		h.put("a", "@after 1s")
		time.Sleep(2 * time.Second)
		if _, err := h.Pause(t.Context(), key("a"), "", rouse.At(from.Add(10*time.Second))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if n := len(h.sink.got()); n != 1 {
			t.Errorf("%d attempts", n)
		}
		time.Sleep(2 * time.Minute)
		if n := len(h.sink.got()); n != 2 {
			t.Errorf("%d attempts", n)
		}
	})
}

// slowStore takes a while to write.
type slowStore struct {
	rouse.Store
	takes time.Duration
}

func (s *slowStore) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	time.Sleep(s.takes)
	return s.Store.Apply(ctx, changes)
}

// TestWhatIsSkippedAsItComesDueIsNotSent: an occurrence that comes due while its skip is being written ends in one way.
func TestWhatIsSkippedAsItComesDueIsNotSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &slowStore{Store: mem.New()}
		h := start(t, store, &recorder{}, timers.Options{})
		made := h.put("a", "@every 1m")
		time.Sleep(time.Until(made.Due.Time()) - 5*time.Millisecond)
		store.takes = 20 * time.Millisecond
		if _, err := h.Skip(t.Context(), key("a"), 1, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := h.sink.got(); len(got) != 0 {
			t.Errorf("it was sent: %+v", got)
		}
		h.wantEndings("a", "skipped")
		time.Sleep(time.Minute)
		h.wantEndings("a", "skipped", "fired")
	})
}

// TestADeleteThatWasCutOffIsFinished: what is on its way beside a timer ends with a delete, even if the timer itself went before.
func TestADeleteThatWasCutOffIsFinished(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{answer: func(context.Context, rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Failed, Detail: "busy"}
		}}, timers.Options{})
		made := h.put("a", "@every 1m", func(p *timers.Put) { p.Spec.Overlap = rouse.OverlapAllow })
		time.Sleep(61 * time.Second)
		if _, err := h.store.Apply(t.Context(), []rouse.Change{{Key: key("a"), If: rouse.AnyRevision}}); err != nil { // and then it died
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

// TestWhatADebouncedCallReplacesIsRecorded: an occurrence that was being retried ends with the call that replaces it.
func TestWhatADebouncedCallReplacesIsRecorded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{answer: func(_ context.Context, f rouse.Fire) rouse.Outcome {
			if len(f.Spec.Payload) == 1 {
				return rouse.Outcome{Verdict: rouse.Failed, Detail: "busy"}
			}
			return rouse.Outcome{Verdict: rouse.Done}
		}}, timers.Options{})
		call := func(payload string) {
			t.Helper()
			spec := rouse.Spec{Target: "test:a", Payload: []byte(payload), Retry: rouse.Retry{Interval: time.Minute}}
			if _, err := h.Coalesce(t.Context(), key("a"), spec, rouse.Coalesce{Quiet: time.Second}); err != nil {
				t.Fatal(err)
			}
		}
		call("1")
		time.Sleep(10 * time.Second)
		call("22")
		time.Sleep(10 * time.Second)
		h.wantEndings("a", "skipped", "fired")
	})
}

// TestADeliveryOfWhichNothingIsLeft: when all that waited has passed its deadline there is nothing to tell of.
func TestADeliveryOfWhichNothingIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sent := func(fires []rouse.Fire, _ rouse.Instant) {
			if len(fires) == 0 {
				t.Error("a delivery of nothing was sent")
			}
		}
		h := start(t, mem.New(), &recorder{answer: busyFor(10 * time.Second), lane: func(string, *rouse.Spec) rouse.Lane {
			return rouse.Lane{Name: "a", Limit: 1, Batch: 1}
		}}, timers.Options{Engine: engine.Options{Events: engine.Events{Sent: sent}}})
		h.put("a", "@after 1s")
		h.put("b", "@after 2s", func(p *timers.Put) { p.Spec.Deadline = time.Second })
		time.Sleep(time.Minute)
		h.wantEndings("b", "missed")
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
