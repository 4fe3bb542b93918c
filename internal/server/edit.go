package server

import (
	"cmp"
	"context"
	"strconv"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/timers"
)

// coalesce debounces or throttles calls with one name into one fire, regardless of the timer's revision.
func (s *service) coalesce(ctx context.Context, p timers.Put, c rouse.Coalesce) (timers.PutResult, error) {
	if p.IfRevision != 0 {
		return timers.PutResult{}, rouse.Refuse("expected_revision", strconv.FormatUint(p.IfRevision, 10), "does not go with debounce and throttle", "leave it out: the newest call wins")
	}
	weight, err := s.admit(ctx, []timers.Put{p}, false)
	if err != nil {
		return timers.PutResult{}, err
	}
	defer s.writes.Release(weight)
	res, err := s.timers.Coalesce(ctx, p.Key, p.Spec, c)
	return res, cmp.Or(err, res.Err)
}

// skip skips the next count occurrences; 0 means 1.
func (s *service) skip(ctx context.Context, key rouse.Key, count uint32, reason string) (rouse.Timer, error) {
	return s.timers.Skip(ctx, key, max(1, count), reason)
}

func (s *service) reschedule(ctx context.Context, key rouse.Key, when rouse.Spec, expected uint64) (timers.PutResult, error) {
	res, err := s.timers.Reschedule(ctx, key, when, expected)
	return res, cmp.Or(err, res.Err)
}

func (s *service) backfill(ctx context.Context, key rouse.Key, from, until rouse.Instant, dryRun bool) (timers.Backfilled, error) {
	if !s.bulks.TryAcquire(1) {
		return timers.Backfilled{}, overloaded("bulks")
	}
	defer s.bulks.Release(1)
	return s.timers.Backfill(ctx, key, from, until, dryRun)
}

const (
	maxImport          = 1000 // timers
	maxImportCalendars = 100
)

// checkImport refuses imports that are too large.
func checkImport(timers, calendars int) error {
	if timers > maxImport {
		return tooMany("timers", timers, maxImport)
	}
	if calendars > maxImportCalendars {
		return tooMany("calendars", calendars, maxImportCalendars)
	}
	return nil
}

// restore writes calendars, then timers with their state and the rows that belong to them. Each row has its
// own outcome. If a calendar is refused, the import ends before any row is written.
func (s *service) restore(ctx context.Context, rows []rouse.Timer, calendars []rouse.Calendar, mode timers.Mode) ([]timers.PutResult, error) {
	puts := make([]timers.Put, len(rows))
	for i := range rows {
		puts[i].Spec = rows[i].Spec
	}
	for i := range calendars {
		if _, err := calendars[i].Ordered(); err != nil {
			return nil, rouse.Under(at("calendars", i), err)
		}
	}
	for i := range calendars {
		if _, _, err := s.putCalendar(ctx, calendars[i]); err != nil {
			return nil, rouse.Under(at("calendars", i), err)
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	weight, err := s.admit(ctx, puts, false)
	if err != nil {
		return nil, err
	}
	defer s.writes.Release(weight)
	return s.timers.Import(ctx, rows, mode)
}
