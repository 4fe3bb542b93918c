package server

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/engine"
)

// preview returns the next due times of a schedule. The key needs no name.
func (s *service) preview(ctx context.Context, key rouse.Key, spec rouse.Spec, from rouse.Instant, count uint32) (rouse.Preview, error) {
	switch {
	case count == 0:
		count = 5
	case count > 1000:
		return rouse.Preview{}, rouse.Refuse("count", strconv.FormatUint(uint64(count), 10), "is too large", "give 1 to 1000")
	}
	if err := cmp.Or(rouse.CheckNamespace(key.Namespace), checkInstant("from", from)); err != nil {
		return rouse.Preview{}, err
	}
	if key.Name != "" {
		if err := rouse.CheckName(key.Name); err != nil {
			return rouse.Preview{}, err
		}
	}
	if !s.reads.TryAcquire(1) {
		return rouse.Preview{}, overloaded("lists are being read")
	}
	defer s.reads.Release(1)
	return s.timers.Preview(ctx, key, spec, from, int(count))
}

// explain says why a timer did or did not fire.
func (s *service) explain(ctx context.Context, key rouse.Key, at rouse.Instant) (engine.Explanation, error) {
	if err := cmp.Or(checkKey(key), checkInstant("at", at)); err != nil {
		return engine.Explanation{}, err
	}
	if !s.reads.TryAcquire(1) {
		return engine.Explanation{}, overloaded("lists are being read")
	}
	defer s.reads.Release(1)
	return s.timers.Explain(ctx, key, at)
}

const (
	defaultSimulated = 1000
	maxSimulated     = 10_000
)

// simulation returns what would fire in a range of time that begins now if it is not said; a limit of 0 is the default.
func (s *service) simulation(ctx context.Context, q rouse.Query, from, until rouse.Instant, limit uint32) (engine.Simulated, error) {
	if limit > maxSimulated {
		return engine.Simulated{}, rouse.Refuse("limit", strconv.FormatUint(uint64(limit), 10), "is too large", fmt.Sprintf("give 1 to %d", maxSimulated))
	}
	if from == 0 {
		from = s.timers.Now()
	}
	if err := cmp.Or(checkQuery(&q), checkRange(from, until)); err != nil {
		return engine.Simulated{}, err
	}
	if !s.simulate.TryAcquire(1) {
		return engine.Simulated{}, overloaded("simulations")
	}
	defer s.simulate.Release(1)
	return s.timers.Simulate(ctx, q, from, until, int(cmp.Or(limit, defaultSimulated)))
}

// nextFireID returns the fire id that an occurrence of a timer which is there will have.
func nextFireID(t *rouse.Timer, due rouse.Instant) string {
	if t == nil {
		return ""
	}
	return rouse.FireID(t.Key.Namespace, t.Key.Name, t.Generation, due, false)
}

// zoneName is the name of a schedule's zone; nil is UTC.
func zoneName(zone *time.Location) string {
	if zone == nil {
		zone = time.UTC
	}
	return zone.String()
}
