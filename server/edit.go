package server

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/engine"
)

// coalesce makes one fire of many calls with one name, whatever revision the timer has.
func (s *service) coalesce(ctx context.Context, p engine.Put, c rouse.Coalesce) (engine.PutResult, error) {
	if p.IfRevision != 0 {
		return engine.PutResult{}, rouse.Refuse("expected_revision", strconv.FormatUint(p.IfRevision, 10), "does not go with debounce and throttle", "leave it out: the newest call wins")
	}
	weight, err := s.admit(ctx, []engine.Put{p}, false)
	if err != nil {
		return engine.PutResult{}, err
	}
	defer s.writes.Release(weight)
	res, err := s.timers.Coalesce(ctx, p.Key, p.Spec, c)
	return res, cmp.Or(err, res.Err)
}

// skip gives up the next count occurrences; 0 is one.
func (s *service) skip(ctx context.Context, key rouse.Key, count uint32, reason string) (rouse.Timer, error) {
	if err := cmp.Or(checkKey(key), checkText("reason", reason, rouse.MaxDetail)); err != nil {
		return rouse.Timer{}, err
	}
	return s.timers.Skip(ctx, key, max(1, count), reason)
}

func (s *service) reschedule(ctx context.Context, key rouse.Key, when rouse.Spec, expected uint64) (engine.PutResult, error) {
	if err := cmp.Or(checkKey(key), checkRevision(expected)); err != nil {
		return engine.PutResult{}, err
	}
	res, err := s.timers.Reschedule(ctx, key, when, expected)
	return res, cmp.Or(err, res.Err)
}

func (s *service) backfill(ctx context.Context, key rouse.Key, from, until rouse.Instant, dryRun bool) (engine.Backfilled, error) {
	if err := cmp.Or(checkKey(key), checkRange(from, until)); err != nil {
		return engine.Backfilled{}, err
	}
	if !s.bulks.TryAcquire(1) {
		return engine.Backfilled{}, overloaded("bulk changes")
	}
	defer s.bulks.Release(1)
	return s.timers.Backfill(ctx, key, from, until, dryRun)
}

const (
	maxImport          = 1000 // timers
	maxImportCalendars = 100
)

// checkImport refuses an import as a whole.
func checkImport(timers, calendars int) error {
	if timers > maxImport {
		return rouse.Refuse("timers", strconv.Itoa(timers), "are too many", fmt.Sprintf("send at most %d at a time", maxImport))
	}
	if calendars > maxImportCalendars {
		return rouse.Refuse("calendars", strconv.Itoa(calendars), "are too many", fmt.Sprintf("send at most %d at a time", maxImportCalendars))
	}
	return nil
}

// restore writes calendars, and then timers and rows beside them with their state. Each row has an outcome of its own; a
// calendar that is refused ends the import before any row is written.
func (s *service) restore(ctx context.Context, timers []rouse.Timer, calendars []rouse.Calendar, mode engine.Mode) ([]engine.PutResult, error) {
	puts := make([]engine.Put, 0, len(timers))
	rows := make([]rouse.Timer, 0, len(timers))
	results := make([]engine.PutResult, len(timers))
	for i := range timers {
		if results[i].Err = checkImported(&timers[i]); results[i].Err == nil {
			puts, rows = append(puts, engine.Put{Spec: timers[i].Spec}), append(rows, timers[i])
		}
	}
	for i := range calendars {
		if err := s.checkCalendar(&calendars[i]); err != nil {
			return nil, rouse.Under(at("calendars", i), err)
		}
	}
	for i := range calendars {
		if _, _, err := s.putCalendar(ctx, calendars[i]); err != nil {
			return nil, rouse.Under(at("calendars", i), err)
		}
	}
	if len(rows) == 0 {
		return results, nil
	}
	weight, err := s.admit(ctx, puts, false)
	if err != nil {
		return nil, err
	}
	defer s.writes.Release(weight)
	written, err := s.timers.Import(ctx, rows, mode)
	if err != nil {
		return nil, err
	}
	for i, next := 0, 0; i < len(results); i++ {
		if results[i].Err == nil {
			results[i] = written[next]
			next++
		}
	}
	return results, nil
}

// checkImported refuses a row that no list can have returned, in what the checks of new timers do not look at.
func checkImported(t *rouse.Timer) error {
	if err := cmp.Or(checkKey(t.Key), checkText("pause_reason", t.Reason, rouse.MaxDetail), checkText("last_error", t.LastError, 4*rouse.MaxDetail)); err != nil {
		return err
	}
	times := append([]rouse.Instant{t.Created, t.Updated, t.Anchor, t.Until, t.Began}, t.Runs...)
	for _, i := range [...]rouse.Instant{t.Due, t.Visible} {
		if i != rouse.Never {
			times = append(times, i)
		}
	}
	for _, a := range t.Failures {
		times = append(times, a.Sent)
		if err := checkText("failures", a.Detail, rouse.MaxFailureDetail); err != nil {
			return err
		}
	}
	for _, i := range times {
		if err := checkInstant("timer", i); err != nil {
			return err
		}
	}
	switch {
	case t.Manual && len(t.Runs) == 0:
		return rouse.Refuse("runs", "", "are missing, as the occurrence in progress is one", "send what a list returned")
	case len(t.Runs) > rouse.MaxRuns:
		return rouse.Refuse("runs", strconv.Itoa(len(t.Runs)), "are too many", fmt.Sprintf("give at most %d", rouse.MaxRuns))
	case t.Skips > rouse.MaxSkips:
		return rouse.Refuse("skips", strconv.FormatUint(uint64(t.Skips), 10), "are too many", fmt.Sprintf("give at most %d", rouse.MaxSkips))
	case len(t.Failures) > rouse.MaxFailures:
		return rouse.Refuse("failures", strconv.Itoa(len(t.Failures)), "are too many", fmt.Sprintf("give at most %d", rouse.MaxFailures))
	}
	return nil
}
