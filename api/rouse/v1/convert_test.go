package rousev1

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/rousehq/rouse"
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
	specs = rapid.Custom(func(t *rapid.T) rouse.Spec {
		s := rouse.Spec{Schedule: text.Draw(t, "schedule"), Timezone: text.Draw(t, "zone"), Target: text.Draw(t, "target"),
			ContentType: text.Draw(t, "content type"), Labels: texts.Draw(t, "labels"),
			Misfire: rapid.SampledFrom([]rouse.Misfire{rouse.MisfireLatest, rouse.MisfireAll, rouse.MisfireSkip}).Draw(t, "misfire")}
		if b := rapid.SliceOf(rapid.Byte()).Draw(t, "payload"); len(b) > 0 {
			s.Payload = b
		}
		if rapid.Bool().Draw(t, "retry") {
			s.Retry = rouse.Retry{Attempts: rapid.Uint32().Draw(t, "attempts"), Interval: span.Draw(t, "interval"), Max: span.Draw(t, "max"),
				Jitter: rapid.OneOf(span, rapid.Just(time.Duration(-1))).Draw(t, "jitter"), Timeout: span.Draw(t, "timeout")}
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

func TestTimersSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		timer := rouse.Timer{Key: rouse.Key{Namespace: text.Draw(t, "ns"), Name: text.Draw(t, "name")}, Spec: specs.Draw(t, "spec"),
			Generation: rapid.Uint64().Draw(t, "generation"), Revision: rapid.Uint64().Draw(t, "revision"), Reason: text.Draw(t, "reason"),
			Created: instants.Draw(t, "created"), Updated: instants.Draw(t, "updated"), Due: instants.Draw(t, "due"),
			Visible: rapid.OneOf(instants, rapid.Just(rouse.Never)).Draw(t, "visible"), Attempts: rapid.Uint32().Draw(t, "attempts"),
			LastError: text.Draw(t, "error"), Ended: rapid.Uint64().Draw(t, "ended")}
		if runs := rapid.SliceOfN(instants, 0, 3).Draw(t, "runs"); len(runs) > 0 {
			timer.Runs = runs
		}
		switch rapid.SampledFrom([]string{"plain", "paused", "accepted", "dead", "ended"}).Draw(t, "state") {
		case "paused":
			timer.Paused = true
		case "accepted":
			timer.Token = 1
		case "dead":
			timer.Key.Fire, timer.Manual = "fire", len(timer.Runs) > 0
		case "ended":
			timer.Due = rouse.Never
			timer.Manual = len(timer.Runs) > 0 && timer.Attempts > 0
		}
		p := wire(t, TimerToProto(&timer), &Timer{})
		if p.State != timer.State().String() {
			t.Fatalf("state %q, want %v", p.State, timer.State())
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

func TestRecordsSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rouse.Record{Namespace: text.Draw(t, "ns"), Name: text.Draw(t, "name"), Generation: rapid.Uint64().Draw(t, "generation"),
			Ending: rapid.SampledFrom([]rouse.Ending{rouse.EndFired, rouse.EndDead, rouse.EndSkipped, rouse.EndMissed}).Draw(t, "ending"),
			Manual: rapid.Bool().Draw(t, "manual"), Due: instants.Draw(t, "due"), LastDue: instants.Draw(t, "last"),
			Count: rapid.Uint32().Draw(t, "count"), Attempts: rapid.Uint32().Draw(t, "attempts"), Code: int(rapid.Int32().Draw(t, "code")),
			Reason: text.Draw(t, "reason"), Sent: instants.Draw(t, "sent"), Ended: instants.Draw(t, "ended")}
		p := wire(t, RecordToProto(&r), &Record{})
		if p.FireId != r.FireID() {
			t.Fatalf("fire id %q, want %q", p.FireId, r.FireID())
		}
		if got, err := RecordFromProto(p); err != nil || got != r {
			t.Fatalf("was  %+v\ncame %+v, %v", r, got, err)
		}
	})
}

func TestFiltersSurviveTheWire(t *testing.T) {
	q := rouse.Query{Namespace: "ns", Prefix: "p", Name: "n", States: []rouse.State{rouse.StateDead, rouse.StatePaused},
		Labels: map[string]string{"k": "v"}, DueFrom: 5, DueUntil: 9}
	got, err := FilterFromProto(wire(t, FilterToProto(&q), &Filter{}))
	if err != nil || !reflect.DeepEqual(got, q) {
		t.Errorf("was  %+v\ncame %+v, %v", q, got, err)
	}
	if got, err := FilterFromProto(nil); err != nil || !reflect.DeepEqual(got, rouse.Query{}) {
		t.Errorf("no filter is %+v, %v", got, err)
	}
}

// The default spec is a small message, and its defaults stay unset: so later defaults hold for it, too.
func TestDefaultsAreLeftOut(t *testing.T) {
	p := SpecToProto(&rouse.Spec{Schedule: "@after 1s", Target: "stream:"})
	if p.Retry != nil || p.Webhook != nil || p.Misfire != "" {
		t.Errorf("%v", p)
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
		{"everything at once", from(SpecFromProto(&Spec{Misfire: "no", Retry: &Retry{Interval: minus, MaxInterval: bad, Jitter: minus, Timeout: long},
			Webhook: &Webhook{Accept: minus}})),
			[]string{"misfire", "retry.interval", "retry.max_interval", "retry.jitter", "retry.timeout", "webhook.accept"}},
		{"mixed signs", from(DurationFromProto("d", &durationpb.Duration{Seconds: 1, Nanos: -1})), []string{"d"}},
		{"longest", from(DurationFromProto("d", &durationpb.Duration{Seconds: math.MaxInt64})), []string{"d"}},
		{"no timer", from(TimerFromProto(nil)), []string{"timer"}},
		{"timer without spec", from(TimerFromProto(&Timer{})), []string{"spec"}},
		{"state", from(TimerFromProto(&Timer{Spec: &Spec{}, State: "lost"})), []string{"state"}},
		{"dead without a fire", from(TimerFromProto(&Timer{Spec: &Spec{}, State: "dead"})), []string{"fire_id"}},
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
