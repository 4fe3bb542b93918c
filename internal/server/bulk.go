package server

import (
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/timers"
)

// bulk applies one action to all matching rows and reports progress until it is done, ctx ends, the server
// drains, or progress fails. Changes made until then stay.
func (s *service) bulk(ctx context.Context, r timers.BulkRequest, progress func(timers.BulkProgress) error) error {
	if !s.bulks.TryAcquire(1) {
		return overloaded("bulks")
	}
	defer s.bulks.Release(1)
	ctx, cancel := s.untilDrained(ctx)
	defer cancel()
	return s.ended(s.timers.Bulk(ctx, r, progress))
}

// errFilterMissing refuses a bulk change without a filter: changing everything has to be asked for
// explicitly.
func errFilterMissing() error {
	return rouse.Refuse("filter", "", "is missing", "give one; an empty one is all timers")
}
