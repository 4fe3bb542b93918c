package rouse

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func drawTimer(t *rapid.T) Timer {
	text := func(label string) string { return rapid.String().Draw(t, label) }
	prose := func(label string) string { return CleanText(text(label), 1000) } // texts for people come back clean
	inst := func(label string) Instant { return Instant(rapid.Int64().Draw(t, label)) }
	span := func(label string) time.Duration { return time.Duration(rapid.Int64().Draw(t, label)) }
	tm := Timer{
		Key: Key{Namespace: text("ns"), Name: text("name")}, Bucket: 3, Generation: 5, Revision: 9,
		Spec: Spec{Schedule: text("schedule"), Timezone: text("zone"), Target: text("target"), ContentType: text("type"),
			Labels:  rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "labels"),
			Retry:   Retry{Attempts: rapid.Uint32().Draw(t, "attempts"), Interval: span("i"), Max: span("m"), Jitter: span("j"), Timeout: span("t")},
			Misfire: Misfire(rapid.IntRange(0, 2).Draw(t, "misfire")),
			Webhook: Webhook{Method: text("method"), Structured: rapid.Bool().Draw(t, "structured"), Batch: rapid.Uint32().Draw(t, "batch"), Accept: span("accept")}},
		Paused: rapid.Bool().Draw(t, "paused"), Reason: prose("reason"), Created: inst("created"), Updated: inst("updated"), Anchor: inst("anchor"),
		Visible: inst("visible"), Due: inst("due"), Attempts: rapid.Uint32().Draw(t, "spent"), Manual: rapid.Bool().Draw(t, "manual"),
		Token: rapid.Uint64().Draw(t, "token"), LastError: prose("error"), Ended: rapid.Uint64().Draw(t, "ended"),
	}
	if p := rapid.SliceOf(rapid.Byte()).Draw(t, "payload"); len(p) > 0 {
		tm.Spec.Payload = p
	}
	if h := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "headers"); len(h) > 0 {
		tm.Spec.Webhook.Headers = h
		tm.Spec.Webhook.RetryOn = []string{"404", "3xx"}
	}
	tm.Lost = rapid.Uint32Max(MaxLost).Draw(t, "lost")
	if rapid.Bool().Draw(t, "parts") {
		s := &tm.Spec
		s.Also = rapid.SliceOfN(rapid.StringN(1, 20, 40), 1, 3).Draw(t, "also")
		s.Except = rapid.SliceOfN(rapid.StringN(1, 20, 40), 1, 3).Draw(t, "except")
		s.DST, s.Start, s.End, s.TTL = text("dst"), inst("start"), inst("end"), span("ttl")
		s.MaxOccurrences, s.Jitter = uint64(rapid.Uint32().Draw(t, "max")), span("stray")
		s.Calendar = CalendarRule{Off: rapid.SliceOfN(rapid.StringN(1, 9, 20), 1, 2).Draw(t, "off"),
			Only: rapid.SliceOfN(rapid.StringN(1, 9, 20), 1, 2).Draw(t, "only"), Shift: Shift(rapid.IntRange(0, 2).Draw(t, "shift"))}
		s.Retry.Factor, s.Retry.GiveUp = rapid.Float64Range(1, 9).Draw(t, "factor"), span("give up")
		s.Within, s.Overlap, s.Deadline = span("within"), Overlap(rapid.IntRange(0, 3).Draw(t, "overlap")), span("deadline")
		s.Priority, s.Keep = Priority(rapid.IntRange(-1, 1).Draw(t, "priority")), span("keep")
		tm.Backlog = Span{inst("from"), inst("to")}
		for range rapid.IntRange(0, MaxPauses).Draw(t, "pauses") {
			tm.Pauses = append(tm.Pauses, Span{inst("from"), inst("to")})
		}
		if rapid.Bool().Draw(t, "paused by an earlier version") {
			tm.Pauses = PausedUntil(inst("passed to"))
		} else if tm.Paused {
			tm.PausedAt = inst("paused at")
		}
		tm.Until, tm.Skips, tm.Began, tm.Passed = inst("until"), rapid.Uint32().Draw(t, "skips"), inst("began"), uint64(rapid.Uint32().Draw(t, "passed"))
		for range rapid.IntRange(0, 3).Draw(t, "failures") {
			tm.Failures = append(tm.Failures, Attempt{Sent: inst("sent"), Took: time.Duration(rapid.Int32().Draw(t, "took")) * time.Millisecond,
				Code: int(rapid.Int32().Draw(t, "code")), Detail: prose("detail")})
		}
		for range rapid.IntRange(0, MaxWaits).Draw(t, "waits") {
			tm.Waits = append(tm.Waits, Wait{Cause(rapid.Uint8().Draw(t, "cause")), inst("from"), inst("to")})
		}
		tm.Fired, tm.Dead, tm.Missed = rapid.Uint64().Draw(t, "fired"), rapid.Uint64().Draw(t, "dead"), rapid.Uint64().Draw(t, "missed")
		s.Criticality = rapid.Uint8().Draw(t, "criticality")
		s.Expect = Expect{Every: time.Duration(rapid.Int64().Draw(t, "every")), Grace: time.Hour, Notify: "x:y"}
		tm.Succeeded, tm.ExpectFrom, tm.Overdue, tm.Notice = 1, Instant(rapid.Int64().Draw(t, "expect from")), 3, NoticeRecovered
		s.Limit, s.LimitKey, tm.LimitKey = text("limit"), text("limit key"), text("resolved limit key")
		s.Notify = Notify{Target: "x:pager", Events: rapid.SliceOfN(rapid.StringN(1, 9, 20), 1, 3).Draw(t, "on"), Late: span("late"),
			After: rapid.Uint32().Draw(t, "after"), Every: span("notify every"), Format: text("format")}
		s.OnSuccess, s.OnFailure = text("on success"), text("on failure")
		s.KeepAnswer = rapid.Uint32().Draw(t, "keep answer")
		tm.Notices = NoticeState{Alarmed: rapid.Bool().Draw(t, "alarmed"), Since: inst("since"), Events: rapid.Uint32().Draw(t, "events")}
		s.PauseAfter, tm.ConsecutiveDead = rapid.Uint32().Draw(t, "pause after"), rapid.Uint32().Draw(t, "consecutive dead")
		tm.PauseCause = PauseCause(rapid.Uint8().Draw(t, "pause cause"))
		if rapid.Bool().Draw(t, "answered") {
			tm.Answer = &Answer{ContentType: text("answer's type"), Payload: append([]byte(nil), rapid.SliceOf(rapid.Byte()).Draw(t, "answer")...)}
		}
		if rapid.Bool().Draw(t, "traced") {
			tm.Trace = &TraceContext{Flags: rapid.Byte().Draw(t, "flags")}
			copy(tm.Trace.Trace[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "trace"))
			copy(tm.Trace.Span[:], rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "span"))
		}
		tm.Live, tm.Asked = rapid.Bool().Draw(t, "live"), rapid.Bool().Draw(t, "asked")
	}
	for range rapid.IntRange(0, 3).Draw(t, "runs") {
		tm.Runs = append(tm.Runs, inst("run"))
	}
	return tm
}

