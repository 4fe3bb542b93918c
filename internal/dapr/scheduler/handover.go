package scheduler

import (
	"context"
	"time"
)

// A bucket moves to another member when nothing of it is in progress any more. What nobody takes or answers would be in
// progress for ever, so it is given back: what waits at once, and what was sent when it has been out for answerWithin.
const (
	handoverEvery = time.Second
	answerWithin  = 10 * time.Second
)

// handOver gives back what keeps buckets from moving, until ctx ends.
func (s *Server) handOver(ctx context.Context) {
	tick := time.NewTicker(handoverEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			if leaving := s.opts.Timers.Leaving(); leaving != nil {
				s.opts.Watch.Release(leaving, now.Add(-answerWithin))
			}
		case <-ctx.Done():
			return
		}
	}
}
