package server

import (
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/timers"
)

// bulk does one thing to all rows that match, and reports how far it has come, until it is done, ctx ends, the server begins
// to stop, or progress fails. What was changed until then stays changed.
func (s *service) bulk(ctx context.Context, r timers.BulkRequest, progress func(timers.BulkProgress) error) error {
	if !s.bulks.TryAcquire(1) {
		return overloaded("bulks")
	}
	defer s.bulks.Release(1)
	ctx, cancel := s.untilDrained(ctx)
	defer cancel()
	return s.ended(s.timers.Bulk(ctx, r, progress))
}

// errFilterMissing is for faces whose filter may be missing: a change of everything is asked for, not left out.
func errFilterMissing() error {
	return rouse.Refuse("filter", "", "is missing", "give one; an empty one is all timers")
}
