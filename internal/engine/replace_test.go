package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

func TestWhatIsReplacedWhileItIsTriedIsRecorded(t *testing.T) {
	for name, cut := range map[string]func(h *harness) error{
		"a coalesced call": func(h *harness) error {
			_, err := h.Coalesce(context.Background(), key("a"), rouse.Spec{Target: "test:a"}, rouse.Coalesce{Quiet: 24 * time.Hour})
			return err
		},
		"a paused timer is replaced": func(h *harness) error {
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
				h.put("a", "@after 1s", func(p *timers.Put) { p.Spec.Retry = rouse.Retry{Attempts: 9, Interval: time.Minute, Max: time.Minute} })
				time.Sleep(2 * time.Second)
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

// TestWhatIsReplacedBeforeItIsDueIsNotRecorded: the owner learns of the replacement by another node while it
// checks the old version, which has come due in the meantime, and which it never sends.
func TestWhatIsReplacedBeforeItIsDueIsNotRecorded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		shared, sink := mem.New(), &recorder{}
		owner := join(t, slowCheckStore{shared, 4 * time.Second}, newManual(0, 1), sink, timers.Options{Engine: engine.Options{Poll: time.Second}})
		other := join(t, shared, newManual(), &recorder{}, timers.Options{})
		owner.put("a", "@after 30s")
		time.Sleep(30*time.Second - 10*time.Millisecond)
		other.put("a", "@after 8s", func(p *timers.Put) { p.Mode = timers.CreateOrReplace })
		time.Sleep(time.Minute)
		owner.wantEndings("a", "fired")
		if n := len(sink.got()); n != 1 {
			t.Errorf("%d attempts", n)
		}
	})
}

// TestWhatADebouncedCallReplacesIsRecorded: an occurrence between retries ends when a call replaces it.
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

// TestAOneShotTimerIsPutAgain: the same instant is the same timer, in whatever words, and a delay that counts
// from the write is another one.
func TestAOneShotTimerIsPutAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		put := func(name, when, payload string) timers.PutResult {
			t.Helper()
			spec := rouse.Spec{Schedule: when, Target: "test:a", Payload: []byte(payload), Keep: time.Hour}
			res, err := h.Put(t.Context(), []timers.Put{{Key: key(name), Spec: spec, Mode: timers.CreateOrReplace}})
			if err = firstErr(res, err); err != nil {
				t.Fatal(err)
			}
			return res[0]
		}
		at := time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
		first := put("at", at, "a")
		delay := put("after", "@after 1m", "a")
		worded := put("words", "@after 1m", "a")
		time.Sleep(30 * time.Second)
		if again := put("at", at, "a"); !again.Unchanged || again.Timer.Revision != first.Timer.Revision {
			t.Errorf("the same again: %+v", again)
		}
		if other := put("at", at, "b"); other.Unchanged || other.Timer.Generation != first.Timer.Generation || other.Timer.Due != first.Timer.Due {
			t.Errorf("another payload: %+v", other)
		}
		if again := put("after", "@after 1m", "a"); again.Unchanged || again.Timer.Generation == delay.Timer.Generation || again.Timer.Due != delay.Timer.Due.Add(30*time.Second) {
			t.Errorf("a delay again: %+v", again)
		}
		inWords := put("words", worded.Timer.Due.String(), "a")
		if inWords.Unchanged || inWords.Timer.Generation != worded.Timer.Generation || inWords.Timer.Due != worded.Timer.Due {
			t.Errorf("the same instant in other words: %+v", inWords)
		}
		time.Sleep(time.Minute + time.Second)
		h.wantEndings("words", "fired")
		if got := h.sink.got(); len(got) != 3 {
			t.Errorf("%d fires, want one of each", len(got))
		}
		if over := put("at", at, "c"); over.Timer.State() != rouse.StateEnded || len(over.Notes) != 1 {
			t.Errorf("another payload after its end: %+v", over)
		}
		time.Sleep(time.Second)
		if got := h.sink.got(); len(got) != 3 {
			t.Errorf("what had ended fired again: %d fires", len(got))
		}
	})
}

