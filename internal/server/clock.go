package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/timers"
)

// Clock is the clock of a development server.
type Clock interface {
	// Now returns the current time of this clock.
	Now() rouse.Instant
	// Ahead returns how far it is ahead of the real clock.
	Ahead() time.Duration
	// Advance moves the clock forward to a time. It goes from due time to due time and waits for the fires;
	// with jump it moves at once. It returns how many occurrences were fired.
	Advance(ctx context.Context, to rouse.Instant, jump bool) (fired uint64, err error)
}

// clockState is the state of the clock that the API reports.
type clockState struct {
	now     rouse.Instant
	ahead   time.Duration
	virtual bool
	fired   uint64
}

func (s *service) readClock() clockState {
	if c := s.opts.Clock; c != nil {
		return clockState{now: c.Now(), ahead: c.Ahead(), virtual: true}
	}
	return clockState{now: s.timers.Now()}
}

// moved is the last move of the clock, for its repetition: the clock, too, is this process' own.
type moved struct {
	tag   access.Tag
	asks  string
	state clockState
}

// moveClock moves the clock by a duration or to a time; exactly one of them is set.
func (s *service) moveClock(ctx context.Context, by time.Duration, to rouse.Instant, jump bool) (clockState, error) {
	c := s.opts.Clock
	switch {
	case c == nil:
		return clockState{}, fmt.Errorf("only a development server's clock can be moved: %w", rousev1.ErrFailedPrecondition)
	case (by == 0) == (to == 0):
		return clockState{}, rouse.Refuse("by", "", "and to are both given, or neither is",
			"give how far the clock moves, or to what time")
	}
	if err := rouse.CheckInstant("to", to); err != nil {
		return clockState{}, err
	}
	if !s.moving.TryLock() {
		return clockState{}, fmt.Errorf("the clock is being moved: %w", rousev1.ErrBusy)
	}
	defer s.moving.Unlock()
	tag, asked := access.TagOf(ctx, "")
	asks := fmt.Sprint(by, to, jump)
	if last := &s.moved; asked && last.tag == tag {
		if last.asks != asks {
			return clockState{}, timers.ErrOtherRequest
		}
		audit.Repeated(ctx)
		return last.state, nil
	}
	now := c.Now()
	if by != 0 {
		if to = now.Add(by); to > rouse.MaxInstant {
			return clockState{}, rouse.Refuse("by", by.String(), "leads beyond the year 9998", "give less")
		}
	}
	if to <= now {
		return clockState{}, rouse.Refuse("to", to.String(), "is not after what the clock shows, "+now.String(),
			"give a time to come: a clock does not go back")
	}
	ctx, cancel := s.untilDrained(ctx)
	defer cancel()
	fired, err := c.Advance(ctx, to, jump)
	if err != nil {
		return clockState{}, s.drainError(err)
	}
	state := s.readClock()
	state.fired = fired
	s.moved = moved{tag, asks, state}
	return state, nil
}

func (f *adminServer) GetClock(context.Context, *rousev1.GetClockRequest) (*rousev1.Clock, error) {
	return clockToProto(f.readClock()), nil
}

func (f *adminServer) AdvanceClock(ctx context.Context, r *rousev1.AdvanceClockRequest) (*rousev1.Clock, error) {
	by, err := rousev1.DurationFromProto("by", r.By)
	if err != nil {
		return nil, err
	}
	state, err := f.moveClock(ctx, by, rouse.Instant(r.ToMs), r.Jump)
	if err != nil {
		return nil, err
	}
	return clockToProto(state), nil
}

func clockToProto(c clockState) *rousev1.Clock {
	return &rousev1.Clock{NowMs: int64(c.now), Ahead: rousev1.DurationToProto(c.ahead), Virtual: c.virtual, Fired: c.fired}
}

// advanceClock takes as long as the fires that it causes.
func advanceClock(f *httpHandler, c *call) error {
	var body api.AdvanceClock
	if err := c.decodeRequiredBody(&body); err != nil {
		return err
	}
	state, err := f.moveClock(c.r.Context(), time.Duration(body.By), body.To.Instant(), body.Jump)
	c.extendWriteDeadline()
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, clockToJSON(clockToProto(state)))
}
