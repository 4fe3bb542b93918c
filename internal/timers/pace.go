package timers

import (
	"context"
	"fmt"
	"time"

	"github.com/rousehq/rouse"
)

// Bounds of the rates of redrives and backfills, per second.
const minRate, maxRate = 0.01, 10_000

// checkRate refuses a rate out of bounds; 0 is none.
func checkRate(perSecond float64) error {
	if perSecond == 0 || perSecond >= minRate && perSecond <= maxRate {
		return nil
	}
	return rouse.Refuse("per_second", fmt.Sprint(perSecond), "is out of bounds", fmt.Sprintf("give %v to %d, or leave it out", minRate, maxRate))
}

// pace lets changes begin at a rate, in portions of a tenth of a second or of one change.
type pace struct {
	perSecond float64   // 0: there is no limit
	next      time.Time // when the next portion may begin
}

// take waits until the next portion of n changes may begin, and returns its size.
func (p *pace) take(ctx context.Context, n int) (int, error) {
	if p.perSecond == 0 {
		return n, nil
	}
	n = min(n, max(1, int(p.perSecond/10)))
	now := time.Now()
	if wait := p.next.Sub(now); wait > 0 {
		turn := time.NewTimer(wait)
		defer turn.Stop()
		select {
		case <-turn.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		now = p.next
	}
	p.next = now.Add(time.Duration(float64(n) / p.perSecond * float64(time.Second)))
	return n, nil
}
