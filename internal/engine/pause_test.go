package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

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

func TestAPauseEndsWithItsRecordsThoughTheStoreFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		from := time.Now()
		store := &hookedStore{Store: mem.New()}
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
