package rousev1

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/unset"
)

// wire sends a message through its encoded form.
func wire[M proto.Message](t interface{ Fatal(...any) }, m, to M) M {
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(b, to); err != nil {
		t.Fatal(err)
	}
	return to
}

var (
	text  = rapid.StringN(0, 20, 60)
	texts = rapid.Custom(func(t *rapid.T) map[string]string {
		if m := rapid.MapOfN(text, text, 0, 3).Draw(t, "map"); len(m) > 0 {
			return m
		}
		return nil
	})
	span = rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.Int64Range(0, math.MaxInt64-int64(time.Second)).Draw(t, "span"))
	})
	list = rapid.Custom(func(t *rapid.T) []string {
		if l := rapid.SliceOfN(text, 0, 3).Draw(t, "list"); len(l) > 0 {
			return l
		}
		return nil
	})
	attempts = rapid.Custom(func(t *rapid.T) []rouse.Attempt {
		var l []rouse.Attempt
		for range rapid.IntRange(0, 3).Draw(t, "failures") {
			l = append(l, rouse.Attempt{Sent: instants.Draw(t, "sent"), Took: time.Duration(rapid.Int32().Draw(t, "took")) * time.Millisecond,
				Code: int(rapid.Int32().Draw(t, "code")), Detail: text.Draw(t, "detail")})
		}
		return l
	})
	specs = rapid.Custom(func(t *rapid.T) rouse.Spec {
		s := rouse.Spec{Limit: text.Draw(t, "limit"), LimitKey: text.Draw(t, "limit key"), Schedule: text.Draw(t, "schedule"), Timezone: text.Draw(t, "zone"), Target: text.Draw(t, "target"),
			ContentType: text.Draw(t, "content type"), Labels: texts.Draw(t, "labels"), Also: list.Draw(t, "also"), Except: list.Draw(t, "except"),
			DST: text.Draw(t, "dst"), MaxOccurrences: rapid.Uint64().Draw(t, "most"), TTL: span.Draw(t, "ttl"), Jitter: span.Draw(t, "jitter"),
			Calendar: rouse.CalendarRule{Off: list.Draw(t, "off"), Only: list.Draw(t, "only"), Shift: rouse.Shift(rapid.IntRange(0, 2).Draw(t, "shift"))},
			Misfire:  rouse.Misfire(rapid.IntRange(0, 3).Draw(t, "misfire")), Overlap: rouse.Overlap(rapid.IntRange(0, 3).Draw(t, "overlap")),
			Priority: rouse.Priority(rapid.IntRange(-1, 1).Draw(t, "priority")), Deadline: span.Draw(t, "deadline"),
			Keep: rapid.OneOf(span, rapid.Just(time.Duration(-1))).Draw(t, "keep"), Criticality: rapid.Uint8Range(0, rouse.MaxCriticality).Draw(t, "criticality"),
			PauseAfter: rapid.Uint32().Draw(t, "pause after"),
			Expect:     rouse.Expect{Every: time.Duration(rapid.Int64Range(0, 1e18).Draw(t, "every")), Notify: rapid.SampledFrom([]string{"", "x:y"}).Draw(t, "notify")}}
		if s.Misfire == rouse.MisfireWithin {
			s.Within = time.Duration(rapid.Int64Range(int64(time.Second), int64(rouse.MaxWithin)).Draw(t, "within"))
		}
		if rapid.Bool().Draw(t, "bounded") {
			s.Start, s.End = instants.Draw(t, "start"), instants.Draw(t, "end")
		}
		if b := rapid.SliceOf(rapid.Byte()).Draw(t, "payload"); len(b) > 0 {
			s.Payload = b
		}
		if rapid.Bool().Draw(t, "retry") {
			s.Retry = rouse.Retry{Attempts: rapid.Uint32().Draw(t, "attempts"), Interval: span.Draw(t, "interval"), Max: span.Draw(t, "max"),
				Jitter: rapid.OneOf(span, rapid.Just(time.Duration(-1))).Draw(t, "jitter"), Timeout: span.Draw(t, "timeout"),
				Factor: rapid.Float64().Draw(t, "factor"), GiveUp: span.Draw(t, "give up")}
		}
		if rapid.Bool().Draw(t, "webhook") {
			s.Webhook = rouse.Webhook{Method: text.Draw(t, "method"), Headers: texts.Draw(t, "headers"), Structured: rapid.Bool().Draw(t, "structured"),
				Batch: rapid.Uint32().Draw(t, "batch"), Accept: span.Draw(t, "accept")}
		}
		return s
	})
	instants = rapid.Custom(func(t *rapid.T) rouse.Instant {
		return rouse.Instant(rapid.Int64Range(1, int64(rouse.MaxInstant)).Draw(t, "instant"))
	})
)

func TestSpecsSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := specs.Draw(t, "spec")
		got, err := SpecFromProto(wire(t, SpecToProto(&s), &Spec{}))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, s) {
			t.Fatalf("was  %+v\ncame %+v", s, got)
		}
	})
}

func TestWhenSurvivesTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := specs.Draw(t, "spec")
		got, err := WhenFromProto(wire(t, WhenToProto(&s), &When{}))
		if err != nil {
			t.Fatal(err)
		}
		want := rouse.Spec{Schedule: s.Schedule, Also: s.Also, Except: s.Except, Timezone: s.Timezone, DST: s.DST, Calendar: s.Calendar,
			Start: s.Start, End: s.End, TTL: s.TTL, MaxOccurrences: s.MaxOccurrences, Jitter: s.Jitter}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("was  %+v\ncame %+v", want, got)
		}
	})
}

func TestTimersSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		timer := rouse.Timer{Key: rouse.Key{Namespace: text.Draw(t, "ns"), Name: text.Draw(t, "name")}, Spec: specs.Draw(t, "spec"),
			Generation: rapid.Uint64().Draw(t, "generation"), Revision: rapid.Uint64().Draw(t, "revision"), Reason: text.Draw(t, "reason"),
			Created: instants.Draw(t, "created"), Updated: instants.Draw(t, "updated"), Anchor: instants.Draw(t, "anchor"),
			Due: instants.Draw(t, "due"), Visible: rapid.OneOf(instants, rapid.Just(rouse.Never)).Draw(t, "visible"),
			Skips: rapid.Uint32().Draw(t, "skips"), Attempts: rapid.Uint32().Draw(t, "attempts"), Manual: rapid.Bool().Draw(t, "manual"),
			LastError: text.Draw(t, "error"), Failures: attempts.Draw(t, "failures"), Ended: rapid.Uint64().Draw(t, "ended"),
			Passed: rapid.Uint64().Draw(t, "passed"), Asked: rapid.Bool().Draw(t, "asked"),
			Fired: rapid.Uint64().Draw(t, "fired"), Dead: rapid.Uint64().Draw(t, "dead"), Missed: rapid.Uint64().Draw(t, "missed")}
		for range rapid.IntRange(0, rouse.MaxWaits).Draw(t, "waits") {
			timer.Waits = append(timer.Waits, rouse.Wait{Cause: causes.Draw(t, "cause"), From: instants.Draw(t, "from"), To: instants.Draw(t, "to")})
		}
		if runs := rapid.SliceOfN(instants, 0, 3).Draw(t, "runs"); len(runs) > 0 {
			timer.Runs = runs
		}
		if timer.Attempts > 0 {
			timer.Began = instants.Draw(t, "began")
		}
		switch rapid.SampledFrom([]string{"plain", "paused", "accepted", "dead", "firing", "ended"}).Draw(t, "state") {
		case "paused":
			timer.ConsecutiveDead = rapid.Uint32().Draw(t, "consecutive dead")
			timer.PauseCause = rapid.SampledFrom([]rouse.PauseCause{rouse.PauseRequested, rouse.PauseDeadLetters, rouse.PauseUnreadable}).Draw(t, "pause cause")
			timer.Paused, timer.Until = true, rapid.OneOf(instants, rapid.Just(rouse.Instant(0))).Draw(t, "until")
		case "accepted":
			timer.Token = 1
		case "dead":
			timer.Key.Fire = "fire"
		case "firing":
			timer.Key.Fire, timer.Live = "fire", true
		case "ended":
			timer.Due = rouse.Never
		}
		p := wire(t, TimerToProto(&timer), &Timer{})
		if p.State != timer.State().String() || InstantFromProto(p.SentAtMs) != timer.SentAt(timer.Due) {
			t.Fatalf("state %q, sent at %d, want %v, %v", p.State, p.SentAtMs, timer.State(), timer.SentAt(timer.Due))
		}
		got, err := TimerFromProto(p)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, timer) {
			t.Fatalf("was  %+v\ncame %+v", timer, got)
		}
	})
}

