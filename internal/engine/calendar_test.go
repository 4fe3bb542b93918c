package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

func TestATimerOutlivesACalendarThatCannotBeRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		inner := mem.New()
		h := start(t, inner, &recorder{}, timers.Options{})
		if _, _, err := h.PutCalendar(ctx, rouse.Calendar{Namespace: "n", Name: "holidays", Days: []rouse.Day{{Date: 20_000}}}); err != nil {
			t.Fatal(err)
		}
		off := func(p *timers.Put) { p.Spec.Calendar.Off = []string{"holidays"} }
		h.put("a", "@every 1m", off)
		h.put("skipped", "@every 1m", off)
		h.put("paused", "@every 1m", off)
		h.put("allow", "@every 1m", off, func(p *timers.Put) { p.Spec.Overlap = rouse.OverlapAllow })
		h.stop()
		store := &hookedStore{Store: inner, get: func(keys []rouse.Key) error {
			if strings.Contains(keys[0].Name, "calendar") {
				return errHook
			}
			return nil
		}}
		h = start(t, store, &recorder{}, timers.Options{})
		if _, err := h.Skip(ctx, key("skipped"), 1, ""); err == nil {
			t.Error("a skip without a schedule was taken")
		}
		if _, err := h.Pause(ctx, key("paused"), "", 0); err != nil {
			t.Error(err)
		}
		time.Sleep(90 * time.Second)
		if _, err := h.Resume(ctx, key("paused")); err == nil {
			t.Error("a resume without a schedule was taken")
		}
		store.set(func() { store.get = nil })
		if _, err := h.Resume(ctx, key("paused")); err != nil {
			t.Error(err)
		}
		before := len(h.sink.got())
		time.Sleep(5 * time.Minute)
		for _, name := range []string{"a", "skipped", "paused", "allow"} {
			if tm, err := h.Get(ctx, key(name)); err != nil || tm.Due == rouse.Never {
				t.Errorf("%s: %+v, %v", name, tm.Due, err)
			}
			h.wantOneRecordEach(name)
		}
		if n := len(h.sink.got()) - before; n < 16 {
			t.Errorf("%d fires after the calendar came back", n)
		}
	})
}
