package scheduler

import (
	"context"
	"time"
)

// A bucket moves to another member when nothing of it is in progress. A trigger that no sidecar takes or
// answers would block that for ever, so it is given back: waiting triggers at once, and sent ones after
// answerWithin.
const (
	handoverEvery = time.Second
	answerWithin  = 10 * time.Second
)

// handOver gives back the triggers that keep buckets from moving, until ctx ends.
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
