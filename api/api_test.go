package api

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/unset"
)

func drawInstant(t *rapid.T) rouse.Instant {
	return rouse.Instant(rapid.Int64Range(int64(rouse.MinInstant), int64(rouse.MaxInstant)).Draw(t, "instant"))
}

// drawSpec returns any spec that a client may give.
func drawSpec(t *rapid.T) rouse.Spec {
	text := rapid.StringMatching(`[a-zä/"\\]{0,8}`)
	span := rapid.Custom(func(t *rapid.T) time.Duration { return time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "span")) })
	list := rapid.Custom(func(t *rapid.T) []string {
		if l := rapid.SliceOfN(text, 0, 3).Draw(t, "list"); len(l) > 0 {
			return l
		}
		return nil
	})
	s := rouse.Spec{Limit: text.Draw(t, "limit"), LimitKey: text.Draw(t, "limit key"), Schedule: text.Draw(t, "schedule"), Timezone: text.Draw(t, "timezone"), Target: text.Draw(t, "target"),
		Also: list.Draw(t, "also"), Except: list.Draw(t, "except"), DST: text.Draw(t, "dst"), TTL: span.Draw(t, "ttl"), Jitter: span.Draw(t, "jitter"),
		Calendar:       rouse.CalendarRule{Off: list.Draw(t, "off"), Only: list.Draw(t, "only"), Shift: rouse.Shift(rapid.IntRange(0, 2).Draw(t, "shift"))},
		MaxOccurrences: rapid.Uint64().Draw(t, "most"), Misfire: rouse.Misfire(rapid.IntRange(0, 3).Draw(t, "misfire")),
		Overlap: rouse.Overlap(rapid.IntRange(0, 3).Draw(t, "overlap")), Deadline: span.Draw(t, "deadline"),
		Priority: rouse.Priority(rapid.IntRange(-1, 1).Draw(t, "priority")), Keep: max(span.Draw(t, "keep")-1, -1),
		Criticality: rapid.Uint8Range(0, rouse.MaxCriticality).Draw(t, "criticality"), PauseAfter: rapid.Uint32().Draw(t, "pause after"),
		Expect: rouse.Expect{Every: span.Draw(t, "every"), Notify: rapid.SampledFrom([]string{"", "x:y"}).Draw(t, "notify")}}
	if s.Misfire == rouse.MisfireWithin {
		s.Within = max(time.Second, span.Draw(t, "within"))
	}
	if rapid.Bool().Draw(t, "bounded") {
		s.Start, s.End = drawInstant(t), drawInstant(t)
	}
	if rapid.Bool().Draw(t, "labelled") {
		s.Labels = rapid.MapOfN(text, text, 1, 3).Draw(t, "labels")
	}
	switch rapid.IntRange(0, 3).Draw(t, "payload") {
	case 0:
		s.Payload, s.ContentType = []byte(rapid.SampledFrom([]string{`{}`, `null`, `[1,"x"]`, `"\u00e4"`, `1.0e2`}).Draw(t, "json")), "application/json"
	case 1:
		s.Payload, s.ContentType = rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "bytes"), "text/plain"
	case 2:
		s.Payload, s.ContentType = []byte(rapid.SampledFrom([]string{`{`, `1 2`, "\xff", strings.Repeat("[", 40) + strings.Repeat("]", 40)}).Draw(t, "bad")), "application/json"
	}
	if rapid.Bool().Draw(t, "retried") {
		s.Retry = rouse.Retry{Attempts: rapid.Uint32().Draw(t, "attempts"), Interval: span.Draw(t, "interval"), Max: span.Draw(t, "max"),
			Jitter: max(span.Draw(t, "jitter")-1, -1), Timeout: span.Draw(t, "timeout"), Factor: rapid.Float64().Draw(t, "factor"), GiveUp: span.Draw(t, "give up")}
	}
	if rapid.Bool().Draw(t, "hooked") {
		s.Webhook = rouse.Webhook{Method: text.Draw(t, "method"), Structured: rapid.Bool().Draw(t, "structured"), Batch: rapid.Uint32().Draw(t, "batch"),
			Accept: span.Draw(t, "accept"), Headers: rapid.MapOfN(text, text, 1, 3).Draw(t, "headers")}
	}
	return s
}

