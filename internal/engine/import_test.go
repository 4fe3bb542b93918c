package engine_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/store/mem"
)

var (
	// Names and texts, some of which earlier versions accepted and this one refuses.
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
		s.Webhook = rouse.Webhook{Method: "PUT", Headers: map[string]string{"X-A": "b"}, Structured: true, Batch: 3, Accept: time.Minute, RetryOn: []string{"404"}}
		s.Misfire, s.Within, s.Deadline, s.Criticality = rouse.MisfireWithin, time.Hour, time.Second, 9
		s.Start, s.MaxOccurrences, s.Calendar = rouse.MinInstant, 1000, rouse.CalendarRule{Off: []string{rouse.Weekends}, Shift: rouse.ShiftNext}
	}
	if s.Recurring() {
		s.Overlap = rouse.Overlap(rapid.IntRange(0, 3).Draw(t, "overlap"))
	}
	switch {
	case strings.HasPrefix(s.Schedule, "0") && rapid.Bool().Draw(t, "local"): // only times of day have a time zone
		s.Also, s.Timezone, s.DST, s.TTL, s.Jitter = []string{"0 4 * * *"}, "Europe/Berlin", "shift,both", 100*365*24*time.Hour, time.Minute
		s.Calendar.Off, s.Calendar.Only = nil, []string{rouse.Weekends}
	case s.Recurring():
		s.End = rapid.SampledFrom([]rouse.Instant{0, rouse.MaxInstant}).Draw(t, "end")
	}
	if s.Recurring() && rapid.Bool().Draw(t, "expected") {
		s.Expect = rouse.Expect{Every: time.Hour, Grace: time.Minute, Notify: "x:y"}
	}
	if s.Recurring() && s.Overlap != rouse.OverlapAllow {
		s.PauseAfter = rapid.Uint32Range(0, rouse.MaxPauseAfter).Draw(t, "pause after")
	}
	if rapid.Bool().Draw(t, "limited") {
		s.Notify = rouse.Notify{Target: "x:y", Events: []string{"dead", "late"}, Late: time.Second, Every: time.Minute, Format: "slack"}
		if s.Overlap != rouse.OverlapAllow && s.Recurring() {
			s.Notify.After = 3
		}
		s.OnSuccess, s.OnFailure, s.KeepAnswer = "x:y", "x:z", 100
		s.Limit, s.LimitKey = "payments", rapid.SampledFrom([]string{"", "customer-17"}).Draw(t, "limit key")
	}
	return s
}