func TestATimerComesBackFromItsRow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := drawTimer(rt)
		row := want.Row()
		got, err := DecodeTimer(&row)
		if err != nil {
			rt.Fatal(err)
		}
		if row.Criticality != want.Spec.Criticality {
			rt.Fatalf("the row's criticality is %d, the timer's %d", row.Criticality, want.Spec.Criticality)
		}
		if !reflect.DeepEqual(got, want) {
			rt.Fatalf("got %+v\nwant %+v", got, want)
		}
	})
}

// A timer without a criticality has the body that it had before there was one, so what older ones wrote reads
// as 0; and a criticality stays when a timer is given other times.
func TestCriticalityIsAPartOfItsOwn(t *testing.T) {
	tm := oneShot(t0)
	before := tm.Row()
	tm.Spec.Criticality = MaxCriticality
	after := tm.Row()
	if parts := before.Body[len(before.Body)-1]; parts != 0 || before.Criticality != 0 || after.Criticality != MaxCriticality {
		t.Errorf("parts %d, criticalities %d and %d", parts, before.Criticality, after.Criticality)
	}
	if got, err := DecodeTimer(&before); err != nil || got.Spec.Criticality != 0 {
		t.Errorf("got %d, %v", got.Spec.Criticality, err)
	}
	if got, err := DecodeTimer(&after); err != nil || got.Spec.Criticality != MaxCriticality {
		t.Errorf("got %d, %v", got.Spec.Criticality, err)
	}
	cut := after
	cut.Body = after.Body[:len(after.Body)-1]
	if _, err := DecodeTimer(&cut); err == nil {
		t.Error("a body without the criticality that it announces was read")
	}
	tm.Spec.SetWhen(&Spec{Schedule: "@every 1h", Criticality: 1})
	if tm.Spec.Criticality != MaxCriticality {
		t.Errorf("another schedule made the criticality %d", tm.Spec.Criticality)
	}
}