// TestAnInterruptedWriteIsCompleted: a put reaches the timer, and not the rows next to it; the same again
// does.
func TestAnInterruptedWriteIsCompleted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		time.Sleep(240 * time.Hour)
		store := &hookedStore{Store: mem.New()}
		h := start(t, store, &recorder{}, timers.Options{})
		put := func(schedule, payload string) (timers.PutResult, error) {
			spec := rouse.Spec{Schedule: schedule, Target: "test:a", Payload: []byte(payload)}
			res, err := h.Put(ctx, []timers.Put{{Key: key("a"), Spec: spec, Mode: timers.CreateOrReplace}})
			if err = firstErr(res, err); err != nil {
				return timers.PutResult{}, err
			}
			return res[0], nil
		}
		next := func() (list []rouse.Row) { // the rows next to the timer
			page, err := h.store.List(ctx, rouse.Query{States: []rouse.State{rouse.StateFiring}, Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			return page.Rows
		}
		interrupted := func(schedule, payload string) {
			t.Helper()
			store.set(func() {
				store.before = func(changes []rouse.Change) error {
					for i := range changes {
						if changes[i].Key.Fire != "" {
							return rouse.ErrUnavailable
						}
					}
					return nil
				}
			})
			if _, err := put(schedule, payload); !errors.Is(err, rouse.ErrUnavailable) {
				t.Fatalf("an interrupted put: %v", err)
			}
			store.set(func() { store.before = nil })
			if res, err := put(schedule, payload); err != nil || !res.Unchanged {
				t.Fatalf("the same again: %+v, %v", res, err)
			}
		}
		backfill := func() {
			t.Helper()
			b, err := h.Backfill(ctx, key("a"), timers.BackfillRequest{From: h.Now().Add(-4 * time.Hour), Until: h.Now(), PerSecond: 0.01})
			if err != nil || b.Count < 2 {
				t.Fatalf("%+v, %v", b, err)
			}
			time.Sleep(time.Second) // the first has fired
		}
		if _, err := put("0 * * * *", "a"); err != nil {
			t.Fatal(err)
		}
		backfill()
		interrupted("0 * * * *", "b")
		for _, row := range next() {
			if side, err := h.Read(&row); err != nil || string(side.Spec.Payload) != "b" {
				t.Errorf("a row next to the timer has %q, %v", side.Spec.Payload, err)
			}
		}
		if len(next()) == 0 {
			t.Error("no row is left to look at")
		}
		interrupted("30 * * * *", "b")
		if rows := next(); len(rows) != 0 {
			t.Errorf("%d rows of the old generation are left", len(rows))
		}
		backfill()
		before := next()
		if res, err := put("30 * * * *", "b"); err != nil || !res.Unchanged {
			t.Errorf("the same again: %+v, %v", res, err)
		}
		if after := next(); len(before) == 0 || !slices.EqualFunc(before, after, func(a, b rouse.Row) bool { return a.Key == b.Key && a.Revision == b.Revision }) {
			t.Errorf("a put of what is there changed rows: %d, %d", len(before), len(after))
		}
	})
}

// TestAPutOfTheSameScheduleIsChecked: what a create refuses is refused, and what was there may stay.
func TestAPutOfTheSameScheduleIsChecked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		for _, c := range []struct {
			field string
			spec  rouse.Spec
		}{
			{"", rouse.Spec{}},
			{"jitter", rouse.Spec{Jitter: time.Hour}},
			{"retry", rouse.Spec{Retry: rouse.Retry{Attempts: 8, Interval: 30 * time.Second}}},
			{"", rouse.Spec{Retry: rouse.Retry{Attempts: 8, Interval: 30 * time.Second}, Overlap: rouse.OverlapSkip}},
			{"retry", rouse.Spec{Retry: rouse.Retry{Attempts: 8, Interval: 30 * time.Second}}},
		} {
			c.spec.Schedule, c.spec.Target = "@every 10s", "test:a"
			for _, only := range []bool{true, false} {
				res, err := h.Put(t.Context(), []timers.Put{{Key: key("a"), Spec: c.spec, Mode: timers.CreateOrReplace, Validate: only}})
				err = firstErr(res, err)
				if inv, ok := errors.AsType[*rouse.Invalid](err); ok != (c.field != "") || ok && inv.Problems[0].Field != c.field {
					t.Errorf("%+v: %v, want an error of %q", c.spec, err, c.field)
				}
			}
		}
	})
}

// TestABatchOfOneNameIsWrittenInOrder: the last one counts.
func TestABatchOfOneNameIsWrittenInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		for range 20 {
			var puts []timers.Put
			for _, payload := range []string{"1", "2", "3", "4"} {
				puts = append(puts, timers.Put{Key: key("a"), Spec: rouse.Spec{Schedule: "@every 1h", Target: "test:a", Payload: []byte(payload)}, Mode: timers.CreateOrReplace})
			}
			res, err := h.Put(t.Context(), puts)
			if err := firstErr(res, err); err != nil {
				t.Fatal(err)
			}
			if got, err := h.Get(t.Context(), key("a")); err != nil || string(got.Spec.Payload) != "4" {
				t.Fatalf("it has the payload %s, %v", got.Spec.Payload, err)
			}
		}
	})
}