// someRow generates a row that a store may contain.
func someRow(t *rapid.T, now rouse.Instant) rouse.Timer {
	tm := rouse.Timer{Key: rouse.Key{Namespace: "ns", Name: someNames.Draw(t, "name")}, Generation: rapid.Uint64Range(1, 1<<40).Draw(t, "generation"), Spec: someSpec(t),
		Created: now, Updated: now, Anchor: now, Due: someTime(t, "due"), Ended: 7, Fired: 4, Dead: 2, Missed: 1, Passed: 3, LastError: someProse.Draw(t, "error")}
	tm.Visible = tm.Due
	waited := func() {
		for range rapid.IntRange(0, rouse.MaxWaits).Draw(t, "waits") {
			tm.Waits = append(tm.Waits, rouse.Wait{Cause: rapid.SampledFrom(rouse.Causes(rouse.EndMissed)).Draw(t, "cause"), From: someTime(t, "from"), To: someTime(t, "to")})
		}
		if rapid.Bool().Draw(t, "behind") {
			from := someTime(t, "behind from")
			tm.Pauses = rouse.PausedUntil(someTime(t, "pass to") + 1)
			tm.Backlog = rouse.Span{From: from, To: from + rouse.Instant(rapid.Int64Range(0, 1e6).Draw(t, "behind for"))}
		}
	}
	begun := func() {
		tm.Attempts, tm.Began = 1, now
		tm.Failures = []rouse.Attempt{{Sent: now, Took: time.Second, Code: 503, Detail: someProse.Draw(t, "detail")}}
	}
	runs := func() {
		for range rapid.IntRange(0, rouse.MaxRuns).Draw(t, "runs") {
			tm.Runs = append(tm.Runs, tm.Due+rouse.Instant(len(tm.Runs)))
		}
	}
	asFireRow := func() {
		if tm.Manual = rapid.Bool().Draw(t, "manual"); tm.Manual {
			tm.Runs = []rouse.Instant{tm.Due}
		}
		tm.Key.Fire = rouse.FireID(tm.Key.Namespace, tm.Key.Name, tm.Generation, tm.Due, tm.Manual)
		tm.Ended, tm.Fired, tm.Dead, tm.Missed, tm.Passed = 0, 0, 0, 0, 0
	}
	if tm.Spec.Notify.Target != "" {
		tm.Notices = rouse.NoticeState{Alarmed: true, Since: someTime(t, "notices since"), Events: 3}
	}
	if tm.Spec.Expect.Any() {
		tm.Succeeded, tm.ExpectFrom, tm.Overdue = someTime(t, "succeeded"), someTime(t, "expect from"), someTime(t, "overdue")
	}
	switch rapid.SampledFrom([]rouse.State{rouse.StateScheduled, rouse.StateRetrying, rouse.StateAccepted, rouse.StatePaused, rouse.StateEnded, rouse.StateFiring,
		rouse.StateDead}).Draw(t, "state") {
	case rouse.StateScheduled:
		waited()
	case rouse.StateRetrying:
		begun()
		waited()
		runs()
		tm.Manual = len(tm.Runs) > 0 && rapid.Bool().Draw(t, "manual")
		tm.Skips = rapid.Uint32Range(0, rouse.MaxSkips).Draw(t, "skips")
	case rouse.StateAccepted:
		begun()
		waited()
		tm.Token, tm.Attempts = 99, 2
	case rouse.StatePaused:
		tm.Paused, tm.Reason, tm.PausedAt = true, someProse.Draw(t, "reason"), someTime(t, "paused at")
		tm.PauseCause = rapid.SampledFrom([]rouse.PauseCause{rouse.PauseRequested, rouse.PauseDeadLetters, rouse.PauseScheduleCost}).Draw(t, "pause cause")
		tm.ConsecutiveDead = rapid.Uint32Range(0, 9).Draw(t, "consecutive dead")
		tm.Until = rapid.SampledFrom([]rouse.Instant{0, tm.Due}).Draw(t, "until")
		if rapid.Bool().Draw(t, "begun") {
			begun()
		}
		runs()
		tm.Manual = tm.Attempts != 0 && len(tm.Runs) > 0
	case rouse.StateEnded:
		tm.Due, tm.Visible = rouse.Never, rouse.Never
		if rapid.Bool().Draw(t, "answered") {
			tm.Answer = &rouse.Answer{ContentType: rapid.SampledFrom([]string{"", "text/plain"}).Draw(t, "answer type"), Payload: []byte(someProse.Draw(t, "answer"))}
		}
	case rouse.StateFiring:
		begun()
		asFireRow()
		tm.Live, tm.Asked = true, rapid.Bool().Draw(t, "asked")
		tm.Notice = rapid.SampledFrom([]rouse.Notice{0, rouse.NoticeOverdue, rouse.NoticeRecovered, rouse.NoticeFailed}).Draw(t, "notice")
	case rouse.StateDead:
		begun()
		asFireRow()
		tm.Visible = rouse.Never
	}
	return tm
}

