package client

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Clock is the current time of a service.
type Clock struct {
	Now     rouse.Instant
	Ahead   time.Duration // of the real clock
	Virtual bool          // it can be moved
	Fired   uint64        // of an Advance: fires while it moved
}

// Advance is where a clock is moved: By or To, not both.
type Advance struct {
	By   time.Duration
	To   rouse.Instant
	Jump bool // at once, as if the service had been away; otherwise from due time to due time, waiting for the fires
}

// Clock returns the service's present time. It is retried.
func (c *Client) Clock(ctx context.Context) (Clock, error) {
	return clockFromProto(callIdempotent(ctx, c.opts.Patience,
		func(bool) (*rousev1.Clock, error) { return c.admin.GetClock(ctx, &rousev1.GetClockRequest{}) }))
}

// AdvanceClock moves the clock of a development server; others refuse it. It returns when everything that
// came due on the way has ended, which takes as long as it takes. It is not retried.
func (c *Client) AdvanceClock(ctx context.Context, a Advance) (Clock, error) {
	request := &rousev1.AdvanceClockRequest{By: rousev1.DurationToProto(a.By), ToMs: int64(a.To), Jump: a.Jump}
	return clockFromProto(onlyOnce(ctx, c, func(ctx context.Context) (*rousev1.Clock,
		error) {
		return c.admin.AdvanceClock(ctx, request)
	}))
}

func clockFromProto(p *rousev1.Clock, err error) (Clock, error) {
	return Clock{rouse.Instant(p.GetNowMs()), p.GetAhead().AsDuration(), p.GetVirtual(), p.GetFired()}, err
}