var causes = rapid.SampledFrom(slices.Concat([]rouse.Cause{rouse.CauseUnknown}, rouse.Causes(rouse.EndFired), rouse.Causes(rouse.EndDead),
	rouse.Causes(rouse.EndSkipped), rouse.Causes(rouse.EndMissed)))

func TestRecordsSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rouse.Record{Namespace: text.Draw(t, "ns"), Name: text.Draw(t, "name"), Generation: rapid.Uint64().Draw(t, "generation"),
			Ending: rapid.SampledFrom([]rouse.Ending{rouse.EndFired, rouse.EndDead, rouse.EndSkipped, rouse.EndMissed}).Draw(t, "ending"),
			Manual: rapid.Bool().Draw(t, "manual"), Due: instants.Draw(t, "due"), LastDue: instants.Draw(t, "last"),
			Count: rapid.Uint32().Draw(t, "count"), Attempts: rapid.Uint32().Draw(t, "attempts"), Code: int(rapid.Int32().Draw(t, "code")),
			Reason: text.Draw(t, "reason"), Began: instants.Draw(t, "began"), Sent: instants.Draw(t, "sent"), Ended: instants.Draw(t, "ended"),
			Failures: attempts.Draw(t, "failures"), Cause: causes.Draw(t, "cause"), Other: instants.Draw(t, "other"), OtherManual: rapid.Bool().Draw(t, "run")}
		p := wire(t, RecordToProto(&r), &Record{})
		if p.FireId != r.FireID() {
			t.Fatalf("fire id %q, want %q", p.FireId, r.FireID())
		}
		if got, err := RecordFromProto(p); err != nil || !reflect.DeepEqual(got, r) {
			t.Fatalf("was  %+v\ncame %+v, %v", r, got, err)
		}
	})
}

func TestCalendarsSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rouse.Calendar{Namespace: text.Draw(t, "ns"), Name: text.Draw(t, "name"), Revision: rapid.Uint64().Draw(t, "revision"), Updated: instants.Draw(t, "updated")}
		for range rapid.IntRange(0, 5).Draw(t, "days") {
			c.Days = append(c.Days, rouse.Day{Date: rouse.Date(rapid.Int32Range(0, 2_932_000).Draw(t, "date")), Text: text.Draw(t, "text")})
		}
		got, err := CalendarFromProto(wire(t, CalendarToProto(&c), &Calendar{}))
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Fatalf("was  %+v\ncame %+v, %v", c, got, err)
		}
	})
}

func TestComing(t *testing.T) {
	stockholm, err := time.LoadLocation("Europe/Stockholm")
	if err != nil {
		t.Fatal(err)
	}
	c := rouse.Coming{Due: rouse.At(time.Date(2027, 7, 1, 7, 0, 0, 0, time.UTC)), At: rouse.At(time.Date(2027, 7, 1, 7, 0, 1, 5e6, time.UTC)), Mark: "odd"}
	p := wire(t, ComingToProto(&c, stockholm), &Coming{})
	if p.Local != "2027-07-01T09:00:00+02:00" || ComingFromProto(p) != c {
		t.Errorf("%v, %+v", p, ComingFromProto(p))
	}
	if got := Local(c.At, nil); got != "2027-07-01T07:00:01.005Z" {
		t.Errorf("in no zone: %s", got)
	}
}

// absent returns the paths of fields that have their default.
func absent(m protoreflect.Message, path string) (fields []string) {
	d := m.Descriptor().Fields()
	for i := range d.Len() {
		f := d.Get(i)
		name := path + string(f.Name())
		switch {
		case !m.Has(f):
			fields = append(fields, name)
		case f.IsList() && f.Message() != nil:
			fields = append(fields, absent(m.Get(f).List().Get(0).Message(), name+".")...)
		case f.Message() != nil && !f.IsMap() && !f.IsList() && f.Message().FullName() != "google.protobuf.Duration":
			fields = append(fields, absent(m.Get(f).Message(), name+".")...)
		}
	}
	return fields
}

