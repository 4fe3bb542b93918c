package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

func TestABackfillEndsWithItsTimer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		time.Sleep(240 * time.Hour) // the bubble starts in the year 2000, before which nothing was due
		from := time.Now()
		store := &hookedStore{Store: mem.New()}
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
			t.Errorf("the backfill of a timer that was deleted during it: %v", err)
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