// TestSpecsComeBack: words, JSON and back are the same, whatever the payload.
func TestSpecsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		out := SpecOf(&s)
		b, err := Encode(&out)
		if err != nil {
			t.Fatal(err)
		}
		var in Spec
		if err := Decode(b, &in); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		back, err := in.Parse()
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(s, back) {
			t.Fatalf("%+v\nbecame\n%+v\nby %s", s, back, b)
		}
	})
}

// again writes a value, and returns it as it is read.
func again[T any](t *testing.T, v T) (back T) {
	t.Helper()
	b, err := Encode(v)
	if err == nil {
		err = Decode(b, &back)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return back
}

// TestEveryFieldIsConverted sends values with every field set, so that it notices a new field without
// conversion.
func TestEveryFieldIsConverted(t *testing.T) {
	at := func(n int) rouse.Instant { return rouse.MinInstant + rouse.Instant(n) }
	failures := []rouse.Attempt{{Sent: at(1), Took: time.Second, Code: 503, Detail: "no"}}
	spec := rouse.Spec{Schedule: "a", Also: []string{"b"}, Except: []string{"c"}, Timezone: "d", DST: "e",
		Calendar: rouse.CalendarRule{Off: []string{"f"}, Only: []string{"g"}, Shift: rouse.ShiftNext}, Start: at(1), End: at(2), TTL: 3, MaxOccurrences: 4, Jitter: 5,
		Target: "h", Payload: []byte("1"), ContentType: "application/json", Labels: map[string]string{"k": "l"},
		Retry:   rouse.Retry{Attempts: 1, Interval: 2, Factor: 3, Max: 4, Jitter: 5, Timeout: 6, GiveUp: 7},
		Misfire: rouse.MisfireWithin, Within: time.Hour, Overlap: rouse.OverlapSkip, Deadline: 8, Priority: rouse.PriorityLow, Keep: -1,
		Webhook:     rouse.Webhook{Method: "m", Headers: map[string]string{"n": "o"}, Structured: true, Batch: 1, Accept: 2, RetryOn: []string{"3xx"}},
		Criticality: 9, PauseAfter: 10, Expect: rouse.Expect{Every: 11, Grace: 12, Notify: "p"}, Limit: "q", LimitKey: "r",
		Notify: rouse.Notify{Target: "s", Events: []string{"dead"}, Late: 13, After: 14, Every: 15, Format: "slack"}, OnSuccess: "t", OnFailure: "u", KeepAnswer: 16}
	use := rouse.LimitUse{Waiting: 1, InProgress: 2, Oldest: 3, Began: 4, More: true, Keys: []rouse.LimitKeyUse{{Key: "k", Waiting: 5, InProgress: 6, Oldest: 7}}}
	limit := rouse.Limit{Namespace: "ns", Name: "n", Concurrency: 1, Rate: rouse.LimitRate{Count: 2, Per: time.Minute, Burst: 3}, PerKey: true, Order: rouse.OrderByDue, Paused: true,
		Updated: at(4), Revision: 5, Reset: at(9)}
	timer := rouse.Timer{Key: rouse.Key{Namespace: "ns", Name: "n", Fire: "f"}, Generation: 1, Revision: 2, Spec: spec, Reason: "r", Until: at(3), Created: at(4),
		Updated: at(5), Anchor: at(6), Visible: at(7), Due: at(8), Runs: []rouse.Instant{at(9)}, Skips: 10, Attempts: 11, Manual: true, Began: at(12),
		LastError: "e", Failures: failures, Ended: 13, Passed: 14, Live: true, Asked: true, Waits: []rouse.Wait{{Cause: rouse.CauseBacklog, From: at(15), To: at(16)}},
		Fired: 17, Dead: 18, Missed: 19, PausedAt: at(20), Pauses: []rouse.Span{{From: at(20), To: at(21)}}, Backlog: rouse.Span{From: at(21), To: at(22)}, Answer: &rouse.Answer{ContentType: "c", Payload: []byte("a"), Cut: true},
		PauseCause: rouse.PauseDeadLetters, ConsecutiveDead: 20, Redacted: true, Succeeded: at(23), ExpectFrom: at(24), Overdue: at(25), Notice: rouse.NoticeRecovered,
		Notices: rouse.NoticeState{Alarmed: true, Since: at(26), Events: 27}, LimitKey: "v"}
	record := rouse.Record{Namespace: "ns", Name: "n", Generation: 1, Ending: rouse.EndMissed, Cause: rouse.CauseOverlapped, Other: at(1), OtherManual: true, Manual: true, Due: at(2), LastDue: at(3), Count: 4, Attempts: 5,
		Code: 6, Reason: "r", Target: "x:", Began: at(7), Sent: at(8), Ended: at(9), Failures: failures, Answer: &rouse.Answer{ContentType: "c", Payload: []byte("a"), Cut: true}}
	calendar := rouse.Calendar{Namespace: "ns", Name: "n", Days: []rouse.Day{{Date: 1, Text: "t"}}, Revision: 1, Updated: at(2)}
	ours, coming := TimerOf(&timer), rouse.Coming{Due: at(1), At: at(2), Mark: "m"}
	for _, c := range []struct {
		word, form any
		not        []string // fields of the word that this one cannot have, or that no form has
		nor        []string // fields of the form that are not the word's
	}{
		{timer, ours, []string{"Bucket", "Paused", "Token", "Lost", "Trace", "Cut"}, []string{"Spec.PayloadBase64", "Next", "InFlight", "Unchanged", "Notes"}},
		{record, RecordOf(&record), nil, nil},
		{calendar, CalendarOf(&calendar), nil, nil},
		{limit, LimitOf(&limit), nil, []string{"Use"}},
		{use, LimitUseOf(&use), nil, []string{"Nodes"}},
		{coming, ComingOf(&coming, "l"), nil, []string{"Name", "FireID", "Namespace"}},
	} {
		if got := unset.Fields(c.word); !slices.Equal(got, c.not) {
			t.Errorf("%T: this test does not set %v, want %v", c.word, got, c.not)
		}
		if got := unset.Fields(c.form); !slices.Equal(got, c.nor) {
			t.Errorf("%T: the form does not have %v, want %v", c.word, got, c.nor)
		}
	}
	read := again(t, ours)
	if got, err := read.Parse(); err != nil || !reflect.DeepEqual(got, timer) {
		t.Errorf("was  %+v\ncame %+v, %v", timer, got, err)
	}
	limitForm := again(t, LimitOf(&limit))
	if got := limitForm.Parse(); got != limit {
		t.Errorf("was  %+v\ncame %+v", limit, got)
	}
	days := again(t, CalendarOf(&calendar))
	if got, err := days.Parse(); err != nil || !reflect.DeepEqual(got, calendar) {
		t.Errorf("was  %+v\ncame %+v, %v", calendar, got, err)
	}
	when := again(t, newWhen(&spec))
	want := rouse.Spec{Schedule: spec.Schedule, Also: spec.Also, Except: spec.Except, Timezone: spec.Timezone, DST: spec.DST, Calendar: spec.Calendar,
		Start: spec.Start, End: spec.End, TTL: spec.TTL, MaxOccurrences: spec.MaxOccurrences, Jitter: spec.Jitter}
	if got, err := when.Parse(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("was  %+v\ncame %+v, %v", want, got, err)
	}
}

// TestTimersOfEveryStateComeBack: what a list shows can be imported, whatever the timer is doing.
func TestTimersOfEveryStateComeBack(t *testing.T) {
	key := rouse.Key{Namespace: "ns", Name: "n"}
	for want, timer := range map[rouse.State]rouse.Timer{
		rouse.StateScheduled: {Due: rouse.MinInstant, Visible: rouse.MinInstant},
		rouse.StateRetrying:  {Due: rouse.MinInstant, Visible: rouse.MinInstant, Attempts: 1},
		rouse.StateAccepted:  {Due: rouse.MinInstant, Visible: rouse.MinInstant, Attempts: 1, Token: 1},
		rouse.StatePaused:    {Due: rouse.MinInstant, Visible: rouse.Never, Paused: true},
		rouse.StateEnded:     {Due: rouse.Never, Visible: rouse.Never},
		rouse.StateDead:      {Key: rouse.Key{Fire: "f"}, Due: rouse.MinInstant, Visible: rouse.Never, Attempts: 8},
		rouse.StateFiring:    {Key: rouse.Key{Fire: "f"}, Due: rouse.MinInstant, Visible: rouse.MinInstant, Live: true},
	} {
		timer.Key = rouse.Key{Namespace: key.Namespace, Name: key.Name, Fire: timer.Key.Fire}
		read := again(t, TimerOf(&timer))
		if got, err := read.Parse(); err != nil || !reflect.DeepEqual(got, timer) || read.State != want.String() {
			t.Errorf("%v: was  %+v\ncame %+v, %v", want, timer, got, err)
		}
	}
}

func TestTimersThatAreRefused(t *testing.T) {
	for field, o := range map[string]Timer{
		"misfire": {Spec: Spec{Misfire: "no"}, State: "scheduled"},
		"state":   {State: "note"},
		"fire_id": {State: "dead"},
	} {
		_, err := o.Parse()
		var inv *rouse.Invalid
		if !errors.As(err, &inv) || inv.Problems[0].Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	lies := Timer{State: "retrying", Due: Time(rouse.MinInstant)}
	if _, err := lies.Parse(); err == nil {
		t.Error("a timer that retries without an attempt was taken")
	}
}

func TestKeep(t *testing.T) {
	for in, want := range map[string]Keep{`"24h"`: Keep(24 * time.Hour), `"forever"`: -1, `"0s"`: 0} {
		var got Keep
		if err := json.Unmarshal([]byte(in), &got); err != nil || got != want {
			t.Errorf("%s is %d, %v", in, got, err)
		}
	}
	for _, in := range []string{`"-1s"`, `"ever"`, `-1`} {
		if err := json.Unmarshal([]byte(in), new(Keep)); err == nil {
			t.Errorf("%s was taken", in)
		}
	}
	if b, err := Encode(Spec{Keep: -1}); err != nil || !bytes.Contains(b, []byte(`"keep":"forever"`)) {
		t.Errorf("%s %v", b, err)
	}
}

func TestTimes(t *testing.T) {
	for in, want := range map[string]string{
		`"2027-01-31T09:00:00Z"`:           "2027-01-31T09:00:00.000Z",
		`"2027-01-31T09:00:00.0001+01:00"`: "2027-01-31T08:00:00.001Z",
		`"0000-01-01T00:00:00Z"`:           "",
		`"9999-01-01T00:00:00Z"`:           "",
		`"tomorrow"`:                       "",
	} {
		var got Time
		if err := json.Unmarshal([]byte(in), &got); (err == nil) != (want != "") || got.String() != want {
			t.Errorf("%s is %q, %v", in, got, err)
		}
	}
	if TimeOf(rouse.Never) != 0 {
		t.Error("a time that never comes is not left out")
	}
	b, err := Encode(TimerOf(&rouse.Timer{Due: rouse.Never, Visible: rouse.Never, Runs: []rouse.Instant{rouse.MinInstant}}))
	if err != nil || bytes.Contains(b, []byte("due")) || !bytes.Contains(b, []byte(`"runs":["2000-01-01T00:00:00.000Z"]`)) {
		t.Errorf("%s %v", b, err)
	}
}

// FuzzDecode: whatever is sent, it is read or refused with a field, and what is read can be written and read
// again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"schedule":"@every 5m","target":"https://example.com/","payload":{"a":[1]},"retry":{"jitter":"0s"}}`))
	f.Add([]byte(`{"schedule":"@every 5m","payload_base64":"AA==","labels":{"a":"b"}}`))
	f.Add([]byte(`{"a":1,"a":2}`))
	f.Add([]byte("{\"schedule\":\"\xff\"}"))
	f.Add([]byte(strings.Repeat("[", 100)))
	f.Add([]byte(`{"webhook":{"batch":-1}} {}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var v PutTimer
		if err := Decode(b, &v); err != nil {
			var inv *rouse.Invalid
			if !errors.As(err, &inv) || inv.Problems[0].Field == "" || inv.Problems[0].Wrong == "" || inv.Problems[0].Cure == "" {
				t.Fatalf("%q: %v", b, err)
			}
			return
		}
		out, err := Encode(&v)
		if err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		var again PutTimer
		if err := Decode(out, &again); err != nil {
			t.Fatalf("%q became %q: %v", b, out, err)
		}
	})
}

// FuzzTooDeep compares with a decoder that knows JSON.
func FuzzTooDeep(f *testing.F) {
	for _, s := range []string{`[[[]]]`, `{"a":{"b":[1]}}`, `"[[[["`, `["\"[[[["]`, `[{},{},{},[[[[]]]]]`, `"\\"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := jsontext.NewDecoder(bytes.NewReader(b), jsontext.AllowDuplicateNames(true))
		deepest := 0
		for {
			if _, err := d.ReadToken(); err != nil {
				break
			}
			deepest = max(deepest, d.StackDepth())
		}
		if !jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(true)) {
			return
		}
		for limit := range 6 {
			if got := TooDeep(b, limit); got != (deepest > limit) {
				t.Errorf("%q is %d deep; TooDeep(%d) is %v", b, deepest, limit, got)
			}
		}
	})
}