// TestEveryFieldIsConverted sends values with every field set, so that it notices a new field without
// conversion.
func TestEveryFieldIsConverted(t *testing.T) {
	failures := []rouse.Attempt{{Sent: 1, Took: time.Second, Code: 503, Detail: "no"}}
	spec := rouse.Spec{Schedule: "a", Also: []string{"b"}, Except: []string{"c"}, Timezone: "d", DST: "e",
		Calendar: rouse.CalendarRule{Off: []string{"f"}, Only: []string{"g"}, Shift: rouse.ShiftNext}, Start: 1, End: 2, TTL: 3, MaxOccurrences: 4, Jitter: 5,
		Target: "h", Payload: []byte("i"), ContentType: "j", Labels: map[string]string{"k": "l"},
		Retry:   rouse.Retry{Attempts: 1, Interval: 2, Factor: 3, Max: 4, Jitter: 5, Timeout: 6, GiveUp: 7},
		Misfire: rouse.MisfireWithin, Within: time.Hour, Overlap: rouse.OverlapSkip, Deadline: 8, Priority: rouse.PriorityLow, Keep: 9,
		Webhook:     rouse.Webhook{Method: "m", Headers: map[string]string{"n": "o"}, Structured: true, Batch: 1, Accept: 2, RetryOn: []string{"3xx"}},
		Criticality: 9, PauseAfter: 10, Expect: rouse.Expect{Every: 11, Grace: 12, Notify: "p"}, Limit: "q", LimitKey: "r",
		Notify: rouse.Notify{Target: "s", Events: []string{"dead"}, Late: 13, After: 14, Every: 15, Format: "slack"}, OnSuccess: "t", OnFailure: "u", KeepAnswer: 16}
	limit := rouse.Limit{Namespace: "ns", Name: "n", Concurrency: 1, Rate: rouse.LimitRate{Count: 2, Per: time.Minute, Burst: 3}, PerKey: true, Order: rouse.OrderByDue, Paused: true,
		Updated: 4, Revision: 5, Reset: 6}
	use := rouse.LimitUse{Waiting: 1, InProgress: 2, Oldest: 3, Began: 4, More: true, Keys: []rouse.LimitKeyUse{{Key: "k", Waiting: 5, InProgress: 6, Oldest: 7}}}
	timer := rouse.Timer{Key: rouse.Key{Namespace: "ns", Name: "n", Fire: "f"}, Generation: 1, Revision: 2, Spec: spec, Reason: "r", Until: 3, Created: 4,
		Updated: 5, Anchor: 6, Visible: 7, Due: 8, Runs: []rouse.Instant{9}, Skips: 10, Attempts: 11, Manual: true, Began: 12, LastError: "e",
		Failures: failures, Ended: 13, Passed: 14, Live: true, Asked: true, Waits: []rouse.Wait{{Cause: rouse.CauseBacklog, From: 15, To: 16}}, Fired: 17, Dead: 18,
		Missed: 19, PausedAt: 20, Pauses: []rouse.Span{{From: 20, To: 21}}, Backlog: rouse.Span{From: 21, To: 22}, Answer: &rouse.Answer{ContentType: "c", Payload: []byte("a"), Cut: true},
		PauseCause: rouse.PauseDeadLetters, ConsecutiveDead: 20, Redacted: true, Succeeded: 23, ExpectFrom: 24, Overdue: 25, Notice: rouse.NoticeRecovered,
		Notices: rouse.NoticeState{Alarmed: true, Since: 26, Events: 27}, LimitKey: "v"}
	record := rouse.Record{Namespace: "ns", Name: "n", Generation: 1, Ending: rouse.EndMissed, Cause: rouse.CauseOverlapped, Other: 1, OtherManual: true, Manual: true, Due: 2, LastDue: 3, Count: 4, Attempts: 5, Code: 6,
		Reason: "r", Target: "x:", Began: 7, Sent: 8, Ended: 9, Failures: failures, Answer: &rouse.Answer{ContentType: "c", Payload: []byte("a"), Cut: true}}
	calendar := rouse.Calendar{Namespace: "ns", Name: "n", Days: []rouse.Day{{Date: 1, Text: "t"}}, Revision: 1, Updated: 2}
	filter := rouse.Query{Namespace: "ns", Prefix: "p", Name: "n", States: []rouse.State{rouse.StateDead}, Labels: map[string]string{"k": "v"}, DueFrom: 1, DueUntil: 2,
		Sought: rouse.Sought{Text: "t", Target: "x:*", Code: 503}}
	history := rouse.RecordQuery{Prefix: "p", Labels: map[string]string{"k": "v"}, Endings: []rouse.Ending{rouse.EndDead}, Causes: []rouse.Cause{rouse.CausePaused}, Sought: filter.Sought,
		From: rouse.RecordCursor{Ended: 1}, Until: rouse.RecordCursor{Ended: 2}}
	group := rouse.RecordGroup{Key: "k", From: 1, Count: 2, Fired: 3, Dead: 4, Missed: 5, Skipped: 6, First: 7, Last: 8, Lagged: 9, LagP50: 10, LagP99: 11}
	for _, c := range []struct {
		word    any
		message proto.Message
		not     []string // fields of the word that this one cannot have, or that no message has
		nor     []string // fields of the message that are not the word's
	}{
		{timer, TimerToProto(&timer), []string{"Bucket", "Paused", "Token", "Lost", "Trace", "Cut"}, []string{"in_flight", "next_ms", "unchanged", "notes"}},
		{record, RecordToProto(&record), nil, nil},
		{calendar, CalendarToProto(&calendar), nil, nil},
		{spec, WhenToProto(&spec), nil, nil},
		{limit, LimitToProto(&limit), nil, []string{"use"}},
		{use, LimitUseToProto(&use), nil, []string{"nodes"}},
		{filter, FilterToProto(&filter), []string{"After", "Limit", "Order", "Reverse", "AfterAt"}, nil},
		{history, RecordFilterToProto(&history), []string{"Namespace", "Name", "Until.Seq", "Limit", "From.Seq", "Oldest"}, nil},
		{group, RecordGroupToProto(&group), nil, nil},
		{rouse.Coming{Due: 1, At: 2, Mark: "m"}, ComingToProto(&rouse.Coming{Due: 1, At: 2, Mark: "m"}, nil), nil, []string{"name", "fire_id", "namespace"}},
	} {
		if got := unset.Fields(c.word); !slices.Equal(got, c.not) {
			t.Errorf("%T: this test does not set %v, want %v", c.word, got, c.not)
		}
		if got := absent(c.message.ProtoReflect(), ""); !slices.Equal(got, c.nor) {
			t.Errorf("%T: the message does not have %v, want %v", c.word, got, c.nor)
		}
	}
	if got, err := TimerFromProto(TimerToProto(&timer)); err != nil || !reflect.DeepEqual(got, timer) {
		t.Errorf("was  %+v\ncame %+v, %v", timer, got, err)
	}
	if got := LimitFromProto(wire(t, LimitToProto(&limit), &Limit{})); got != limit {
		t.Errorf("was  %+v\ncame %+v", limit, got)
	}
	if got := LimitUseFromProto(wire(t, LimitUseToProto(&use), &LimitUse{})); !reflect.DeepEqual(got, use) {
		t.Errorf("was  %+v\ncame %+v", use, got)
	}
	if got, err := RecordFromProto(RecordToProto(&record)); err != nil || !reflect.DeepEqual(got, record) {
		t.Errorf("was  %+v\ncame %+v, %v", record, got, err)
	}
}

