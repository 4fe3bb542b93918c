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

// TestABackfillGoesNotBeyondMaxOccurrences: the timer has ended, and is kept.
func TestABackfillGoesNotBeyondMaxOccurrences(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		time.Sleep(240 * time.Hour)
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		from := h.Now()
		limited := func(p *timers.Put) { p.Spec.MaxOccurrences, p.Spec.Keep = 3, -1 }
		h.put("every", "@every 1h", limited) // at 1:00, 2:00 and 3:00 after from
		h.put("cron", "30 * * * *", limited) // at 0:30, 1:30 and 2:30
		h.put("going", "0 0 * * *", limited) // not ended
		h.put("many", "*/10 * * * *", func(p *timers.Put) { p.Spec.MaxOccurrences, p.Spec.Keep = 1_000_000, -1 })
		time.Sleep(26 * time.Hour)
		for _, c := range []struct {
			name        string
			since       time.Duration
			count, left uint64
		}{
			{"every", 0, 3, 0}, {"every", 90 * time.Minute, 2, 0}, {"every", 3 * time.Hour, 1, 0}, {"every", 10 * time.Hour, 0, 0},
			{"cron", 0, 3, 0}, {"cron", -2 * time.Hour, 5, 0}, {"cron", 90 * time.Minute, 2, 0}, {"cron", 10 * time.Hour, 0, 0},
			{"going", -24 * time.Hour, 3, 0}, {"many", 25 * time.Hour, 6, 0},
		} {
			b, err := h.Backfill(ctx, key(c.name), from.Add(c.since), from.Add(26*time.Hour), true)
			if err != nil || b.Count != c.count || b.Waiting != c.left || len(b.First) != int(c.count) {
				t.Errorf("%s from %v: %d occurrences, %d waiting, %d first ones, %v; want %d", c.name, c.since, b.Count, b.Waiting, len(b.First), err, c.count)
			}
		}
		if _, err := h.Backfill(ctx, key("every"), from, h.Now(), false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		n := 0
		for _, f := range h.sink.got() {
			if f.Name == "every" {
				n++
			}
		}
		if n != 3+3 {
			t.Errorf("%d fires, want 3 of the schedule and 3 of the backfill", n)
		}
	})
}
