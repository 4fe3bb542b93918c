package rousetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest"
)

// A month of a daily timer takes milliseconds: Advance moves the clock from due time to due time, and waits
// for what fires.
func Example() {
	TestDaily := func(t *testing.T) {
		s := rousetest.NewServer(t, rousetest.At(rousetest.Time("2027-01-01T00:00:00Z")))
		s.Handle("report", func(context.Context, rouse.Fire) error { return nil })
		s.Create("daily", rouse.Spec{Schedule: "0 9 * * *", Target: "func:report"})
		if fired := s.Advance(30 * 24 * time.Hour); fired != 30 {
			t.Errorf("%d fires in 30 days", fired)
		}
		s.Check()
	}
	_ = TestDaily
}
