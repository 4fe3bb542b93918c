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

// Run checks timeouts until ctx ends: heartbeats, answers, holds, and contexts of deliveries.
func (s *Sink) Run(ctx context.Context) {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.expire(time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// expire ends everything that has timed out by now.
func (s *Sink) expire(now time.Time) {
	var out []report
	silent := false
	s.mu.Lock()
	for name, h := range s.holds {
		if !now.Before(h.until) {
			out = s.release(name, out)
		}
	}
	for timer, m := range s.moved {
		if !now.Before(m.until) {
			delete(s.moved, timer)
		}
	}
	for _, a := range s.apps {
		for i := 0; i < len(a.streams); i++ {
			st := a.streams[i]
			out = s.late(st, now, out)
			if quiet := now.Sub(st.heard); quiet > misses*s.opts.Heartbeat {
				s.counts.Lost++
				silent, out = s.part(st, status.Error(codes.DeadlineExceeded, fmt.Sprintf("nothing was heard of the sidecar for %v: it sends something at least every %v",
					quiet.Round(time.Millisecond), s.opts.Heartbeat)), out)
				i--
			}
		}
	}
	out = s.abandon(out)
	s.mu.Unlock()
	finish(out)
	if silent {
		s.opts.Changed()
	}
}

// late reports the executions that a sidecar has had for too long.
func (s *Sink) late(st *stream, now time.Time, out []report) []report {
	for el := st.hand.Front(); el != nil; el = st.hand.Front() {
		e := el.Value.(*execution)
		if now.Sub(e.sent) < s.opts.Timeout {
			break
		}
		s.counts.Unanswered++
		out = append(out, s.put(e, rouse.Outcome{Verdict: rouse.Failed,
			Detail: rouse.Shorten(fmt.Sprintf("no answer within %v from the sidecar %s", s.opts.Timeout, st.Address), rouse.MaxDetail)}))
	}
	return out
}

// abandon defers all executions of a context that has ended. As after a crash, a sent one may have arrived
// and may come again; it spends no attempt.
func (s *Sink) abandon(out []report) []report {
	over := false
	for _, e := range s.byName { // checking one is enough: an engine has one context
		if !e.borrowed {
			over = e.d.ctx.Err() != nil
			break
		}
	}
	if !over {
		return out
	}
	for _, e := range s.byName {
		for e != nil {
			next := e.namesake
			if e.d.ctx.Err() != nil {
				out = append(out, s.put(e, stopping))
			}
			e = next
		}
	}
	return out
}