func TestTimerPath(t *testing.T) {
	if got := TimerPath("ns", "a/b:c ä%"); got != "/v1/namespaces/ns/timers/a%2Fb%3Ac%20%C3%A4%25" {
		t.Error(got)
	}
}

// FuzzQuotas: quotas that are accepted are within their bounds, and the same when they are written and read
// again; none is lost on the way.
func FuzzQuotas(f *testing.F) {
	for _, text := range []string{`{"quotas":{"timers":5,"bytes":1000,"min_interval":"1m","fires_per_second":0.5,"schedule_cost":10}}`, `{}`, `{"quotas":null}`, `{"quotas":{"timers":-1}}`,
		`{"quotas":{"creates_per_second":1e400}}`, `{"quotas":{"reads_per_second":1e9,"min_interval":"9000h"}}`, `{"quotas":{"bytes":9223372036854775807}}`, `{"quotas":{"timers":1.5}}`,
		`{"quotas":{"colour":1}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var v, again PutNamespace
		err := Decode(b, &v)
		q := v.Quotas.Words()
		if err == nil {
			err = q.Check()
		}
		if err != nil {
			if inv := new(*rouse.Invalid); !errors.As(err, inv) || (*inv).Problems[0].Field == "" || (*inv).Problems[0].Cure == "" {
				t.Errorf("%q: %v", b, err)
			}
			return
		}
		for _, one := range q.List(&rouse.Usage{}) {
			if !(one.Limit >= 0 && one.Limit <= 1<<50) {
				t.Errorf("%q has %s = %g", b, one.Name, one.Limit)
			}
		}
		out, err := Encode(PutNamespace{QuotasOf(q)})
		if err == nil {
			err = Decode(out, &again)
		}
		if err != nil || again != v {
			t.Errorf("%q became %q: %v", b, out, err)
		}
	})
}