// TestImportIsTheInverseOfExport: a listed row, including one that an earlier version wrote, survives JSON
// and gRPC messages with every field unchanged. Only the numbers that the other store assigns are new.
func TestImportIsTheInverseOfExport(t *testing.T) {
	some := rapid.Custom(func(t *rapid.T) map[rouse.Key]rouse.Timer {
		rows := map[rouse.Key]rouse.Timer{}
		for range rapid.IntRange(1, 5).Draw(t, "rows") {
			tm := someRow(t, rouse.MinInstant)
			rows[tm.Key] = tm
		}
		return rows
	})
	drawn := map[string]bool{}
	for seed := range 200 {
		rows := some.Example(seed)
		form := [...]func(*testing.T, *rouse.Timer) rouse.Timer{throughJSON, throughProto}[seed%2]
		bubble(t, func(rt *testing.T) {
			from, to := mem.New(), mem.New()
			for key, tm := range rows {
				row := tm.Row()
				if _, err := from.Apply(rt.Context(), []rouse.Change{{Key: key, To: &row}}); err != nil {
					rt.Fatal(err)
				}
			}
			was := listed(rt, timers.New(from, nil, always(time.Hour, rouse.Outcome{}), timers.Options{Compile: schedule.Compile}))
			if len(was) != len(rows) {
				rt.Fatalf("%d of %d rows are listed", len(was), len(rows))
			}
			exported := make([]rouse.Timer, len(was))
			for i := range was {
				fieldsOf(reflect.ValueOf(was[i]), "", drawn)
				exported[i] = form(rt, &was[i])
			}
			h := begin(rt, to, always(time.Hour, rouse.Outcome{Verdict: rouse.Done}), timers.Options{Engine: engine.Options{DeadAge: -1}})
			defer h.stop()
			time.Sleep(time.Millisecond)
			results, err := h.Import(rt.Context(), exported, timers.CreateOnly)
			if err != nil {
				rt.Fatal(err)
			}
			for i := range results {
				if results[i].Err != nil {
					rt.Fatalf("%+v: %v", was[i], results[i].Err)
				}
			}
			is := listed(rt, h.Timers)
			for i := range is {
				for _, tm := range []*rouse.Timer{&was[i], &is[i]} {
					tm.Bucket, tm.Revision, tm.Visible = 0, 0, 0
					if tm.Token != 0 {
						tm.Token, tm.Attempts = 0, tm.Attempts-1 // an attempt that was in progress is repeated
					}
					if tm.Key.Fire == "" {
						tm.Generation = 0
					}
				}
				if !reflect.DeepEqual(was[i], is[i]) {
					rt.Fatalf("it was\n%+v\nand became\n%+v", was[i], is[i])
				}
			}
		})
	}
	missing := map[string]bool{}
	all := rouse.Timer{}
	fill(reflect.ValueOf(&all).Elem())
	all.Bucket = 0         // derived from the name
	all.Cut = 0            // of rows that no list has
	all.Answer.Cut = false // of records
	all.LimitKey = ""      // derived from limit_key
	all.Lost = 0           // its receivers are others there
	all.Trace = nil        // of the call that made it, and an import is another one
	all.Redacted = false   // of what a caller may not see: no store has it, and an import refuses it
	fieldsOf(reflect.ValueOf(all), "", missing)
	for field := range missing {
		if !drawn[field] {
			t.Errorf("no row had %s: let someRow draw it, so that its way through an export and an import is tried", field)
		}
	}
}

// fill sets a value and everything in it to non-zero values.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Array:
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1)
	default:
		v.Set(reflect.ValueOf(1).Convert(v.Type()))
	}
}

// fieldsOf adds the paths of the non-zero fields of a value.
func fieldsOf(v reflect.Value, path string, set map[string]bool) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fieldsOf(v.Field(i), path+"."+v.Type().Field(i).Name, set)
		}
		return
	case reflect.Pointer:
		if !v.IsNil() {
			fieldsOf(v.Elem(), path, set)
		}
		return
	case reflect.Slice:
		for i := range v.Len() {
			fieldsOf(v.Index(i), path+"[]", set)
		}
		return
	}
	if !v.IsZero() {
		set[path] = true
	}
}

