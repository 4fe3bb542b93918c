package client

import (
	"context"
	"errors"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// SavedCalendar is the result of writing a calendar.
type SavedCalendar struct {
	Revision uint64
	Days     uint64
	Moved    uint64 // timers that are due at another time now
	// the id of the job that moves the rest of them, or could not move some (its Failed); empty: all have
	// moved
	Job      string
	Warnings []string // about an iCalendar file, such as an event that repeats beyond the last date kept
}

// PutCalendar creates or replaces a calendar, whose days may be in any order, and moves the timers that use
// it to their new due times. Those that have not moved after 10 s move later (Job); those that could not be
// moved are failures of the job. An empty namespace is "default". It is retried; Moved then counts the timers
// that the last try moved.
func (c *Client) PutCalendar(ctx context.Context, namespace, name string, days []rouse.Day) (SavedCalendar, error) {
	return putCalendar(ctx, c, &rousev1.PutCalendarRequest{Namespace: namespace, Name: name,
		Days: rousev1.DaysToProto(days)})
}

// PutICalendar is PutCalendar with the days that the events of an iCalendar file (RFC 5545) touch.
func (c *Client) PutICalendar(ctx context.Context, namespace, name string, file []byte) (SavedCalendar, error) {
	if len(file) == 0 {
		return SavedCalendar{}, rouse.Refuse("icalendar", "", "is empty", "give the content of an iCalendar file")
	}
	return putCalendar(ctx, c, &rousev1.PutCalendarRequest{Namespace: namespace, Name: name, Icalendar: file})
}

func putCalendar(ctx context.Context, c *Client, request *rousev1.PutCalendarRequest) (SavedCalendar, error) {
	p, err := callIdempotent(ctx, c.opts.Patience, func(bool) (*rousev1.PutCalendarResponse,
		error) {
		return c.calendars.PutCalendar(ctx, request)
	})
	return SavedCalendar{p.GetCalendar().GetRevision(), p.GetDays(), p.GetMoved(), p.GetJob(), p.GetWarnings()}, err
}

// Calendar returns a calendar with its days, or rouse.ErrNotFound. It is retried.
func (c *Client) Calendar(ctx context.Context, namespace, name string) (rouse.Calendar, error) {
	request := &rousev1.GetCalendarRequest{Namespace: namespace, Name: name}
	p, err := callIdempotent(ctx, c.opts.Patience, func(bool) (*rousev1.Calendar,
		error) {
		return c.calendars.GetCalendar(ctx, request)
	})
	if err != nil {
		return rouse.Calendar{}, err
	}
	return rousev1.CalendarFromProto(p)
}

// Calendars returns the calendars of a namespace, without their days. It is retried.
func (c *Client) Calendars(ctx context.Context, namespace string) ([]rouse.Calendar, error) {
	request := &rousev1.ListCalendarsRequest{Namespace: namespace}
	p, err := callIdempotent(ctx, c.opts.Patience, func(bool) (*rousev1.ListCalendarsResponse,
		error) {
		return c.calendars.ListCalendars(ctx, request)
	})
	var out []rouse.Calendar
	for _, p := range p.GetCalendars() {
		calendar, err := rousev1.CalendarFromProto(p)
		if err != nil {
			return nil, err
		}
		out = append(out, calendar)
	}
	return out, err
}

// DeleteCalendar deletes a calendar. One that a timer uses is refused with rouse.ErrConflict. It is retried:
// a retry that finds no calendar assumes that an earlier try succeeded.
func (c *Client) DeleteCalendar(ctx context.Context, namespace, name string) error {
	request := &rousev1.DeleteCalendarRequest{Namespace: namespace, Name: name}
	_, err := callIdempotent(ctx, c.opts.Patience, func(unsure bool) (*rousev1.DeleteCalendarResponse, error) {
		response, err := c.calendars.DeleteCalendar(ctx, request)
		if unsure && errors.Is(errorFromGRPC(err), rouse.ErrNotFound) {
			return &rousev1.DeleteCalendarResponse{}, nil
		}
		return response, err
	})
	return err
}
