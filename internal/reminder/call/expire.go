package call

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
)

// expireEvery is the interval at which timeouts are checked.
const expireEvery = 200 * time.Millisecond

// Run checks timeouts until ctx ends: heartbeats, answers and holds.
func (s *Sink) Run(ctx context.Context) {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.hub.Expire()
			s.expireSilent(time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// expireSilent ends holds and silent streams that have timed out by now.
func (s *Sink) expireSilent(now time.Time) {
	s.hub.Lock()
	defer s.hub.Unlock()
	for name, h := range s.holds {
		if !now.Before(h.until) {
			s.releaseHold(name)
		}
	}
	for timer, m := range s.moved {
		if !now.Before(m.until) {
			delete(s.moved, timer)
		}
	}
	for st := range s.hub.Subs() {
		if quiet := now.Sub(st.Of.heard); quiet > misses*s.opts.Heartbeat {
			s.counts.Lost++
			s.hub.Part(st, status.Error(codes.DeadlineExceeded,
				fmt.Sprintf("nothing was heard of the sidecar for %v: it sends something at least every %v",
					quiet.Round(time.Millisecond), s.opts.Heartbeat)))
		}
	}
}

// timeoutOutcome returns the outcome of an execution that a sidecar has had for too long.
func (s *Sink) timeoutOutcome(e *execution) rouse.Outcome {
	s.counts.Unanswered++
	return rouse.Outcome{Verdict: rouse.Failed,
		Detail: rouse.Shorten(fmt.Sprintf("no answer within %v from the sidecar %s", s.opts.Timeout, e.Sub().Of.Address),
			rouse.MaxDetail)}
}
