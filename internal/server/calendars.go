package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// maxCalendar bounds the bytes of a calendar in iCalendar or JSON.
const maxCalendar = 4 << 20

// parseCalendar reads an iCalendar file.
func (s *service) parseCalendar(icalendar []byte) (days []rouse.Day, warnings []string, err error) {
	switch {
	case s.opts.ParseCalendar == nil:
		return nil, nil, fmt.Errorf("this server reads no iCalendar: %w", rousev1.ErrUnimplemented)
	case len(icalendar) > maxCalendar:
		return nil, nil, rouse.Refuse("icalendar", "", fmt.Sprintf("has %d bytes", len(icalendar)), fmt.Sprintf("use at most %d", maxCalendar))
	}
	if !s.reads.TryAcquire(1) {
		return nil, nil, overloaded("calendars")
	}
	defer s.reads.Release(1)
	if days, warnings, err = s.opts.ParseCalendar(icalendar); err != nil {
		if errors.As(err, new(*rouse.Invalid)) {
			return nil, nil, err
		}
		return nil, nil, rouse.Refuse("icalendar", "", "cannot be read: "+rouse.Shorten(err.Error(), rouse.MaxDetail), "send an iCalendar file, as RFC 5545 has it")
	}
	days = slices.Clone(days)
	slices.SortStableFunc(days, func(a, b rouse.Day) int { return cmp.Compare(a.Date, b.Date) })
	return slices.CompactFunc(days, func(a, b rouse.Day) bool { return a.Date == b.Date }), warnings, nil // a day may have several events
}

// putCalendar stores a calendar and returns it with the number of timers whose due time moved.
func (s *service) putCalendar(ctx context.Context, c rouse.Calendar) (saved rouse.Calendar, moved uint64, err error) {
	if !s.bulks.TryAcquire(1) { // it may move many timers
		return saved, 0, overloaded("bulks")
	}
	defer s.bulks.Release(1)
	return s.timers.PutCalendar(ctx, c)
}

// calendars returns all calendars of a namespace, without their days.
func (s *service) calendars(ctx context.Context, namespace string) ([]rouse.Calendar, error) {
	if !s.reads.TryAcquire(1) {
		return nil, overloaded("reads")
	}
	defer s.reads.Release(1)
	list, err := s.timers.Calendars(ctx, namespace)
	for i := range list {
		list[i].Days = nil
	}
	return list, err
}
