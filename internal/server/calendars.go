package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// calendarOps are the operations of this file.
type calendarOps interface {
	PutCalendar(ctx context.Context, c rouse.Calendar) (saved rouse.Calendar, job rouse.Job, err error)
	Calendar(ctx context.Context, namespace, name string) (rouse.Calendar, error)
	Calendars(ctx context.Context, namespace string) ([]rouse.Calendar, error)
	DeleteCalendar(ctx context.Context, namespace, name string) error
}

// maxCalendar bounds the bytes of a calendar in iCalendar or JSON.
const maxCalendar = 4 << 20

// parseCalendar reads an iCalendar file.
func (s *service) parseCalendar(ctx context.Context,
	icalendar []byte) (days []rouse.Day, warnings []string, err error) {
	switch {
	case s.opts.ParseCalendar == nil:
		return nil, nil, fmt.Errorf("this server reads no iCalendar: %w", rousev1.ErrUnimplemented)
	case len(icalendar) > maxCalendar:
		return nil, nil, rouse.Refuse("icalendar", "", fmt.Sprintf("has %d bytes", len(icalendar)),
			fmt.Sprintf("use at most %d", maxCalendar))
	}
	give, err := s.reads.takePlace(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer give()
	if days, warnings, err = s.opts.ParseCalendar(icalendar); err != nil {
		if errors.As(err, new(*rouse.Invalid)) {
			return nil, nil, err
		}
		return nil, nil, rouse.Refuse("icalendar", "", "cannot be read: "+rouse.Shorten(err.Error(), rouse.MaxDetail),
			"send an iCalendar file, as RFC 5545 has it")
	}
	days = slices.Clone(days)
	slices.SortStableFunc(days, func(a, b rouse.Day) int { return cmp.Compare(a.Date, b.Date) })
	// a day may have several events
	return slices.CompactFunc(days, func(a, b rouse.Day) bool { return a.Date == b.Date }), warnings, nil
}

// putCalendar stores a calendar. The answer gets the number of timers whose due time moved, and the job that
// moves the rest, or could not move some; none if all have moved.
func (s *service) putCalendar(ctx context.Context, c rouse.Calendar, out *rousev1.PutCalendarResponse) error {
	give, err := s.bulks.takePlace(ctx) // it may wait for many timers
	if err != nil {
		return err
	}
	defer give()
	out.Days = uint64(len(c.Days))
	c, j, err := s.timers.PutCalendar(ctx, c)
	if err != nil {
		return err
	}
	if out.Moved = j.Changed; j.State == rouse.JobRunning || j.Failed > 0 {
		out.Job = j.ID
	}
	c.Days = nil
	out.Calendar = rousev1.CalendarToProto(&c)
	return nil
}

// readCalendars returns all calendars of a namespace, without their days.
func (s *service) readCalendars(ctx context.Context, namespace string) ([]rouse.Calendar, error) {
	give, err := s.reads.takePlace(ctx)
	if err != nil {
		return nil, err
	}
	defer give()
	list, err := s.timers.Calendars(ctx, namespace)
	for i := range list {
		list[i].Days = nil
	}
	return list, err
}

// calendarsServer implements rouse.v1.Calendars.
type calendarsServer struct {
	rousev1.UnimplementedCalendarsServer
	*service
}

func (f *calendarsServer) PutCalendar(ctx context.Context,
	r *rousev1.PutCalendarRequest) (*rousev1.PutCalendarResponse, error) {
	key := keyFrom(r.Namespace, r.Name, "")
	c := rouse.Calendar{Namespace: key.Namespace, Name: key.Name}
	out := &rousev1.PutCalendarResponse{}
	var err error
	switch {
	case len(r.Icalendar) > 0 && len(r.Days) > 0:
		return nil, rouse.Refuse("icalendar", "", "is given in addition to days", "give one of them")
	case len(r.Icalendar) > 0:
		c.Days, out.Warnings, err = f.parseCalendar(ctx, r.Icalendar)
	default:
		c.Days, err = rousev1.DaysFromProto(r.Days)
	}
	if err != nil {
		return nil, err
	}
	return out, f.putCalendar(ctx, c, out)
}

func (f *calendarsServer) GetCalendar(ctx context.Context, r *rousev1.GetCalendarRequest) (*rousev1.Calendar, error) {
	key := keyFrom(r.Namespace, r.Name, "")
	c, err := f.timers.Calendar(ctx, key.Namespace, key.Name)
	if err != nil {
		return nil, err
	}
	return rousev1.CalendarToProto(&c), nil
}

func (f *calendarsServer) ListCalendars(ctx context.Context,
	r *rousev1.ListCalendarsRequest) (*rousev1.ListCalendarsResponse, error) {
	list, err := f.readCalendars(ctx, keyFrom(r.Namespace, "", "").Namespace)
	if err != nil {
		return nil, err
	}
	out := &rousev1.ListCalendarsResponse{Calendars: make([]*rousev1.Calendar, len(list))}
	for i := range list {
		out.Calendars[i] = rousev1.CalendarToProto(&list[i])
	}
	return out, nil
}

func (f *calendarsServer) DeleteCalendar(ctx context.Context,
	r *rousev1.DeleteCalendarRequest) (*rousev1.DeleteCalendarResponse, error) {
	key := keyFrom(r.Namespace, r.Name, "")
	if err := f.timers.DeleteCalendar(ctx, key.Namespace, key.Name); err != nil {
		return nil, err
	}
	return &rousev1.DeleteCalendarResponse{}, nil
}

const icalendarType = "text/calendar"

// Other parts of the description.
const (
	calendarName = `
parameters:
  - {name: name, in: path, required: true, schema: {type: string, minLength: 1, maxLength: 64}, description:
      '1 to 64 bytes of printable UTF-8 without space, ",", "=" and "/".'}`
	calendarFile = calendarName + `
requestBody: {content: {text/calendar: {schema: {type: string, description: 'An iCalendar file: the whole days that its events touch.'}}}}`
)

// putCalendarDays accepts days as JSON or the events of an iCalendar file.
func putCalendarDays(f *httpHandler, c *call) (err error) {
	out := &rousev1.PutCalendarResponse{}
	calendar := rouse.Calendar{Namespace: c.pathNamespace(), Name: c.pathName()}
	if calendar.Days, out.Warnings, err = c.calendarDays(); err != nil {
		return err
	}
	if err := f.putCalendar(c.ctx, calendar, out); err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, calendarPutToJSON(out))
}

// calendarDays reads the days of the body.
func (c *call) calendarDays() (days []rouse.Day, warnings []string, err error) {
	if media, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err == nil && media == icalendarType {
		file, err := c.readBody(maxCalendar)
		if err != nil {
			return nil, nil, err
		}
		return c.handler.parseCalendar(c.ctx, file)
	}
	var body api.PutCalendar
	if err := c.decodeBody(maxCalendar, false, &body); err != nil {
		return nil, nil, err
	}
	if body.Days == nil {
		return nil, nil, rouse.Refuse("days", "", "is missing", "give the days, or an empty list")
	}
	days, err = body.Parse()
	return days, nil, err
}
