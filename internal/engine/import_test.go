package engine

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/store/mem"
)

var (
	// Names and texts, some of which earlier versions took and this one refuses.
	someNames = rapid.SampledFrom([]string{"a", "a/b:c", "späßchen", "日本", "..", "a/../b", "a\u200bb", "e\u0301", "a\ufdd0"})
	someProse = rapid.SampledFrom([]string{"", "503", "two\nlines\tand a tab", "bell \a", "red \xff", "\u202eturned", "cut\uFFFD", "\x00", "日本"})
)

func someTime(t *rapid.T, label string) rouse.Instant {
	return rapid.Custom(func(t *rapid.T) rouse.Instant {
		return rouse.At(time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC)) + rouse.Instant(rapid.Int64Range(0, 1e11).Draw(t, "ms"))
	}).Draw(t, label)
}

func someSpec(t *rapid.T) rouse.Spec {
	s := rouse.Spec{Schedule: rapid.SampledFrom([]string{"@every 1h", "0\t9 * * MON", "2095-01-31T09:00:00,5Z", "R/PT1H0,5S", "aws:cron(0 9 ? * * *)"}).Draw(t, "schedule"),
		Target: "https://example.com/", Keep: -1, Priority: rouse.Priority(rapid.IntRange(-1, 1).Draw(t, "priority"))}
	if rapid.Bool().Draw(t, "with payload") {
		s.Payload = []byte(rapid.SampledFrom([]string{"null", "[1, 2]", "\xff\x00", "{", `"null"`}).Draw(t, "payload"))
		s.ContentType = rapid.SampledFrom([]string{"", "application/json", "text/plain; charset=utf-8"}).Draw(t, "content type")
	}
	if rapid.Bool().Draw(t, "with more") {
		s.Labels = map[string]string{"a": "1,5 €", "ü": ""}
		s.Except = []string{"2091-12-24", "0 3 * * *"}
		s.Retry = rouse.Retry{Attempts: 3, Interval: time.Millisecond, Factor: 1.5, Max: time.Hour, Jitter: rapid.SampledFrom([]time.Duration{-1, 0, 1500 * time.Microsecond}).Draw(t, "jitter"),
			Timeout: time.Second, GiveUp: time.Hour}
		s.Webhook = rouse.Webhook{Method: "PUT", Headers: map[string]string{"X-A": "b"}, Structured: true, Batch: 3, Accept: time.Minute}
		s.Misfire, s.Within, s.Deadline, s.Criticality = rouse.MisfireWithin, time.Hour, time.Second, 9
		s.Start, s.MaxOccurrences, s.Calendar = rouse.MinInstant, 1000, rouse.CalendarRule{Off: []string{rouse.Weekends}, Shift: rouse.ShiftNext}
	}
	return s
}

// someRow draws a row as a store may have it.
func someRow(t *rapid.T, now rouse.Instant) rouse.Timer {
	tm := rouse.Timer{Key: rouse.Key{Namespace: "ns", Name: someNames.Draw(t, "name")}, Generation: rapid.Uint64Range(1, 1<<40).Draw(t, "generation"), Spec: someSpec(t),
		Created: now, Updated: now, Anchor: now, Due: someTime(t, "due"), Ended: 7, Fired: 4, Dead: 2, Missed: 1, Passed: 3, LastError: someProse.Draw(t, "error")}
	tm.Visible = tm.Due
	begun := func() {
		tm.Attempts, tm.Began = 2, now
		tm.Failures = []rouse.Attempt{{Sent: now, Took: time.Second, Code: 503, Detail: someProse.Draw(t, "detail")}}
	}
	runs := func() {
		for range rapid.IntRange(0, rouse.MaxRuns).Draw(t, "runs") {
			tm.Runs = append(tm.Runs, tm.Due+rouse.Instant(len(tm.Runs)))
		}
	}
	beside := func() {
		if tm.Manual = rapid.Bool().Draw(t, "manual"); tm.Manual {
			tm.Runs = []rouse.Instant{tm.Due}
		}
		tm.Key.Fire = rouse.FireID(tm.Key.Namespace, tm.Key.Name, tm.Generation, tm.Due, tm.Manual)
		tm.Ended, tm.Fired, tm.Dead, tm.Missed, tm.Passed = 0, 0, 0, 0, 0
	}
	switch rapid.SampledFrom([]rouse.State{rouse.StateScheduled, rouse.StateRetrying, rouse.StateAccepted, rouse.StatePaused, rouse.StateEnded, rouse.StateFiring,
		rouse.StateDead}).Draw(t, "state") {
	case rouse.StateRetrying:
		begun()
		runs()
		tm.Manual = len(tm.Runs) > 0 && rapid.Bool().Draw(t, "manual")
		tm.Skips = rapid.Uint32Range(0, rouse.MaxSkips).Draw(t, "skips")
	case rouse.StateAccepted:
		begun()
		tm.Token = 99
	case rouse.StatePaused:
		tm.Paused, tm.Reason = true, someProse.Draw(t, "reason")
		tm.Until = rapid.SampledFrom([]rouse.Instant{0, tm.Due}).Draw(t, "until")
		if rapid.Bool().Draw(t, "begun") {
			begun()
		}
		runs()
		tm.Manual = tm.Attempts != 0 && len(tm.Runs) > 0
	case rouse.StateEnded:
		tm.Due, tm.Visible = rouse.Never, rouse.Never
	case rouse.StateFiring:
		begun()
		beside()
		tm.Live, tm.Asked = true, rapid.Bool().Draw(t, "asked")
	case rouse.StateDead:
		begun()
		beside()
		tm.Visible = rouse.Never
	}
	return tm
}

