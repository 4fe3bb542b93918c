package sink_test

import (
	"context"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink"
)

// succeeding is a sink that does nothing, so that what remains is the breaker.
type succeeding struct{}

func (succeeding) Check(*rouse.Spec) error { return nil }

func (succeeding) Lane(_ string, spec *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: spec.Target, Limit: 64, Batch: 1}
}

func (succeeding) Deliver(_ context.Context, fires []rouse.Fire, settle func(int, rouse.Outcome)) {
	for i := range fires {
		o := rouse.Outcome{Verdict: rouse.Done, Code: 200}
		if fires[i].Spec.Target == "https://failing.example/" {
			o = rouse.Outcome{Verdict: rouse.Failed, Code: 500}
		}
		settle(i, o)
	}
}

// BenchmarkBreaker measures what the breaker adds to a delivery that succeeds: while no circuit is tracked,
// and while that of another target is.
func BenchmarkBreaker(b *testing.B) {
	for name, failing := range map[string]int{"none-tracked": 0, "another-tracked": 1} {
		b.Run(name, func(b *testing.B) {
			breaker := sink.NewBreaker(succeeding{}, sink.BreakerOptions{})
			ctx, settle := context.Background(), func(int, rouse.Outcome) {}
			for _, f := range fires(failing, "https://failing.example/") {
				breaker.Deliver(ctx, []rouse.Fire{f}, settle)
			}
			one := fires(1, "https://example.com/hook")
			b.ReportAllocs()
			for b.Loop() {
				breaker.Deliver(ctx, one, settle)
			}
		})
	}
}
