package schedule_test

import (
	"errors"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/schedule"
)

// FuzzParse parses arbitrary texts, and walks through the times: errors contain the problem and the cure; the
// next time is later, depends only on the schedule, is monotonic, and takes few steps to find.
func FuzzParse(f *testing.F) {
	for i, expr := range accepted {
		f.Add(expr, []string{"", "Europe/Berlin", "Australia/Lord_Howe"}[i%3], int64(1_800_000_000_000), int64(1_774_742_400_000+i*1_000_000))
	}
	f.Fuzz(func(t *testing.T, expr, zone string, anchor, after int64) {
		s, err := schedule.Parse(expr, schedule.Options{Timezone: zone, Anchor: rouse.Instant(anchor)})
		if err != nil {
			var invalid *rouse.Invalid
			if !errors.As(err, &invalid) || s != nil {
				t.Fatalf("%v with %T: %v", s, err, err)
			}
			for _, p := range invalid.Problems {
				if p.Field != "schedule" && p.Field != "timezone" || p.Wrong == "" || p.Cure == "" {
					t.Fatalf("%+v", p)
				}
			}
			return
		}
		if spec := (rouse.Spec{Schedule: expr}); s.OneShot() == spec.Recurring() {
			t.Fatalf("%q: one shot %v, and Spec.Recurring returns the same", expr, s.OneShot())
		}
		at := rouse.Instant(after)
		for range 4 {
			next, ok := s.Next(at)
			if steps := schedule.Steps(s, at); steps > 1000 {
				t.Fatalf("%q: %d steps", expr, steps)
			}
			if !ok {
				break
			}
			if next <= at || !s.OneShot() && next > rouse.MaxInstant {
				t.Fatalf("%q: Next(%d) = %d", expr, at, next)
			}
			if again, _ := s.Next(next - 1); again != next {
				t.Fatalf("%q: Next(%d) = %d, but Next(%d) = %d", expr, at, next, next-1, again)
			}
			if at >= 0 {
				if mid, ok := s.Next(at + (next-at)/2); !ok || mid < next {
					t.Fatalf("%q: Next falls from %d to %d", expr, next, mid)
				}
			}
			at = next
		}
	})
}
