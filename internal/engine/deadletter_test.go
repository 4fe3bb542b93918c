package engine_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
			"redrive of a timer": func() error { _, err := h.Redrive(ctx, key("alive"), false); return err },
		} {
			if err := do(); err == nil {
				t.Errorf("%s was taken", name)
			}
		}
		h.sink.answers(busyFor(time.Minute))
		if _, err := h.Redrive(ctx, dead, false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, err := h.Redrive(ctx, dead, false); err != nil {
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
		h := start(t, store, &recorder{answer: reject}, timers.Options{Engine: engine.Options{DeadAge: 10 * time.Minute}})
		h.put("a", "@after 1s")
		time.Sleep(time.Minute)
		dead := rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateDead}, Limit: 10}
		for _, age := range []time.Duration{-1, 90 * time.Minute} {
			h.stop()
			h = start(t, store, &recorder{}, timers.Options{Engine: engine.Options{DeadAge: age}})
			rows, _, err := h.List(t.Context(), dead)
			if err != nil || len(rows) != 1 {
				t.Fatalf("age %v: %v, %v", age, rows, err)
			}
			if res, err := h.Import(t.Context(), rows, timers.CreateOrReplace); age > 0 && (err != nil || res[0].Err != nil) {
				t.Fatal(res, err)
			}
			time.Sleep(30 * time.Minute)
			if n, _ := h.Count(t.Context(), dead); n != 1 {
				t.Errorf("age %v: %d dead letters", age, n)
			}
		}
		time.Sleep(40 * time.Minute)
		if n, _ := h.Count(t.Context(), dead); n != 0 {
			t.Errorf("%d dead letters in the end", n)
		}
	})
}

// TestATrimLeavesARedrivenDeadLetter: dead letters are redriven between the list of those to trim and their
// deletion.
func TestATrimLeavesARedrivenDeadLetter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner := mem.New()
		store := &hookedStore{Store: inner}
		reject := func(context.Context, rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Rejected, Detail: "no"}
		}
		h := start(t, store, &recorder{answer: reject}, timers.Options{Engine: engine.Options{DeadPerTimer: 10}})
		h.put("a", "@every 1m")
		time.Sleep(10*time.Minute + time.Second)
		var redriven []string
		store.set(func() {
			store.before = func(changes []rouse.Change) error {
				for _, c := range changes {
					if c.Key.Fire == "" || c.To != nil || c.Keep || len(redriven) > 0 {
						continue
					}
					rows, _ := inner.Get(context.Background(), []rouse.Key{c.Key})
					tm, err := rouse.DecodeTimer(&rows[0])
					if err != nil {
						t.Error(err)
					}
					now, _ := inner.Now(context.Background())
					tm = tm.Redrive(now.Add(time.Hour))
					row := tm.Row()
					if _, err := inner.Apply(context.Background(), []rouse.Change{{Key: c.Key, If: rows[0].Revision, To: &row}}); err != nil {
						t.Error(err)
					}
					redriven = append(redriven, c.Key.Fire)
				}
				return nil
			}
		})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if len(redriven) != 1 {
			t.Fatalf("%d dead letters were redriven before they were trimmed", len(redriven))
		}
		if got, err := h.Get(t.Context(), rouse.Key{Namespace: "n", Name: "a", Fire: redriven[0]}); err != nil || !got.Live {
			t.Errorf("the redriven one: %+v, %v", got.Live, err)
		}
	})
}