func TestFiltersSurviveTheWire(t *testing.T) {
	q := rouse.Query{Namespace: "ns", Prefix: "p", Name: "n", States: []rouse.State{rouse.StateDead, rouse.StatePaused},
		Labels: map[string]string{"k": "v"}, DueFrom: 5, DueUntil: 9, Sought: rouse.Sought{Text: "t", Target: "x:*", Code: 503}}
	got, err := FilterFromProto(wire(t, FilterToProto(&q), &Filter{}))
	if err != nil || !reflect.DeepEqual(got, q) {
		t.Errorf("was  %+v\ncame %+v, %v", q, got, err)
	}
	h := rouse.RecordQuery{Prefix: "p", Labels: q.Labels, Endings: []rouse.Ending{rouse.EndDead, rouse.EndMissed}, Causes: []rouse.Cause{rouse.CausePaused},
		Sought: q.Sought, From: rouse.RecordCursor{Ended: 1}, Until: rouse.RecordCursor{Ended: 2}}
	var read rouse.RecordQuery
	if err := RecordFilterFromProto(wire(t, RecordFilterToProto(&h), &RecordFilter{}), &read); err != nil || !reflect.DeepEqual(read, h) {
		t.Errorf("was  %+v\ncame %+v, %v", h, read, err)
	}
	g := rouse.RecordGroup{Key: "k", From: 1, Count: 2, Fired: 3, Dead: 4, Missed: 5, Skipped: 6, First: 7, Last: 8, Lagged: 9, LagP50: 10, LagP99: 11}
	if got := RecordGroupFromProto(wire(t, RecordGroupToProto(&g), &RecordGroup{})); got != g {
		t.Errorf("was  %+v\ncame %+v", g, got)
	}
	if got, err := FilterFromProto(nil); err != nil || !reflect.DeepEqual(got, rouse.Query{}) {
		t.Errorf("no filter is %+v, %v", got, err)
	}
}

