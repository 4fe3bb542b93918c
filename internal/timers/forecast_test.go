package timers

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/schedulecache"
	"github.com/rousehq/rouse/schedule"
)

// looked counts like Forecast, by a look at each occurrence of each timer.
func looked(t *testing.T, all []rouse.Timer, q rouse.Query, now, from, until, step rouse.Instant) map[rouse.Instant]int64 {
	t.Helper()
	counts := map[rouse.Instant]int64{}
	for i := range all {
		tm := &all[i]
		if q.Namespace != "" && q.Namespace != tm.Key.Namespace || tm.Key.Fire != "" || tm.Due == rouse.Never && from >= now {
			continue
		}
		paused := tm.Paused && from >= now
		if !tm.Spec.Recurring() {
			if tm.Due >= from && tm.Due < until && !tm.Paused {
				counts[tm.Due/step*step]++
			}
			continue
		}
		s, err := schedule.Compile(&tm.Spec, rouse.ScheduleInput{Key: tm.Key, Anchor: tm.Anchor})
		if err != nil {
			t.Fatal(err)
		}
		first := from
		if from >= now {
			first = tm.Due
		}
		passed := tm.Passed
		for at, ok := s.Next(first - 1); ok && at < until && (tm.Spec.MaxOccurrences == 0 || passed < tm.Spec.MaxOccurrences); at, ok = s.Next(at) {
			over := tm.Until != 0 && at >= tm.Until
			if at >= tm.Due { // those before have passed already
				passed++
			}
			if at >= from && (!paused || over) && (!tm.Paused || over || at <= tm.PausedAt) {
				counts[at/step*step]++
			}
		}
	}
	return counts
}