func listed(t *testing.T, e *timers.Timers) []rouse.Timer {
	t.Helper()
	every := append(slices.Clone(rouse.ListedStates), rouse.StateFiring, rouse.StateDead)
	timers, _, err := e.List(t.Context(), rouse.Query{Namespace: "ns", States: every, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	return timers
}

// throughJSON encodes a timer as exports do and decodes it.
func throughJSON(t *testing.T, tm *rouse.Timer) rouse.Timer {
	line, err := api.Encode(api.ExactTimerOf(tm))
	if err != nil {
		t.Fatal(err)
	}
	var o api.Timer
	if err := api.Decode(line, &o); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	got, err := o.Parse()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return got
}

// throughProto encodes a timer as gRPC messages do and decodes it.
func throughProto(t *testing.T, tm *rouse.Timer) rouse.Timer {
	wire, err := proto.Marshal(rousev1.TimerToProto(tm))
	if err != nil {
		t.Fatal(err)
	}
	var m rousev1.Timer
	if err := proto.Unmarshal(wire, &m); err != nil {
		t.Fatal(err)
	}
	got, err := rousev1.TimerFromProto(&m)
	if err != nil {
		t.Fatalf("%+v: %v", tm, err)
	}
	return got
}

func TestImportRefusesWhatCannotGoOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		now := h.Now()
		spec := rouse.Spec{Schedule: "@every 1m", Target: "test:a", Retry: rouse.Retry{Attempts: 3}}
		fireRow := func(tm rouse.Timer) rouse.Timer {
			tm.Key.Fire = rouse.FireID("n", tm.Key.Name, tm.Generation, tm.Due, tm.Manual)
			return tm
		}
		for name, tm := range map[string]rouse.Timer{
			"manual without a run":     fireRow(rouse.Timer{Spec: spec, Due: now, Generation: 7, Attempts: 1, Manual: true, Live: true}),
			"dead without a run":       fireRow(rouse.Timer{Spec: spec, Due: now, Generation: 7, Attempts: 1, Manual: true}),
			"manual, not begun":        fireRow(rouse.Timer{Spec: spec, Due: now, Generation: 7, Manual: true, Live: true}),
			"another run":              fireRow(rouse.Timer{Spec: spec, Due: now, Generation: 7, Manual: true, Live: true, Runs: []rouse.Instant{now + 1}}),
			"runs of a scheduled one":  fireRow(rouse.Timer{Spec: spec, Due: now, Generation: 7, Live: true, Runs: []rouse.Instant{now}}),
			"paused fire":              fireRow(rouse.Timer{Spec: spec, Due: now, Generation: 7, Live: true, Paused: true}),
			"fire that is never due":   fireRow(rouse.Timer{Spec: spec, Due: rouse.Never, Generation: 7, Live: true}),
			"without a generation":     fireRow(rouse.Timer{Spec: spec, Due: now, Live: true}),
			"a try of nothing":         {Spec: spec, Due: rouse.Never, Attempts: 1, Runs: []rouse.Instant{now}},
			"a run that never comes":   {Spec: spec, Due: now, Runs: []rouse.Instant{rouse.Never}},
			"a run of no time":         {Spec: spec, Due: now, Runs: []rouse.Instant{0}},
			"due before time":          {Spec: spec, Due: -1 << 62},
			"too many skips":           {Spec: spec, Due: now, Attempts: 1, Skips: 1<<32 - 1},
			"an anchor beyond time":    {Spec: spec, Due: now, Anchor: 1 << 62},
			"edited beyond time":       {Spec: spec, Due: now, Updated: 1 << 62},
			"paused until before time": {Spec: spec, Due: now, Paused: true, Until: -1 << 62},
		} {
			tm.Key.Namespace, tm.Key.Name = "n", name
			if tm.Key.Fire != "" {
				tm.Key.Fire = rouse.FireID("n", name, tm.Generation, tm.Due, tm.Manual)
			}
			res, err := h.Import(t.Context(), []rouse.Timer{tm}, timers.CreateOnly)
			if inv := new(rouse.Invalid); err != nil || !errors.As(res[0].Err, &inv) {
				t.Errorf("%s: %v, %v", name, res, err)
				_, _ = h.Delete(t.Context(), tm.Key, 0)
			}
		}
	})
}

func TestExportedRowsCanBeImportedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		fail := func(_ context.Context, f rouse.Fire) rouse.Outcome {
			if f.Manual {
				return rouse.Outcome{Verdict: rouse.Rejected, Detail: "no"}
			}
			return rouse.Outcome{Verdict: rouse.Failed, Detail: "no"}
		}
		retry := rouse.Retry{Attempts: 5, Interval: time.Hour, Max: time.Hour, Jitter: -1}
		h := start(t, mem.New(), &recorder{answer: fail}, timers.Options{})
		h.put("a", "@every 1m", func(p *timers.Put) { p.Spec.Overlap, p.Spec.Retry = rouse.OverlapAllow, retry })
		h.put("b", "@after 1s", func(p *timers.Put) { p.Spec.Retry = retry })
		h.put("ended", "@after 1s", func(p *timers.Put) { p.Spec.Retry.Attempts, p.Spec.Keep = 1, -1 })
		h.put("paused", "@every 1m", func(p *timers.Put) { p.Spec.Overlap, p.Spec.Retry = rouse.OverlapWait, retry })
		if _, _, err := h.RunNow(ctx, key("a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(150 * time.Second)
		if _, err := h.Pause(ctx, key("paused"), "", 0); err != nil {
			t.Fatal(err)
		}
		all := rouse.Query{Namespace: "n", Limit: 100, States: append([]rouse.State{rouse.StateFiring, rouse.StateDead}, rouse.ListedStates...)}
		rows, _, err := h.List(ctx, all)
		if err != nil || len(rows) != 8 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		other := start(t, mem.New(), &recorder{}, timers.Options{})
		res, err := other.Import(ctx, rows, timers.CreateOnly)
		if err != nil {
			t.Fatal(err)
		}
		for i := range res {
			if res[i].Err != nil {
				t.Errorf("%+v: %v", rows[i], res[i].Err)
			}
		}
		time.Sleep(time.Second)
		if n, _ := other.Count(ctx, rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateFiring}}); n != 0 {
			t.Errorf("%d of what was on its way still is", n)
		}
		if n, _ := other.Count(ctx, rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateDead}}); n != 2 {
			t.Errorf("%d dead letters", n)
		}
	})
}

func TestAnImportThatReplacesEndsTheOldGeneration(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		fail := func(context.Context, rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Failed, Detail: "no"}
		}
		retry := rouse.Retry{Attempts: 5, Interval: 10 * time.Minute, Max: time.Hour, Jitter: -1}
		h := start(t, mem.New(), &recorder{answer: fail}, timers.Options{})
		old := h.put("a", "@every 1m", func(p *timers.Put) { p.Spec.Overlap, p.Spec.Retry = rouse.OverlapAllow, retry })
		h.put("b", "@after 1m", func(p *timers.Put) { p.Spec.Retry = retry })
		time.Sleep(61 * time.Second)
		a, _ := h.Get(ctx, key("a"))
		side, _, _ := h.List(ctx, rouse.Query{Namespace: "n", Name: "a", States: []rouse.State{rouse.StateFiring}, Limit: 10})
		b, _ := h.Get(ctx, key("b"))
		time.Sleep(time.Minute)
		b.Attempts, b.Due = 0, b.Due.Add(time.Hour)
		if res, err := h.Import(ctx, append([]rouse.Timer{a, b}, side...), timers.CreateOrReplace); err != nil || res[0].Err != nil || res[1].Err != nil || res[2].Err != nil {
			t.Fatalf("%+v, %v", res, err)
		}
		after := time.Now()
		time.Sleep(time.Second)
		imported := 0
		time.Sleep(30 * time.Minute)
		for _, f := range h.sink.got() {
			if f.Name == "a" && f.Generation == old.Generation && f.at.After(after) {
				if f.ID != side[0].Key.Fire {
					t.Errorf("an attempt of %v of the old generation", f.Due)
				} else {
					imported++
				}
			}
		}
		if imported == 0 {
			t.Error("the imported occurrence was not tried again")
		}
		h.wantEndings("b", "skipped")
	})
}

