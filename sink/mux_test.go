package sink_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink"
)

// fake is a sink that counts, with outcomes that the test sets.
type fake struct {
	name    string
	sent    int
	outcome func(i int) rouse.Outcome
}

func (f *fake) Check(*rouse.Spec) error { return nil }

func (f *fake) Lane(_ string, spec *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: f.name + spec.Target, Limit: 64, Batch: 8}
}

func (f *fake) Deliver(_ context.Context, fires []rouse.Fire, settle func(int, rouse.Outcome)) {
	f.sent++
	for i := range fires {
		settle(i, f.outcome(i))
	}
}

func done(int) rouse.Outcome { return rouse.Outcome{Verdict: rouse.Done} }

func fires(n int, target string) []rouse.Fire {
	out := make([]rouse.Fire, n)
	for i := range out {
		out[i] = rouse.Fire{ID: rouse.FireID("ns", target, 1, rouse.Instant(i+1), false), Namespace: "ns", Spec: &rouse.Spec{Target: target}}
	}
	return out
}

// deliver returns the outcomes of the fires, each of which must be reported once.
func deliver(t *testing.T, ctx context.Context, s rouse.Sink, fires []rouse.Fire) []rouse.Outcome {
	t.Helper()
	out := make([]rouse.Outcome, len(fires))
	s.Deliver(ctx, fires, func(i int, o rouse.Outcome) {
		if out[i].Verdict != 0 {
			t.Errorf("fire %d was reported twice", i)
		}
		out[i] = o
	})
	for i, o := range out {
		if o.Verdict == 0 {
			t.Errorf("fire %d was not reported", i)
		}
	}
	return out
}

// TestChecksAreValidatedOnly: the sink of checks takes their target, and sends nothing.
func TestChecksAreValidatedOnly(t *testing.T) {
	m := sink.Mux{"check": sink.Checks{}}
	if err := m.Check(&rouse.Spec{Target: rouse.CheckTarget}); err != nil {
		t.Error(err)
	}
	if err := m.Check(&rouse.Spec{Target: "check:x"}); err == nil {
		t.Error("another target was taken")
	}
	if o := deliver(t, t.Context(), m, fires(1, rouse.CheckTarget))[0]; o.Verdict != rouse.Rejected {
		t.Errorf("%+v", o)
	}
}

func TestMuxRoutes(t *testing.T) {
	a, b := &fake{name: "a ", outcome: done}, &fake{name: "b ", outcome: done}
	m := sink.Mux{"https": a, "stream": b}
	if err := m.Check(&rouse.Spec{Target: "stream:x"}); err != nil {
		t.Error(err)
	}
	if got := m.Lane("ns", fires(1, "stream:x")[0].Spec); got != (rouse.Lane{Name: "b stream:x", Limit: 64, Batch: 8}) {
		t.Errorf("the lane was changed: %+v", got)
	}
	deliver(t, t.Context(), m, fires(3, "https://example.com"))
	if a.sent != 1 || b.sent != 0 {
		t.Errorf("sent %d and %d", a.sent, b.sent)
	}
}

func TestMuxRefuses(t *testing.T) {
	m := sink.Mux{"https": &fake{}, "func": &fake{}, "stream": &fake{}}
	for _, target := range []string{"", "gopher://x", "HTTPS://example.com", "example.com/hook", ":x", "1a:x", "ht tps://x", "https"} {
		err := m.Check(&rouse.Spec{Target: target})
		var inv *rouse.Invalid
		if !errors.As(err, &inv) || inv.Problems[0].Field != "target" || !strings.Contains(err.Error(), "func:, https:, stream:") {
			t.Errorf("%q: %v", target, err)
		}
	}
	if err := (sink.Mux{}).Check(&rouse.Spec{Target: "https://x"}); err == nil {
		t.Error("no sinks, no error")
	}
}

// Timers outlive the configuration that they were created under.
func TestMuxWithoutTheSink(t *testing.T) {
	m := sink.Mux{"https": &fake{outcome: done}}
	if l := m.Lane("ns", &rouse.Spec{Target: "func:x"}); l.Name == "" || l.Limit < 1 || l.Batch < 1 {
		t.Errorf("%+v", l)
	}
	for _, o := range deliver(t, t.Context(), m, fires(3, "func:x")) {
		if o.Verdict != rouse.Failed || !strings.Contains(o.Detail, "func:") {
			t.Errorf("%+v", o)
		}
	}
}