// TestForecastIsWhatALookAtEachFinds: in every step, for every way in which parts of a forecast end.
func TestForecastIsWhatALookAtEachFinds(t *testing.T) {
	onEveryStore(t, func(t *testing.T, ts *Timers) {
		now, err := ts.store.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		now = now / 60_000 * 60_000
		var all []rouse.Timer
		for n, spec := range []rouse.Spec{
			{Schedule: "@every 1h"}, {Schedule: "@every 7s"}, {Schedule: "PT13M"}, {Schedule: "*/5 9-17 * * MON-FRI", Timezone: "Asia/Kolkata"}, {Schedule: "* * * * *"},
			{Schedule: "0 3 * * *", Timezone: "Europe/Berlin"}, {Schedule: "@every 10m", Except: []string{"* 12 * * *"}}, {Schedule: "rrule:FREQ=MINUTELY;INTERVAL=17"},
			{Schedule: "@every 11m", MaxOccurrences: 40}, {Schedule: "* * * * *", MaxOccurrences: 3000}, {Schedule: "@every 5m", Jitter: 4 * time.Minute},
			{Schedule: now.Add(90 * time.Minute).String()}, {Schedule: "@every 90m", Also: []string{"0 0 * * *"}},
		} {
			for k := range 6 {
				tm := rouse.Timer{Key: rouse.Key{Namespace: string(rune('a' + k%3)), Name: fmt.Sprintf("t-%02d-%d", n, k)}, Generation: 1, Spec: spec, Created: now, Anchor: now.Add(-time.Hour)}
				tm.Spec.Target = "stream:x"
				tm.Due = now.Add(90 * time.Minute)
				if tm.Spec.Recurring() {
					s, err := schedule.Compile(&tm.Spec, rouse.ScheduleInput{Key: tm.Key, Anchor: tm.Anchor})
					if err != nil {
						t.Fatal(err)
					}
					tm.Due, _ = s.Next(now.Add(time.Duration(k) * 45 * time.Minute))
					tm.Passed = uint64(k)
				}
				switch tm.Visible = tm.Due; k {
				case 3:
					tm.Paused, tm.PausedAt, tm.Visible = true, now.Add(-3*time.Hour), rouse.Never
				case 4:
					tm.PausedAt = now.Add(-20 * time.Hour)
					tm.Paused, tm.Until, tm.Visible = true, now.Add(26*time.Hour), now.Add(26*time.Hour)
				case 5:
					tm.Key.Fire, tm.Visible = rouse.FireID(tm.Key.Namespace, tm.Key.Name, 1, tm.Due, false), rouse.Never
				}
				all = append(all, tm)
				write(t, ts.store, &tm)
			}
		}
		for _, c := range []struct {
			q           rouse.Query
			from, until time.Duration // from now
			step        time.Duration
			rows, steps int
			parts       bool
		}{
			{rouse.Query{}, time.Hour, 7 * 24 * time.Hour, time.Hour, MaxForecast, maxSimulatedSteps, false},
			{rouse.Query{}, time.Hour, 7 * 24 * time.Hour, 24 * time.Hour, 9, maxSimulatedSteps, true},
			{rouse.Query{Namespace: "b"}, time.Hour, 50 * time.Hour, time.Minute, 4, 5000, true},
			{rouse.Query{}, 30 * time.Hour, 72*time.Hour + 1234*time.Millisecond, time.Hour, MaxForecast, 900, true},
			{rouse.Query{}, -48 * time.Hour, -time.Hour, time.Hour, 7, 3000, true},
			{rouse.Query{}, -30 * time.Hour, 40 * time.Hour, 45 * time.Minute, 7, 3000, true},
		} {
			bounds.forecast, bounds.steps = c.rows, c.steps
			from, until := now.Add(c.from), now.Add(c.until)
			f, parts := rouse.Forecast{}, 0
			for place := (*rouse.ForecastPlace)(nil); parts == 0 || place != nil; parts++ {
				part, err := ts.Forecast(t.Context(), c.q, from, until, c.step, "", place)
				if err != nil || parts > 2000 {
					t.Fatalf("%+v: part %d: %v", c, parts, err)
				}
				if part.Timers > int64(c.rows) || part.Next != nil && part.Of < part.Timers {
					t.Fatalf("%+v: part %d read %d timers of %d", c, parts, part.Timers, part.Of)
				}
				f.Add(&part)
				place = part.Next
			}
			want := looked(t, all, c.q, now, from, until, rouse.Instant(c.step.Milliseconds()))
			for _, l := range f.Loads {
				if want[l.From] != l.Count {
					t.Errorf("%+v: %d come due at %v, want %d", c, l.Count, l.From, want[l.From])
				}
				delete(want, l.From)
			}
			if len(want) > 0 || len(f.Loads) == 0 || c.parts != (parts > 1) {
				t.Errorf("%+v: %d steps in %d parts, and these are missing: %v", c, len(f.Loads), parts, want)
			}
		}
	})
}

// TestPastOccurrencesUseUpNothing: what is left of max_occurrences begins at the next one.
func TestPastOccurrencesUseUpNothing(t *testing.T) {
	onEveryStore(t, func(t *testing.T, ts *Timers) {
		now := day
		for past, want := range map[time.Duration]int{0: 3, 9 * time.Second: 6, 30 * time.Second: 13} {
			tm := rouse.Timer{Key: rouse.Key{Namespace: "a", Name: "x"}, Generation: 1, Spec: rouse.Spec{Schedule: "@every 3s", MaxOccurrences: 6, Target: "stream:x"},
				Passed: 3, Anchor: now.Add(-time.Hour), Due: now}
			n := 0
			err := ts.eachSimulated(t.Context(), &tm, &schedulecache.Meter{Limit: maxSimulatedSteps}, now, now.Add(-past), now.Add(time.Hour), func(rouse.Coming, *time.Location) bool {
				n++
				return true
			})
			if err != nil || n != want {
				t.Errorf("from %v before now: %d occurrences, want %d, %v", past, n, want, err)
			}
		}
	})
}

