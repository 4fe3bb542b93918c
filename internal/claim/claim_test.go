package claim

import (
	"context"
	"slices"
	"testing"

	"github.com/rousehq/rouse"
)

var _ rouse.Strategy = (*Sole)(nil)

func TestSoleOwnsEveryBucketForEver(t *testing.T) {
	g, done, err := NewSole(3).Grant(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer done(false)
	if !slices.Equal(g.Buckets, []uint32{0, 1, 2}) || g.Hold != 0 || !g.Until.IsZero() {
		t.Errorf("granted %+v", g)
	}
}

func TestSoleObeysItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := NewSole(1).Grant(ctx); err == nil {
		t.Error("a grant after the context ended")
	}
}
