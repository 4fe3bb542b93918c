package rouse

import (
	"testing"
	"time"
)

// TestMergeAfterTheClockWasAhead: the last call was made by a clock that was hours ahead and is right again.
// No wait is longer than the one that was asked for.
func TestMergeAfterTheClockWasAhead(t *testing.T) {
	now := At(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC))
	ahead := now.Add(8 * time.Hour)
	key := Key{Namespace: "n", Name: "a"}
	for name, c := range map[string]Coalesce{
		"throttle": {Every: time.Minute}, "debounce": {Quiet: time.Minute}, "debounce with a bound": {Quiet: time.Minute, MaxWait: 3 * time.Minute},
	} {
		first := c.Merge(key, Spec{Target: "test:a"}, nil, false, ahead)
		second := c.Merge(key, Spec{Target: "test:a"}, &first, c.Every != 0, ahead.Add(time.Second))
		for what, old := range map[string]Timer{"the first": first, "the second": second} {
			for _, busy := range []bool{false, true} {
				got := c.Merge(key, Spec{Target: "test:a"}, &old, busy, now)
				if wait := got.Due.Sub(now); wait < 0 || wait > time.Minute || got.Visible != got.Due || got.Anchor > got.Due {
					t.Errorf("%s after %s, busy %v: due in %v, visible in %v, anchor in %v", name, what, busy, wait, got.Visible.Sub(now), got.Anchor.Sub(now))
				}
			}
		}
	}
}