// TestForecastOfNow begins now, and the parts after the first are of the same moment.
func TestForecastOfNow(t *testing.T) {
	onEveryStore(t, func(t *testing.T, ts *Timers) {
		now, err := ts.store.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for n := range 9 {
			tm := rouse.Timer{Key: rouse.Key{Namespace: "a", Name: fmt.Sprint(n)}, Generation: 1, Spec: rouse.Spec{Schedule: "@every 1h", Target: "stream:x"}, Created: now, Anchor: now,
				Due: now.Add(time.Hour), Visible: rouse.Never, Paused: true}
			write(t, ts.store, &tm)
		}
		bounds.forecast = 4
		f, err := ts.Forecast(t.Context(), rouse.Query{}, 0, now.Add(24*time.Hour), 0, "", nil)
		for parts := 0; err == nil && f.Next != nil && parts < 9; parts++ {
			var part rouse.Forecast
			part, err = ts.Forecast(t.Context(), rouse.Query{}, 0, now.Add(24*time.Hour), 0, "", f.Next)
			f.Add(&part)
		}
		if err != nil || f.Timers != 9 || f.Total() != 0 || f.From < now {
			t.Errorf("of paused timers: %+v, %v", f, err)
		}
		began := now.Add(-time.Hour)
		if f, err := ts.Forecast(t.Context(), rouse.Query{}, began, now.Add(24*time.Hour), 0, "", &rouse.ForecastPlace{Now: began}); err != nil || f.Timers == 0 || f.Total() != 0 {
			t.Errorf("of paused timers, for an hour: %+v, %v", f, err)
		}
	})
}

func TestForecastsThatAreRefused(t *testing.T) {
	onEveryStore(t, func(t *testing.T, ts *Timers) {
		for field, call := range map[string]func() error{
			"until": func() error { _, err := ts.Forecast(t.Context(), rouse.Query{}, 0, day, 0, "", nil); return err },
			"step": func() error {
				_, err := ts.Forecast(t.Context(), rouse.Query{}, day, day+604_860_000, time.Minute, "", nil)
				return err
			},
			"order_by": func() error {
				_, err := ts.Forecast(t.Context(), rouse.Query{Order: rouse.OrderDue}, day, day+1, 0, "", nil)
				return err
			},
		} {
			if bad, is := errors.AsType[*rouse.Invalid](call()); !is || bad.Problems[0].Field != field {
				t.Errorf("%s: %v", field, bad)
			}
		}
	})
}

// TestForecastIsDivided: the counts of namespaces and targets add up, also of those beyond the bound.
func TestForecastIsDivided(t *testing.T) {
	onEveryStore(t, func(t *testing.T, ts *Timers) {
		now, err := ts.store.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		const targets, spaces = rouse.MaxForecastKeys + 10, 3
		for n := range targets {
			tm := rouse.Timer{Key: rouse.Key{Namespace: fmt.Sprint("ns", n%spaces), Name: fmt.Sprintf("%03d", n)}, Generation: 1, Created: now, Anchor: now,
				Spec: rouse.Spec{Schedule: "@every 1h", Target: fmt.Sprintf("stream:%03d", n)}, Due: now.Add(time.Hour), Visible: now.Add(time.Hour)}
			write(t, ts.store, &tm)
		}
		for by, keys := range map[string]int{"": 1, rouse.ByNamespace: spaces, rouse.ByTarget: rouse.MaxForecastKeys + 1} {
			f, err := ts.Forecast(t.Context(), rouse.Query{}, 0, now.Add(10*time.Hour), time.Hour, by, nil)
			if err != nil {
				t.Fatal(err)
			}
			sums := map[string]int64{}
			for i, l := range f.Loads {
				if sums[l.Key] += l.Count; i > 0 && f.Loads[i-1].Compare(l) >= 0 {
					t.Errorf("by %q: %+v follows %+v", by, l, f.Loads[i-1])
				}
			}
			each := f.Total() / targets
			if each < 8 || f.Total() != each*targets || len(sums) != keys {
				t.Errorf("by %q: %d in all, of %d keys", by, f.Total(), len(sums))
			}
			if by == rouse.ByTarget && (sums["stream:000"] != each || sums[""] != 10*each) || by == rouse.ByNamespace && sums["ns1"] != each*targets/spaces {
				t.Errorf("by %q: %v", by, sums)
			}
			whole := rouse.Forecast{}
			whole.Add(&f)
			whole.Add(&f)
			if len(whole.Loads) != len(f.Loads) || whole.Total() != 2*f.Total() {
				t.Errorf("by %q: two parts have %d loads, want %d", by, len(whole.Loads), len(f.Loads))
			}
		}
	})
}
