package api

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/rousehq/rouse"
)

// drawSpec returns any spec that a client may give.
func drawSpec(t *rapid.T) rouse.Spec {
	text := rapid.StringMatching(`[a-zä/"\\]{0,8}`)
	span := rapid.Custom(func(t *rapid.T) time.Duration { return time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "span")) })
	s := rouse.Spec{Schedule: text.Draw(t, "schedule"), Timezone: text.Draw(t, "timezone"), Target: text.Draw(t, "target"),
		Misfire: rouse.Misfire(rapid.IntRange(0, 2).Draw(t, "misfire"))}
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
			Jitter: max(span.Draw(t, "jitter")-1, -1), Timeout: span.Draw(t, "timeout")}
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
		back, err := in.Words()
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(s, back) {
			t.Fatalf("%+v\nbecame\n%+v\nby %s", s, back, b)
		}
	})
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

// FuzzDecode: whatever is sent, it is read or refused with a field, and what is read can be written and read again.
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