// TestImportIsTheInverseOfExport: what a list shows of any row that a store can have, also of one that an earlier version wrote, is taken
// back, and is listed as it was. Numbers that the other store gives are new.
func TestImportIsTheInverseOfExport(t *testing.T) {
	some := rapid.Custom(func(t *rapid.T) map[rouse.Key]rouse.Timer {
		rows := map[rouse.Key]rouse.Timer{}
		for range rapid.IntRange(1, 5).Draw(t, "rows") {
			tm := someRow(t, rouse.MinInstant)
			rows[tm.Key] = tm
		}
		return rows
	})
	for seed := range 200 {
		rows := some.Example(seed)
		bubble(t, func(rt *testing.T) {
			from, to := mem.New(), mem.New()
			for key, tm := range rows {
				row := tm.Row()
				if _, err := from.Apply(rt.Context(), []rouse.Change{{Key: key, To: &row}}); err != nil {
					rt.Fatal(err)
				}
			}
			every := append(slices.Clone(rouse.ListedStates), rouse.StateFiring, rouse.StateDead)
			export := func(e *Engine) (list []api.Timer) {
				timers, _, err := e.List(rt.Context(), rouse.Query{Namespace: "ns", States: every, Limit: 100})
				if err != nil {
					rt.Fatal(err)
				}
				for i := range timers {
					line, err := api.Encode(api.TimerOf(&timers[i]))
					if err != nil {
						rt.Fatal(err)
					}
					var o api.Timer
					if err := api.Decode(line, &o); err != nil {
						rt.Fatalf("%s: %v", line, err)
					}
					list = append(list, o)
				}
				return list
			}
			was := export(New(from, nil, always(time.Hour, rouse.Outcome{}), Options{Compile: schedule.Compile}))
			if len(was) != len(rows) {
				rt.Fatalf("%d of %d rows are listed", len(was), len(rows))
			}
			var timers []rouse.Timer
			for i := range was {
				tm, err := was[i].Words()
				if err != nil {
					rt.Fatalf("%+v: %v", was[i], err)
				}
				timers = append(timers, tm)
			}
			h := begin(rt, to, always(time.Hour, rouse.Outcome{Verdict: rouse.Done}), Options{DeadAge: -1})
			defer h.stop()
			time.Sleep(time.Millisecond)
			results, err := h.Import(rt.Context(), timers, CreateOnly)
			if err != nil {
				rt.Fatal(err)
			}
			for i := range results {
				if results[i].Err != nil {
					rt.Fatalf("%+v: %v", was[i], results[i].Err)
				}
			}
			is := export(h.Engine)
			for i := range is {
				for _, o := range []*api.Timer{&was[i], &is[i]} {
					o.Revision, o.Visible = 0, 0
					if o.FireID == "" {
						o.Generation = 0
					}
					if o.State == rouse.StateAccepted.String() { // an attempt that was in progress is made again
						o.State = rouse.StateRetrying.String()
					}
				}
				a, b := must(api.Encode(was[i])), must(api.Encode(is[i]))
				if !bytes.Equal(a, b) {
					rt.Fatalf("it was\n%s\nand became\n%s", a, b)
				}
			}
		})
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(fmt.Sprint(err))
	}
	return b
}
