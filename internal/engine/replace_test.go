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

// TestAOneShotTimerIsPutAgain: the same instant is the same timer, and a delay that counts from the write is
// another one.
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
		time.Sleep(time.Minute + time.Second)
		if got := h.sink.got(); len(got) != 2 {
			t.Errorf("%d fires, want one of each", len(got))
		}
		if over := put("at", at, "c"); over.Timer.State() != rouse.StateEnded || len(over.Notes) != 1 {
			t.Errorf("another payload after its end: %+v", over)
		}
		time.Sleep(time.Second)
		if got := h.sink.got(); len(got) != 2 {
			t.Errorf("what had ended fired again: %d fires", len(got))
		}
	})
}
