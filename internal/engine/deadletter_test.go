package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

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

func TestARedrivenDeadLetterIsNotDeleted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner := mem.New()
		store := &hookedStore{Store: inner}
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
				for _, c := range changes { // an edit that is committed before the deletion
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
					} else if _, _, err := tm.Run(now); err != nil {
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
			t.Errorf("%d rows were about to be deleted", n)
		}
		time.Sleep(time.Minute)
		h.wantEndings("a", "dead", "fired")
		if n := len(h.sink.got()); n != 5 {
			t.Errorf("%d attempts", n)
		}
	})
}

func TestOperationsOnTimersRefuseRowsNextToThem(t *testing.T) {
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
			"pause":  func() error { _, err := h.Pause(ctx, dead, "", 0); return err },
			"resume": func() error { _, err := h.Resume(ctx, dead); return err },
			"skip":   func() error { _, err := h.Skip(ctx, dead, 1, ""); return err },
			"run":    func() error { _, _, err := h.RunNow(ctx, dead); return err },
			"reschedule": func() error {
				_, err := h.Reschedule(ctx, dead, rouse.Spec{Schedule: "@every 1m"}, 0, false)
				return err
			},
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
