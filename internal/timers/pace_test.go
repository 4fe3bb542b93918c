package timers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestPace: changes begin at the rate that was asked for, neither faster nor slower, and end with ctx.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		perSecond float64
		changes   int
		want      time.Duration // until the last portion begins
	}{{0, 1000, 0}, {10, 1, 0}, {10, 31, 3 * time.Second}, {0.5, 4, 6 * time.Second}, {1000, 5000, 4900 * time.Millisecond}, {25, 50, 1920 * time.Millisecond}} {
		synctest.Test(t, func(t *testing.T) {
			p, began := pace{perSecond: c.perSecond}, time.Now()
			for left := c.changes; left > 0; {
				n, err := p.take(t.Context(), left)
				if err != nil || n < 1 || n > left {
					t.Fatal(n, err)
				}
				left -= n
			}
			if took := time.Since(began); took != c.want {
				t.Errorf("%d changes at %v/s took %v; want %v", c.changes, c.perSecond, took, c.want)
			}
			if c.perSecond == 0 {
				return
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := p.take(ctx, 1); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}