// TestAnImportRepeatsTheAttemptThatWasInProgress, even if it was the last one of its occurrence: it was
// accepted by its receiver, or stored as spent, and the other service hears no more of it.
func TestAnImportRepeatsTheAttemptThatWasInProgress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		accept := func(_ context.Context, f rouse.Fire) rouse.Outcome {
			if f.Attempt == 1 && f.Spec.Retry.Attempts == 2 {
				return rouse.Outcome{Verdict: rouse.Failed, Detail: "no"}
			}
			return rouse.Outcome{Verdict: rouse.Accepted, After: 2 * time.Hour}
		}
		h := start(t, mem.New(), &recorder{answer: accept}, timers.Options{})
		attempts := func(n uint32) func(p *timers.Put) {
			return func(p *timers.Put) {
				p.Spec.Retry = rouse.Retry{Attempts: n, Interval: time.Second, Jitter: -1}
				if p.Spec.Recurring() {
					p.Spec.Overlap = rouse.OverlapWait
				}
			}
		}
		h.put("only", "@after 1s", attempts(1))
		h.put("last", "@after 1s", attempts(2))
		h.put("first", "@after 1s", attempts(3))
		h.put("late", "@every 1h", attempts(1), func(p *timers.Put) { p.Spec.Misfire = rouse.MisfireSkip })
		h.put("allow", "@every 1h", attempts(1), func(p *timers.Put) { p.Spec.Overlap = rouse.OverlapAllow })
		h.put("before a run", "@every 1h", attempts(3), func(p *timers.Put) { p.Spec.Misfire = rouse.MisfireSkip })
		h.put("run", "@after 24h", attempts(1))
		if _, _, err := h.RunNow(ctx, key("run")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour + 5*time.Minute)
		if _, _, err := h.RunNow(ctx, key("before a run")); err != nil {
			t.Fatal(err)
		}
		rows, _, err := h.List(ctx, rouse.Query{Namespace: "n", Limit: 100, States: []rouse.State{rouse.StateFiring, rouse.StateAccepted}})
		if err != nil {
			t.Fatal(err)
		}
		spent := rouse.Timer{Key: key("spent"), Spec: rouse.Spec{Schedule: "@after 1s", Target: "test:a", Retry: rouse.Retry{Attempts: 1}}, Due: h.Now(), Attempts: 1}
		fewer := rouse.Timer{Key: key("fewer"), Spec: spent.Spec, Due: spent.Due, Attempts: 5, // its policy allows less than it has used
			Failures: make([]rouse.Attempt, 5)}
		rows = append(rows, spent, fewer)
		other := start(t, mem.New(), &recorder{answer: func(_ context.Context, f rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Done}
		}}, timers.Options{})
		res, err := other.Import(ctx, rows, timers.CreateOnly)
		if err != nil {
			t.Fatal(err)
		}
		for i := range res {
			if res[i].Err != nil {
				t.Errorf("%s: %v", rows[i].Key.Name, res[i].Err)
			}
		}
		time.Sleep(time.Minute)
		got := map[string]uint32{}
		for _, f := range other.sink.got() {
			if _, is := got[f.Name]; !is && (!f.Manual || f.Name == "run") {
				got[f.Name] = f.Attempt
			}
		}
		for name, attempt := range map[string]uint32{"only": 1, "last": 2, "first": 1, "late": 1, "allow": 1, "before a run": 2, "run": 1, "spent": 1, "fewer": 1} {
			if got[name] != attempt {
				t.Errorf("%s: attempt %d was made, want %d", name, got[name], attempt)
			}
		}
		if n, _ := other.Count(ctx, rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateDead}}); n != 0 {
			t.Errorf("%d dead letters", n)
		}
	})
}

// TestAnImportOverAnOccurrenceInProgressEndsItOnce: a row next to a timer is imported while it waits for its
// next attempt. It is the same occurrence, which goes on.
func TestAnImportOverAnOccurrenceInProgressEndsItOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		failed := func(context.Context, rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Failed, Detail: "busy"}
		}
		h := start(t, mem.New(), &recorder{answer: failed}, timers.Options{})
		h.put("a", "@every 24h", func(p *timers.Put) {
			p.Spec.Overlap, p.Spec.Retry = rouse.OverlapAllow, rouse.Retry{Attempts: 3, Interval: time.Minute}
		})
		if _, _, err := h.RunNow(ctx, key("a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		rows, _, err := h.List(ctx, rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateFiring}, Limit: 10})
		if err != nil || len(rows) != 1 || rows[0].Attempts != 1 {
			t.Fatalf("%+v, %v", rows, err)
		}
		time.Sleep(90 * time.Second) // it has another attempt, which the file does not know of
		res, err := h.Import(ctx, rows, timers.CreateOrReplace)
		if err := firstErr(res, err); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		h.wantEndings("a", "dead")
	})
}
