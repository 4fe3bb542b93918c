package call

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
)

// sweepEvery is how often clocks are looked at.
const sweepEvery = 200 * time.Millisecond

// Run looks at clocks until ctx ends: at heartbeats, answers, holds, and whether who delivered still wants to know.
func (s *Sink) Run(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.sweep(time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// sweep ends what is over at now.
func (s *Sink) sweep(now time.Time) {
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

// late reports what a sidecar has had for too long.
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

// abandon gives up what was delivered for a context that has ended. As after a crash, what was sent may have arrived and may come again; no
// attempt is spent on the service's own end.
func (s *Sink) abandon(out []report) []report {
	over := false
	for _, e := range s.byName { // one is enough to tell: an engine has one context
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
