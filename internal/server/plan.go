package server

import (
	"cmp"
	"context"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/timers"
)

const defaultPreview = 5

// preview returns the next due times of a schedule. The key needs no name.
func (s *service) preview(ctx context.Context, key rouse.Key, spec rouse.Spec, from rouse.Instant, count uint32) (rouse.Preview, error) {
	if !s.reads.TryAcquire(1) {
		return rouse.Preview{}, overloaded("reads")
	}
	defer s.reads.Release(1)
	return s.timers.Preview(ctx, key, spec, from, int(cmp.Or(count, defaultPreview)))
}

// explain returns why a timer fired or did not fire.
func (s *service) explain(ctx context.Context, key rouse.Key, at rouse.Instant) (timers.Explanation, error) {
	if !s.reads.TryAcquire(1) {
		return timers.Explanation{}, overloaded("reads")
	}
	defer s.reads.Release(1)
	return s.timers.Explain(ctx, key, at)
}

const defaultSimulated = 1000

// simulation returns what would fire in a range of time. It begins now by default; a limit of 0 is the
// default.
func (s *service) simulation(ctx context.Context, q rouse.Query, from, until rouse.Instant, limit uint32) (timers.Simulated, error) {
	if !s.simulate.TryAcquire(1) {
		return timers.Simulated{}, overloaded("simulations")
	}
	defer s.simulate.Release(1)
	return s.timers.Simulate(ctx, q, from, until, int(cmp.Or(limit, defaultSimulated)))
}

// nextFireID returns the fire id that an occurrence of an existing timer will have.
func nextFireID(t *rouse.Timer, due rouse.Instant) string {
	if t == nil {
		return ""
	}
	return rouse.FireID(t.Key.Namespace, t.Key.Name, t.Generation, due, false)
}

// zoneName is the name of a schedule's time zone; nil is UTC.
func zoneName(zone *time.Location) string {
	if zone == nil {
		zone = time.UTC
	}
	return zone.String()
}