// TestARedriveWithTheCurrentSpec has timers that were replaced to repair their target, one that is gone, and
// the notice of an expectation.
func TestARedriveWithTheCurrentSpec(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		h := start(t, mem.New(), &recorder{answer: answerBy(func(f rouse.Fire) rouse.Outcome {
			if f.Spec.Target == "test:old" || f.Spec.Target == "test:pager" {
				return rouse.Outcome{Verdict: rouse.Rejected, Detail: "no"}
			}
			return rouse.Outcome{Verdict: rouse.Done}
		})}, timers.Options{})
		old := func(p *timers.Put) {
			p.Spec.Target, p.Spec.Payload, p.Spec.Webhook.Headers = "test:old", []byte(`"old"`), map[string]string{"X-Is": "old"}
		}
		for _, name := range []string{"as it was", "as it is", "one of many", "gone"} {
			h.put(name, "@after 1s", old)
		}
		h.put("watched", "@every 1h", old, func(p *timers.Put) {
			p.Spec.Expect = rouse.Expect{Every: time.Minute, Grace: time.Second, Notify: "test:pager"}
		})
		time.Sleep(5 * time.Minute)
		repair := func(name, when string, edit ...func(*timers.Put)) {
			h.put(name, when, append(edit, func(p *timers.Put) {
				p.Mode = timers.CreateOrReplace
				p.Spec.Target, p.Spec.Payload, p.Spec.Webhook.Headers = "test:new", []byte(`"new"`), map[string]string{"X-Is": "new"}
				p.Spec.Retry.Attempts = 2
			})...)
		}
		for _, name := range []string{"as it was", "as it is", "one of many"} {
			repair(name, "@after 24h")
		}
		repair("watched", "@every 1h", func(p *timers.Put) {
			p.Spec.Expect = rouse.Expect{Every: time.Hour, Grace: time.Second, Notify: "test:other pager"}
		})
		dead := map[string]rouse.Key{}
		letters, _, err := h.List(ctx, rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateDead}, Limit: 100})
		for _, l := range letters {
			dead[l.Key.Name] = l.Key
		}
		if err != nil || len(dead) != 5 || len(letters) != 5 {
			t.Fatalf("%d dead letters of %d timers, %v", len(letters), len(dead), err)
		}
		first := len(h.sink.got())
		h.sink.answers(nil) // what is redriven does not die again
		if to, err := h.Redrive(ctx, dead["as it was"], false); err != nil || to != "test:old" {
			t.Errorf("as it was: to %q, %v", to, err)
		}
		if to, err := h.Redrive(ctx, dead["as it is"], true); err != nil || to != "test:new" {
			t.Errorf("as it is: to %q, %v", to, err)
		}
		var invalid *rouse.Invalid
		if _, err := h.Redrive(ctx, dead["gone"], true); !errors.As(err, &invalid) || invalid.Problems[0].Field != "with_current_spec" {
			t.Errorf("of a timer that is gone: %v", err)
		}
		for _, dry := range []bool{true, false} {
			err = h.Bulk(ctx, timers.BulkRequest{Query: rouse.Query{Namespace: "n"}, Action: "redrive", CurrentSpec: true, DryRun: dry}, func(p timers.BulkProgress) error {
				if !p.Done {
					return nil
				}
				want := []rouse.JobTarget{{Target: "test:new", Count: 1}, {Target: "test:other pager", Count: 1}}
				slices.SortFunc(p.Targets, func(a, b rouse.JobTarget) int { return cmp.Compare(a.Target, b.Target) })
				if !p.Done || p.Failed != 1 || !dry && p.Changed != 2 || !slices.Equal(p.Targets, want) || p.Failures[0].Key != dead["gone"] {
					t.Errorf("bulk, dry run %v: %+v", dry, p)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := h.Bulk(ctx, timers.BulkRequest{Query: rouse.Query{Namespace: "n"}, Action: "purge", CurrentSpec: true}, nil); !errors.As(err, &invalid) {
			t.Errorf("purge with the current spec: %v", err)
		}
		time.Sleep(time.Second)
		want := map[string]string{"as it was": "test:old", "as it is": "test:new", "one of many": "test:new", "watched": "test:other pager"}
		for _, f := range h.sink.got()[first:] {
			isNew := f.Spec.Webhook.Headers["X-Is"] == "new" && string(f.Spec.Payload) == `"new"` && f.Spec.Retry.Attempts == 2
			if f.ID != dead[f.Name].Fire || f.Spec.Target != want[f.Name] || (f.Spec.Target == "test:new") != isNew || f.Name == "watched" && !strings.Contains(string(f.Spec.Payload), "overdue") {
				t.Errorf("%s went to %s as %s, with %s, %v", f.Name, f.Spec.Target, f.ID, f.Spec.Payload, f.Spec.Webhook.Headers)
			}
			delete(want, f.Name)
		}
		if len(want) > 0 {
			t.Errorf("not redriven: %v", want)
		}
	})
}
