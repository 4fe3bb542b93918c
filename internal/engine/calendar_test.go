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

// TestAScheduleWithAnEndEndsInSpiteOfItsCalendars: only a timer that a change of its calendars could give an
// occurrence waits for one, until its schedule would have ended anyway.
func TestAScheduleWithAnEndEndsInSpiteOfItsCalendars(t *testing.T) {
	cases := map[string]struct {
		schedule string
		edit     func(*rouse.Spec)
		fires    int
		waits    bool // at the end of the last day that counts
	}{
		"a number of times":   {"R5/PT10M", nil, 5, false},
		"a rule with a count": {"rrule:FREQ=MINUTELY;INTERVAL=10;COUNT=3", nil, 3, false},
		"a rule with an end":  {"rrule:FREQ=MINUTELY;INTERVAL=10;UNTIL=20000101T232500Z", nil, 3, false},
		"a maximum":           {"@every 10m", func(s *rouse.Spec) { s.MaxOccurrences = 2 }, 2, false},
		"an end":              {"*/30 * * * *", func(s *rouse.Spec) { s.TTL = 40 * time.Minute }, 1, false},
		"then days off":       {"R3/PT40M", nil, 1, true},
		"an end in days off":  {"@every 40m", func(s *rouse.Spec) { s.TTL = 90 * time.Minute }, 1, true},
		"no end":              {"@every 40m", nil, 1, true},
	}
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		time.Sleep(23 * time.Hour)
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		if _, _, err := h.PutCalendar(ctx, rouse.Calendar{Namespace: "n", Name: "today", Days: []rouse.Day{{Date: rouse.DateOf(time.Now().UTC())}}}); err != nil {
			t.Fatal(err)
		}
		for name, c := range cases {
			h.put(name, c.schedule, func(p *timers.Put) {
				p.Spec.Calendar.Only = []string{"today"}
				p.Spec.Keep = 24 * time.Hour
				if c.edit != nil {
					c.edit(&p.Spec)
				}
			})
		}
		time.Sleep(55 * time.Minute)
		for name, c := range cases {
			want := rouse.StateEnded
			if c.waits {
				want = rouse.StatePaused
			}
			got, err := h.Get(ctx, key(name))
			if err != nil || got.State() != want || c.waits != (got.PauseCause == rouse.PauseCalendar) {
				t.Errorf("%s: %v, for %v: %q until %v, %v", name, got.State(), got.PauseCause, got.Reason, got.Until, err)
			}
		}
		time.Sleep(80 * time.Minute)
		fires := map[string]int{}
		for _, f := range h.sink.got() {
			fires[f.Name]++
		}
		for name, c := range cases {
			want := rouse.StateEnded
			if name == "no end" {
				want = rouse.StatePaused
			}
			if got, err := h.Get(ctx, key(name)); err != nil || got.State() != want {
				t.Errorf("%s: later %v, for %v: %q until %v, %v", name, got.State(), got.PauseCause, got.Reason, got.Until, err)
			}
			if fires[name] != c.fires {
				t.Errorf("%s: %d fires, not %d", name, fires[name], c.fires)
			}
		}
	})
}
