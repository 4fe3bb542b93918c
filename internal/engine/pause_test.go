package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/schedule"
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

// TestATimerWhoseScheduleCannotBeCompiledPauses: its zone is no longer known, or a newer version wrote it.
// What is due is sent and settled, once; the timer is paused with the cause. A store that does not answer
// pauses nothing.
func TestATimerWhoseScheduleCannotBeCompiledPauses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		store := &hookedStore{Store: mem.New()}
		h := start(t, store, &recorder{}, timers.Options{})
		zoned := func(p *timers.Put) { p.Spec.Timezone = "Europe/Rome" }
		h.put("plain", "0 * * * *", zoned)
		h.put("allow", "0 * * * *", zoned, func(p *timers.Put) { p.Spec.Overlap = rouse.OverlapAllow })
		h.put("dies", "0 * * * *", zoned)
		h.put("accepted", "0 * * * *", zoned)
		h.put("until", "0 * * * *", zoned)
		h.put("other", "0 * * * *")
		h.put("calendar", "0 * * * *", func(p *timers.Put) { p.Spec.Calendar.Off = []string{rouse.Weekends} })
		if _, err := h.Pause(ctx, key("until"), "", h.Now().Add(2*time.Hour+time.Minute)); err != nil {
			t.Fatal(err)
		}
		h.stop()
		broken := true
		compile := func(spec *rouse.Spec, in rouse.ScheduleInput) (rouse.Schedule, error) {
			if broken && spec.Timezone != "" {
				return nil, rouse.Refuse("timezone", spec.Timezone, "is unknown", "give an IANA name")
			}
			return schedule.Compile(spec, in)
		}
		h = start(t, store, &recorder{answer: answerBy(func(f rouse.Fire) rouse.Outcome {
			switch f.Name {
			case "dies":
				return rouse.Outcome{Verdict: rouse.Rejected, Detail: "no"}
			case "accepted":
				return rouse.Outcome{Verdict: rouse.Accepted, After: 2 * time.Hour}
			}
			return rouse.Outcome{Verdict: rouse.Done}
		})}, timers.Options{Compile: compile})
		time.Sleep(90 * time.Minute)
		fires := map[string]rouse.Fire{}
		for _, f := range h.sink.got() {
			if _, twice := fires[f.Name]; twice && f.Name != "other" && f.Name != "calendar" {
				t.Errorf("%s was sent again, as attempt %d of %v", f.Name, f.Attempt, f.Due)
			}
			fires[f.Name] = f.Fire
		}
		accepted := fires["accepted"]
		if _, err := h.Report(ctx, key("accepted"), timers.Report{FireID: accepted.ID, Token: accepted.Token, Outcome: rouse.Outcome{Verdict: rouse.Done}}); err != nil {
			t.Errorf("report: %v", err)
		}
		time.Sleep(time.Hour)
		for name, ending := range map[string]string{"plain": "fired", "allow": "fired", "dies": "dead", "accepted": "fired", "until": "skipped"} {
			h.wantEndings(name, ending)
			got, err := h.Get(ctx, key(name))
			if err != nil || !got.Paused || got.PauseCause != rouse.PauseScheduleInvalid || !strings.Contains(got.Reason, `timezone "Europe/Rome": is unknown`) || got.Until != 0 {
				t.Errorf("%s: paused %v, %v, %q until %v, %v", name, got.Paused, got.PauseCause, got.Reason, got.Until, err)
			}
			x, err := h.Explain(ctx, key(name), 0)
			if err != nil || !strings.Contains(x.Summary, "schedule_invalid") {
				t.Errorf("%s is explained as %q, %v", name, x.Summary, err)
			}
		}
		for _, name := range []string{"other", "calendar"} {
			if got, err := h.Get(ctx, key(name)); err != nil || got.Paused {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
		var invalid *rouse.Invalid
		if _, err := h.Resume(ctx, key("plain")); !errors.As(err, &invalid) {
			t.Errorf("resumed while its schedule is broken: %v", err)
		}
		broken = false
		if got, err := h.Resume(ctx, key("plain")); err != nil || got.Paused || got.Due <= h.Now() || got.Due > h.Now().Add(time.Hour) {
			t.Errorf("resumed when its schedule is whole: %+v, %v", got, err)
		}
		res, err := h.Reschedule(ctx, key("dies"), rouse.Spec{Schedule: "0 * * * *"}, 0, false)
		if err != nil || res.Timer.Paused {
			t.Errorf("rescheduled: %+v, %v", res.Timer, err)
		}
	})
}

// TestACalendarThatCannotBeReadPausesNothing: the step is made when the store answers again.
func TestACalendarThatCannotBeReadPausesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &hookedStore{Store: mem.New()}
		h := start(t, store, &recorder{}, timers.Options{})
		if _, _, err := h.PutCalendar(t.Context(), rouse.Calendar{Namespace: "n", Name: "c"}); err != nil {
			t.Fatal(err)
		}
		h.put("a", "0 * * * *", func(p *timers.Put) { p.Spec.Calendar.Off = []string{"c"} })
		h.stop()
		var away atomic.Bool
		away.Store(true)
		store.set(func() {
			store.get = func(keys []rouse.Key) error {
				if away.Load() && keys[0] == rouse.CalendarKey("n", "c") {
					return errHook
				}
				return nil
			}
		})
		h = start(t, store, &recorder{}, timers.Options{})
		time.Sleep(90 * time.Minute)
		if got, err := h.Get(t.Context(), key("a")); err != nil || got.Paused || len(h.records("a")) != 0 {
			t.Errorf("while its calendar is away: %+v, %v", got, err)
		}
		away.Store(false)
		time.Sleep(time.Minute)
		h.wantEndings("a", "fired")
	})
}