// The default spec is a small message, and its defaults stay unset: so later defaults hold for it, too.
func TestDefaultsAreLeftOut(t *testing.T) {
	p := SpecToProto(&rouse.Spec{Schedule: "@after 1s", Target: "stream:"})
	if want := (&Spec{Schedule: "@after 1s", Target: "stream:"}); !proto.Equal(p, want) {
		t.Errorf("%v", p)
	}
}

func TestKeepForEverIsNegative(t *testing.T) {
	for _, d := range []*durationpb.Duration{durationpb.New(-1), {Seconds: -5}} {
		if s, err := SpecFromProto(&Spec{Keep: d}); err != nil || s.Keep >= 0 {
			t.Errorf("%v is %v, %v", d, s.Keep, err)
		}
	}
}

func TestJitterNoneIsNotTheDefault(t *testing.T) {
	s, err := SpecFromProto(&Spec{Retry: &Retry{Jitter: &durationpb.Duration{}}})
	if err != nil || s.Retry.Effective().Jitter != 0 {
		t.Errorf("a jitter of 0s is %v, %v", s.Retry.Effective().Jitter, err)
	}
	if s, _ := SpecFromProto(&Spec{Retry: &Retry{}}); s.Retry.Effective().Jitter != rouse.DefaultRetry.Jitter {
		t.Errorf("no jitter is %v, want the default", s.Retry.Effective().Jitter)
	}
}

// fieldsOf returns the fields that an error refuses.
func fieldsOf(err error) (fields []string) {
	var inv *rouse.Invalid
	if errors.As(err, &inv) {
		for _, p := range inv.Problems {
			if p.Wrong == "" || p.Cure == "" && p.Value == "" {
				fields = append(fields, "a problem without words")
			}
			fields = append(fields, p.Field)
		}
	}
	return fields
}