// TestPausesInTheFormOfEarlierVersions: their nodes read them, as long as there is no more to them than they
// can keep.
func TestPausesInTheFormOfEarlierVersions(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Timer)
		read bool // by earlier versions
	}{
		"none":                             {func(*Timer) {}, true},
		"a pause":                          {func(t *Timer) { t.Paused, t.PausedAt = true, t0 }, true},
		"a pause, with one in progress":    {func(t *Timer) { t.Paused, t.PausedAt, t.Attempts = true, t0, 1 }, false},
		"one that they made, in progress":  {func(t *Timer) { t.Pauses, t.Attempts = PausedUntil(t0), 1 }, true},
		"one that they made, then":         {func(t *Timer) { t.Pauses = PausedUntil(t0) }, true},
		"one that they made, paused again": {func(t *Timer) { t.Pauses, t.Paused, t.Began = PausedUntil(t0), true, t0 }, true},
		"one that is over":                 {func(t *Timer) { t.Pauses = []Span{{t0, t0 + 1}} }, false},
	} {
		tm, _ := recurring(MisfireLatest)
		tm.Visible = tm.Due
		c.edit(&tm)
		row := tm.Row()
		if got, err := DecodeTimer(&row); err != nil || !reflect.DeepEqual(got, tm) {
			t.Errorf("%s: got %+v, %v\nwant %+v", name, got, err, tm)
		}
		if read := tm.bodyParts()&partPauses == 0; read != c.read {
			t.Errorf("%s: an earlier version reads it: %v", name, read)
		}
	}
}

func TestARecordComesBack(t *testing.T) {
	want := Record{Generation: 7, Ending: EndDead, Manual: true, Due: 5, LastDue: 9, Count: 3, Attempts: 2, Code: -1, Reason: "boom", Began: 4, Sent: 6, Ended: 8,
		Failures: []Attempt{{Sent: 4, Took: time.Second, Code: 503, Detail: "busy"}}}
	for c := CauseUnknown; c <= lastCause; c++ {
		want.Cause, want.Other, want.OtherManual = c, 0, false
		if c == CauseOverlapped {
			want.Other, want.OtherManual = t0, true
		}
		for version, target := range map[byte]string{plainRecord: "", targetedRecord: "stream:x", recordVersion: "stream:x"} {
			want.Target, want.Answer = target, nil
			if version == recordVersion {
				want.Answer = &Answer{ContentType: "text/plain", Payload: []byte("done"), Cut: true}
			}
			b := AppendRecord(nil, &want)
			if got, err := DecodeRecord(b); err != nil || !reflect.DeepEqual(got, want) || b[0] != version {
				t.Errorf("got %+v of version %d, %v", got, b[0], err)
			}
		}
	}
}

// FuzzDecode decodes damaged bodies: each is refused or read without a panic, and a decoded timer can be
// encoded again.
func FuzzDecode(f *testing.F) {
	tm := oneShot(t0)
	tm.Spec.Webhook.Headers = map[string]string{"a": "b"}
	tm.Runs = []Instant{1, 2}
	f.Add(tm.Row().Body)
	tm.Spec.Criticality, tm.Spec.Priority = 7, PriorityHigh
	f.Add(tm.Row().Body)
	f.Add([]byte{bodyVersion})
	f.Add(AppendRecord(nil, &Record{Reason: "x"}))
	f.Fuzz(func(t *testing.T, body []byte) {
		if got, err := DecodeTimer(&Row{Body: body}); err == nil {
			row := got.Row()
			again, err := DecodeTimer(&row)
			again.Revision, again.Generation = got.Revision, got.Generation
			if err != nil || !reflect.DeepEqual(again, got) {
				t.Fatalf("%+v\n%+v\n%v", got, again, err)
			}
		}
		_, _ = DecodeRecord(body)
	})
}

func BenchmarkRow(b *testing.B) {
	tm := oneShot(t0)
	tm.Spec.Payload = make([]byte, 150)
	b.ReportAllocs()
	for b.Loop() {
		_ = tm.Row()
	}
}

func BenchmarkDecodeTimer(b *testing.B) {
	tm := oneShot(t0)
	tm.Spec.Payload = make([]byte, 150)
	row := tm.Row()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeTimer(&row); err != nil {
			b.Fatal(err)
		}
	}
}
