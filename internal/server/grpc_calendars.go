package server

import (
	"context"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// calendarsServer implements rouse.v1.Calendars.
type calendarsServer struct {
	rousev1.UnimplementedCalendarsServer
	*service
}

func (f *calendarsServer) PutCalendar(ctx context.Context, r *rousev1.PutCalendarRequest) (*rousev1.PutCalendarResponse, error) {
	key := keyFrom(r.Namespace, r.Name, "")
	c := rouse.Calendar{Namespace: key.Namespace, Name: key.Name}
	out := &rousev1.PutCalendarResponse{}
	var err error
	switch {
	case len(r.Icalendar) > 0 && len(r.Days) > 0:
		return nil, rouse.Refuse("icalendar", "", "is given in addition to days", "give one of them")
	case len(r.Icalendar) > 0:
		c.Days, out.Warnings, err = f.parseCalendar(r.Icalendar)
	default:
		c.Days, err = rousev1.DaysFromProto(r.Days)
	}
	if err != nil {
		return nil, err
	}
	out.Days = uint64(len(c.Days))
	if c, out.Moved, err = f.putCalendar(ctx, c); err != nil {
		return nil, err
	}
	c.Days = nil
	out.Calendar = rousev1.CalendarToProto(&c)
	return out, nil
}

func (f *calendarsServer) GetCalendar(ctx context.Context, r *rousev1.GetCalendarRequest) (*rousev1.Calendar, error) {
	key := keyFrom(r.Namespace, r.Name, "")
	c, err := f.timers.Calendar(ctx, key.Namespace, key.Name)
	if err != nil {
		return nil, err
	}
	return rousev1.CalendarToProto(&c), nil
}

func (f *calendarsServer) ListCalendars(ctx context.Context, r *rousev1.ListCalendarsRequest) (*rousev1.ListCalendarsResponse, error) {
	list, err := f.calendars(ctx, keyFrom(r.Namespace, "", "").Namespace)
	if err != nil {
		return nil, err
	}
	out := &rousev1.ListCalendarsResponse{Calendars: make([]*rousev1.Calendar, len(list))}
	for i := range list {
		out.Calendars[i] = rousev1.CalendarToProto(&list[i])
	}
	return out, nil
}

func (f *calendarsServer) DeleteCalendar(ctx context.Context, r *rousev1.DeleteCalendarRequest) (*rousev1.DeleteCalendarResponse, error) {
	key := keyFrom(r.Namespace, r.Name, "")
	if err := f.timers.DeleteCalendar(ctx, key.Namespace, key.Name); err != nil {
		return nil, err
	}
	return &rousev1.DeleteCalendarResponse{}, nil
}
