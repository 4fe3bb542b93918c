package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// slowCommits returns a store whose commits take a millisecond.
func slowCommits(inner rouse.Store) *hookedStore {
	return &hookedStore{Store: inner, before: func([]rouse.Change) error { time.Sleep(time.Millisecond); return nil }}
}

// daily are timers of 09:00 that leave out the calendar holidays.
func (h *harness) daily(n int) {
	h.t.Helper()
	if _, _, err := h.PutCalendar(context.Background(), holidays()); err != nil {
		h.t.Fatal(err)
	}
	puts := make([]timers.Put, n)
	for i := range puts {
		puts[i] = timers.Put{Key: key(fmt.Sprintf("t%04d", i)), Spec: rouse.Spec{Schedule: "0 9 * * *", Target: "test:a",
			Calendar: rouse.CalendarRule{Off: []string{"holidays"}}}}
	}
	results, err := h.Put(context.Background(), puts)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			h.t.Fatal(r.Err)
		}
	}
}

// holidays is a calendar of the next days from today.
func holidays(days ...int) rouse.Calendar {
	c := rouse.Calendar{Namespace: "n", Name: "holidays"}
	for _, d := range days {
		c.Days = append(c.Days, rouse.Day{Date: rouse.DateOf(time.Now().UTC()) + rouse.Date(d)})
	}
	return c
}

// wantOn fails the test unless all timers are due on a day from today.
func (h *harness) wantOn(n, day int) {
	h.t.Helper()
	on := 0
	err := eachTimer(h, func(t *rouse.Timer) {
		if rouse.DateOf(t.Due.Time().UTC()) == rouse.DateOf(time.Now().UTC())+rouse.Date(day) {
			on++
		}
	})
	if err != nil || on != n {
		h.t.Errorf("%d of %d timers are due in %d days, %v", on, n, day, err)
	}
}

func eachTimer(h *harness, do func(*rouse.Timer)) error {
	q := rouse.Query{Namespace: "n", Limit: 500}
	for {
		list, next, err := h.List(context.Background(), q)
		if err != nil {
			return err
		}
		for i := range list {
			do(&list[i])
		}
		if next == nil {
			return nil
		}
		q.After = *next
	}
}

const dailyTimers = 600

func TestACalendarMovesItsTimersWithoutItsClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, slowCommits(mem.New()), &recorder{}, timers.Options{})
		h.daily(dailyTimers)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		if _, _, err := h.PutCalendar(ctx, holidays(0, 1)); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		h.wantOn(dailyTimers, 2)
	})
}

func TestACalendarMovesItsTimersAfterACrash(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner := mem.New()
		h := start(t, slowCommits(inner), &recorder{}, timers.Options{})
		h.daily(dailyTimers)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, _, _ = h.PutCalendar(ctx, holidays(0, 1)) // it fails, or ends early
		}()
		time.Sleep(6 * time.Millisecond)
		cancel()
		h.stop()
		h = start(t, slowCommits(inner), &recorder{}, timers.Options{})
		time.Sleep(time.Minute)
		h.wantOn(dailyTimers, 2)
	})
}

func TestACalendarGoesOnPastADeletedTimer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &listHook{Store: mem.New()}
		h := start(t, store, &recorder{}, timers.Options{})
		h.daily(20)
		store.mu.Lock()
		store.after = func() {
			if _, err := h.Delete(t.Context(), key("t0003"), 0); err != nil {
				t.Error(err)
			}
		}
		store.mu.Unlock()
		if _, _, err := h.PutCalendar(t.Context(), holidays(0, 1)); err != nil {
			t.Error(err)
		}
		h.wantOn(19, 2)
	})
}
