package claim

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/rousehq/rouse"
)

var _ rouse.Strategy = (*Lease)(nil)

func TestLeaseGrantsEveryBucketToBeHeld(t *testing.T) {
	for hold, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, 0: 30 * time.Second} {
		g, done, err := NewLease(3, hold).Grant(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		done(true)
		if !slices.Equal(g.Buckets, []uint32{0, 1, 2}) || g.Hold != want || !g.Until.IsZero() {
			t.Errorf("granted %+v", g)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := NewLease(1, 0).Grant(ctx); err == nil {
		t.Error("a grant after the context ended")
	}
}
