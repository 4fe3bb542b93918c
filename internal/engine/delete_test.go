package engine_test

import (
	"context"
	"errors"
	"sync"
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

// TestGoneOfWhatAClientAskedForEndsNoTimer: the target of a dead letter may be an old one, which the timer
// has no more.
func TestGoneOfWhatAClientAskedForEndsNoTimer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		time.Sleep(48 * time.Hour)
		h := start(t, mem.New(), &recorder{answer: answerBy(func(f rouse.Fire) rouse.Outcome {
			if f.Spec.Target == "test:a" {
				return rouse.Outcome{Verdict: rouse.Rejected, Detail: "no"}
			}
			return rouse.Outcome{Verdict: rouse.Done}
		})}, timers.Options{})
		old := h.put("a", "@after 1s")
		time.Sleep(time.Minute)
		made := h.put("a", "0 * * * *", func(p *timers.Put) { p.Spec.Target = "test:new" })
		h.sink.answers(answerBy(func(f rouse.Fire) rouse.Outcome { return rouse.Outcome{Verdict: rouse.Gone} }))
		dead := rouse.Key{Namespace: "n", Name: "a", Fire: rouse.FireID("n", "a", old.Generation, old.Due, false)}
		if _, err := h.Redrive(ctx, dead, false); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Backfill(ctx, key("a"), timers.BackfillRequest{From: h.Now().Add(-time.Hour), Until: h.Now()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := len(h.sink.got()); n != 3 {
			t.Errorf("%d fires, want the first one, its redrive and the backfill", n)
		}
		if got, err := h.Get(ctx, key("a")); err != nil || got.Generation != made.Generation {
			t.Errorf("the timer of that name: %+v, %v", got, err)
		}
	})
}

// TestGoneEndsOnlyTheTimerOfItsGeneration: the timer is replaced after its old target answered, and before it
// is deleted for that.
func TestGoneEndsOnlyTheTimerOfItsGeneration(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &hookedStore{Store: mem.New()}
		h := start(t, store, &recorder{answer: answerBy(func(rouse.Fire) rouse.Outcome { return rouse.Outcome{Verdict: rouse.Gone} })}, timers.Options{})
		made := h.put("a", "@every 1m", func(p *timers.Put) { p.Spec.Overlap = rouse.OverlapAllow })
		replaced := false
		store.set(func() {
			store.before = func(changes []rouse.Change) error {
				for _, c := range changes {
					if c.Key != key("a") || c.To != nil || c.Keep || replaced {
						continue
					}
					rows, _ := store.Store.Get(context.Background(), []rouse.Key{c.Key})
					tm, err := rouse.DecodeTimer(&rows[0])
					if err != nil {
						t.Error(err)
					}
					tm.Generation, replaced = 0, true
					row := tm.Row()
					if _, err := store.Store.Apply(context.Background(), []rouse.Change{{Key: c.Key, If: c.If, To: &row}}); err != nil {
						t.Error(err)
					}
				}
				return nil
			}
		})
		time.Sleep(90 * time.Second)
		if got, err := h.Get(t.Context(), key("a")); !replaced || err != nil || got.Generation == made.Generation {
			t.Errorf("the timer that replaced it: %+v, %v; replaced: %v", got, err, replaced)
		}
	})
}

// TestADeleteJustAfterAnAttemptIsRecorded: the store has how the attempt ended, and memory does not have it
// yet.
func TestADeleteJustAfterAnAttemptIsRecorded(t *testing.T) {
	for name, remove := range map[string]func(h *harness, t *rouse.Timer) error{
		"delete": func(h *harness, tm *rouse.Timer) error {
			_, err := h.Delete(context.Background(), tm.Key, 0)
			return err
		},
		"delete of many": func(h *harness, tm *rouse.Timer) error {
			return errors.Join(h.DeleteMany(context.Background(), []rouse.Timer{*tm})...)
		},
		"put": func(h *harness, tm *rouse.Timer) error {
			res, err := h.Put(context.Background(), []timers.Put{{Key: tm.Key, Spec: rouse.Spec{Schedule: "@every 100h", Target: "test:a"}, Mode: timers.CreateOrReplace}})
			return firstErr(res, err)
		},
		"coalesce": func(h *harness, tm *rouse.Timer) error {
			_, err := h.Coalesce(context.Background(), tm.Key, rouse.Spec{Target: "test:a"}, rouse.Coalesce{Quiet: 24 * time.Hour})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := &hookedStore{Store: mem.New()}
				h := start(t, store, &recorder{answer: func(context.Context, rouse.Fire) rouse.Outcome {
					return rouse.Outcome{Verdict: rouse.Failed, Detail: "busy"}
				}}, timers.Options{})
				var once sync.Once
				done := make(chan error, 1)
				store.set(func() {
					store.after = func(changes []rouse.Change, _ []rouse.Result) error {
						for i := range changes {
							if changes[i].To != nil && changes[i].To.State == rouse.StateRetrying {
								once.Do(func() {
									tm, err := h.Get(context.Background(), key("a"))
									if err != nil {
										t.Error(err)
									}
									go func() { done <- remove(h, &tm) }()
									time.Sleep(10 * time.Millisecond)
								})
							}
						}
						return nil
					}
				})
				h.put("a", "@after 1m", func(p *timers.Put) { p.Spec.Retry = rouse.Retry{Attempts: 3, Interval: time.Hour} })
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				h.wantEndings("a", "skipped")
			})
		})
	}
}
