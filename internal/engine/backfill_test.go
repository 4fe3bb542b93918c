package engine_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
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
			_, err := h.Backfill(ctx, key("a"), timers.BackfillRequest{From: rouse.At(from.Add(-100 * time.Hour)), Until: rouse.At(from)})
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
		b, err := h.Backfill(t.Context(), key("a"), timers.BackfillRequest{From: rouse.At(from.Add(30 * time.Second)), Until: h.Now()})
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
		most := func(n uint64) func(p *timers.Put) {
			return func(p *timers.Put) {
				p.Spec.MaxOccurrences, p.Spec.Keep, p.Spec.Retry = n, -1, rouse.Retry{Attempts: 1, Timeout: time.Second}
			}
		}
		h.put("every", "@every 1m", most(3))         // at 1:00, 2:00 and 3:00 after from
		h.put("cron", "cron6:30 * * * * *", most(3)) // at 0:30, 1:30 and 2:30
		h.put("going", "*/24 * * * *", most(3))      // not ended
		h.put("many", "cron6:*/10 * * * * *", most(1_000_000))
		time.Sleep(26 * time.Minute)
		for _, c := range []struct {
			name        string
			since       time.Duration
			count, left uint64
		}{
			{"every", 0, 3, 0}, {"every", 90 * time.Second, 2, 0}, {"every", 3 * time.Minute, 1, 0}, {"every", 10 * time.Minute, 0, 0},
			{"cron", 0, 3, 0}, {"cron", -2 * time.Minute, 5, 0}, {"cron", 90 * time.Second, 2, 0}, {"cron", 10 * time.Minute, 0, 0},
			{"going", -24 * time.Minute, 3, 0}, {"many", 25 * time.Minute, 6, 0},
		} {
			b, err := h.Backfill(ctx, key(c.name), timers.BackfillRequest{From: from.Add(c.since), Until: from.Add(26 * time.Minute), DryRun: true})
			if err != nil || b.Count != c.count || b.Waiting != c.left || len(b.First) != int(c.count) {
				t.Errorf("%s from %v: %d occurrences, %d waiting, %d first ones, %v; want %d", c.name, c.since, b.Count, b.Waiting, len(b.First), err, c.count)
			}
		}
		if _, err := h.Backfill(ctx, key("every"), timers.BackfillRequest{From: from, Until: h.Now()}); err != nil {
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

// TestABackfillWithARate: all rows are written at once, and start one after the other, also after a restart
// and in another service that imported them.
func TestABackfillWithARate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		time.Sleep(240 * time.Hour)
		store := mem.New()
		h := start(t, store, &recorder{}, timers.Options{})
		h.put("a", "0 * * * *")
		from := h.Now().Add(-100 * time.Hour)
		for _, n := range []float64{-1, 0.001, 20_000, math.NaN(), math.Inf(1)} {
			_, err := h.Backfill(ctx, key("a"), timers.BackfillRequest{From: from, Until: h.Now(), PerSecond: n})
			if invalid := new(rouse.Invalid); !errors.As(err, &invalid) || invalid.Problems[0].Field != "per_second" {
				t.Errorf("%v a second: %v", n, err)
			}
		}
		asked := time.Now()
		b, err := h.Backfill(ctx, key("a"), timers.BackfillRequest{From: from, Until: h.Now(), PerSecond: 0.5})
		if err != nil || b.Count != 100 || time.Since(asked) > time.Second {
			t.Fatalf("%+v, %v after %v", b, err, time.Since(asked))
		}
		time.Sleep(20*time.Second + 100*time.Millisecond)
		if n := len(h.sink.got()); n != 11 {
			t.Errorf("%d fires in 20 s", n)
		}
		rows, _, err := h.List(ctx, rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateFiring}, Limit: 1000})
		if err != nil || len(rows) != 89 {
			t.Fatalf("%d rows are left, %v", len(rows), err)
		}
		h.stop()
		again, other := start(t, store, &recorder{}, timers.Options{}), start(t, mem.New(), &recorder{}, timers.Options{})
		if _, err := other.Import(ctx, rows, timers.CreateOnly); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		for what, h := range map[string]*harness{"a restart": again, "an import": other} {
			if n := len(h.sink.got()); n < 9 || n > 11 {
				t.Errorf("%d fires in 20 s after %s", n, what)
			}
		}
		time.Sleep(time.Hour)
		if n := len(again.sink.got()); n < 89 {
			t.Errorf("%d fires after the restart, want 89 of the backfill", n)
		}
	})
}

// TestARepeatedBackfillKeepsItsRate: what an earlier request has begun, and still waits, counts.
func TestARepeatedBackfillKeepsItsRate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, id := range []string{"", "again"} {
			time.Sleep(240 * time.Hour)
			store := &hookedStore{Store: mem.New()}
			h := start(t, store, &recorder{}, timers.Options{})
			h.put("a", "* * * * *")
			r := timers.BackfillRequest{From: h.Now().Add(-600 * time.Minute), Until: h.Now(), PerSecond: 1}
			ctx := access.Repeatable(t.Context(), id)
			writes := 0
			store.set(func() {
				store.before = func([]rouse.Change) error {
					if writes++; writes > 1 {
						return rouse.ErrUnavailable
					}
					return nil
				}
			})
			if _, err := h.Backfill(ctx, key("a"), r); !errors.Is(err, rouse.ErrUnavailable) {
				t.Fatalf("a backfill that is interrupted: %v", err)
			}
			store.set(func() { store.before = nil })
			if _, err := h.Backfill(ctx, key("a"), r); err != nil {
				t.Fatal(err)
			}
			page, err := store.List(ctx, rouse.Query{States: []rouse.State{rouse.StateFiring}, Limit: 1000})
			if err != nil || len(page.Rows) < 590 {
				t.Fatalf("%d rows, %v", len(page.Rows), err)
			}
			at := map[rouse.Instant]bool{}
			for i := range page.Rows {
				if at[page.Rows[i].Visible] {
					t.Errorf("id %q: two start at %v", id, page.Rows[i].Visible)
				}
				at[page.Rows[i].Visible] = true
			}
			h.stop()
		}
	})
}