func TestWhatIsRefused(t *testing.T) {
	minus, bad := durationpb.New(-1), &durationpb.Duration{Nanos: 1e9}
	long := &durationpb.Duration{Seconds: math.MaxInt64 / int64(time.Second)}
	from := func(_ any, err error) error { return err }
	for _, c := range []struct {
		name string
		err  error
		want []string
	}{
		{"no spec", from(SpecFromProto(nil)), []string{"spec"}},
		{"misfire", from(SpecFromProto(&Spec{Misfire: "Latest"})), []string{"misfire"}},
		{"everything at once", from(SpecFromProto(&Spec{Ttl: minus, Jitter: bad, Calendar: &CalendarRule{Shift: "no"}, Misfire: "no", Overlap: "no",
			Priority: "no", Deadline: long, Keep: bad, Retry: &Retry{Interval: minus, MaxInterval: bad, Jitter: minus, Timeout: long, GiveUp: minus},
			Webhook: &Webhook{Accept: minus}})),
			[]string{"retry.interval", "retry.max_interval", "retry.timeout", "retry.give_up", "retry.jitter", "webhook.accept", "calendar.shift",
				"ttl", "jitter", "overlap", "deadline", "priority", "misfire", "keep"}},
		{"no when", from(WhenFromProto(nil)), []string{"when"}},
		{"when", from(WhenFromProto(&When{Ttl: minus})), []string{"ttl"}},
		{"mixed signs", from(DurationFromProto("d", &durationpb.Duration{Seconds: 1, Nanos: -1})), []string{"d"}},
		{"longest", from(DurationFromProto("d", &durationpb.Duration{Seconds: math.MaxInt64})), []string{"d"}},
		{"no timer", from(TimerFromProto(nil)), []string{"timer"}},
		{"timer without spec", from(TimerFromProto(&Timer{})), []string{"spec"}},
		{"state", from(TimerFromProto(&Timer{Spec: &Spec{}, State: "lost"})), []string{"state"}},
		{"dead without a fire", from(TimerFromProto(&Timer{Spec: &Spec{}, State: "dead"})), []string{"fire_id"}},
		{"firing without a fire", from(TimerFromProto(&Timer{Spec: &Spec{}, State: "firing"})), []string{"fire_id"}},
		{"a note", from(TimerFromProto(&Timer{Spec: &Spec{}, State: "note"})), []string{"state"}},
		{"retrying without an attempt", from(TimerFromProto(&Timer{Spec: &Spec{}, State: "retrying", DueMs: 5})), []string{"state"}},
		{"ended with a run", from(TimerFromProto(&Timer{Spec: &Spec{}, State: "ended", RunsMs: []int64{5}})), []string{"state"}},
		{"no calendar", from(CalendarFromProto(nil)), []string{"calendar"}},
		{"days", from(DaysFromProto([]*Day{{Date: "2027-12-24"}, {Date: "2027-02-30"}, nil})), []string{"days[1].date", "days[2].date"}},
		{"alive with a fire", from(TimerFromProto(&Timer{Spec: &Spec{}, State: "paused", FireId: "x"})), []string{"fire_id"}},
		{"no record", from(RecordFromProto(nil)), []string{"record"}},
		{"ending", from(RecordFromProto(&Record{Ending: "lost"})), []string{"ending"}},
		{"filter", from(FilterFromProto(&Filter{States: []string{"dead", "x", ""}, DueFromMs: -1, DueUntilMs: -1})),
			[]string{"filter.states[1]", "filter.states[2]", "filter.due_from_ms", "filter.due_until_ms"}},
	} {
		if got := fieldsOf(c.err); !slices.Equal(got, c.want) {
			t.Errorf("%s: refuses %v (%v), want %v", c.name, got, c.err, c.want)
		}
	}
}

func TestInstants(t *testing.T) {
	if InstantToProto(rouse.Never) != 0 || InstantFromProto(0) != rouse.Never || InstantFromProto(InstantToProto(17)) != 17 {
		t.Error("never is not 0, or 17 is not 17")
	}
}

func TestHotPathMakesLittleGarbage(t *testing.T) {
	spec := rouse.Spec{Schedule: "@after 1s", Target: "stream:", Payload: []byte("x"), Labels: map[string]string{"k": "v"}}
	p := SpecToProto(&spec)
	f := rouse.Fire{ID: "id", Spec: &spec}
	m := &Fire{}
	for name, c := range map[string]struct {
		most float64
		do   func()
	}{
		"a spec to its message":   {1, func() { SpecToProto(&spec) }},
		"a spec from its message": {0, func() { _, _ = SpecFromProto(p) }},
		"a fire to its message":   {0, func() { FireToProto(&f, m) }},
	} {
		if n := testing.AllocsPerRun(100, c.do); n > c.most {
			t.Errorf("%s: %v allocations, want at most %v", name, n, c.most)
		}
	}
}

var kept *Spec // so that benchmarks allocate as programs do

// BenchmarkSpecs converts the spec of a create, which is on the path of every create.
func BenchmarkSpecs(b *testing.B) {
	plain := rouse.Spec{Schedule: "@every 1m", Target: "https://a.example/hook", Payload: []byte(`{"a":1}`), ContentType: "application/json", Labels: map[string]string{"k": "v"}}
	full := plain
	full.TTL, full.Jitter, full.Overlap, full.Priority, full.Keep = time.Hour, time.Second, rouse.OverlapSkip, rouse.PriorityHigh, -1
	full.Retry, full.Webhook = rouse.Retry{Attempts: 3, Interval: time.Second, Jitter: -1}, rouse.Webhook{Method: "PUT", Accept: time.Minute}
	full.Calendar, full.Misfire, full.Within = rouse.CalendarRule{Off: []string{"holidays"}, Shift: rouse.ShiftNext}, rouse.MisfireWithin, time.Hour
	for name, s := range map[string]*rouse.Spec{"plain": &plain, "full": &full} {
		b.Run("to/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				kept = SpecToProto(s)
			}
		})
		p := SpecToProto(s)
		b.Run("from/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := SpecFromProto(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
