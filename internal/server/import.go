package server

import (
	"context"
	"strconv"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/internal/transport"
)

// importOps are the operations of this file.
type importOps interface {
	Import(ctx context.Context, timers []rouse.Timer, mode timers.Mode) ([]timers.PutResult, error)
}

const (
	maxImport          = 1000 // timers
	maxImportCalendars = 100
)

// checkImport refuses imports that are too large.
func checkImport(timers, calendars int) error {
	if timers > maxImport {
		return transport.TooMany("timers", timers, maxImport)
	}
	if calendars > maxImportCalendars {
		return transport.TooMany("calendars", calendars, maxImportCalendars)
	}
	return nil
}

// importRows writes calendars, then timers with their state and the rows that belong to them. Each row has
// its own outcome. If a calendar is refused, the import ends before any row is written.
func (s *service) importRows(ctx context.Context, rows []rouse.Timer, calendars []rouse.Calendar,
	mode timers.Mode) ([]timers.PutResult, error) {
	puts := make([]timers.Put, len(rows))
	for i := range rows {
		puts[i].Spec = rows[i].Spec
	}
	for i := range calendars {
		if _, err := calendars[i].Ordered(); err != nil {
			return nil, rouse.Under(calendarField(i), err)
		}
	}
	for i := range calendars {
		if err := s.putCalendar(ctx, calendars[i], new(rousev1.PutCalendarResponse)); err != nil {
			return nil, rouse.Under(calendarField(i), err)
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	taken, err := s.admitOrShed(ctx, puts, false)
	if err != nil {
		return nil, err
	}
	defer s.writes.returnPlaces(taken)
	return s.timers.Import(ctx, rows, mode)
}

func (f *timersServer) Import(ctx context.Context, r *rousev1.ImportRequest) (*rousev1.ImportResponse, error) {
	if err := checkImport(len(r.Timers), len(r.Calendars)); err != nil {
		return nil, err
	}
	mode, err := modeFrom(r.Mode)
	if err != nil {
		return nil, err
	}
	calendars := make([]rouse.Calendar, len(r.Calendars))
	for i, p := range r.Calendars {
		if calendars[i], err = rousev1.CalendarFromProto(p); err != nil {
			return nil, rouse.Under(calendarField(i), err)
		}
		calendars[i].Namespace = keyFrom(p.Namespace, "", "").Namespace
	}
	out := &rousev1.ImportResponse{Created: make([]*rousev1.Created, len(r.Timers))}
	timers := make([]rouse.Timer, 0, len(r.Timers))
	places := make([]int, 0, len(r.Timers)) // of the timers that were valid
	for i, p := range r.Timers {
		out.Created[i] = &rousev1.Created{Name: p.GetName()}
		t, err := rousev1.TimerFromProto(p)
		if err != nil {
			audit.Failed(ctx, p.GetNamespace(), p.GetName(), err)
			out.Created[i].Problem = rousev1.ErrorToProblem(err)
			continue
		}
		t.Key.Namespace = keyFrom(p.Namespace, "", "").Namespace
		timers, places = append(timers, t), append(places, i)
	}
	results, err := f.importRows(ctx, timers, calendars, mode)
	if err != nil {
		return nil, err
	}
	for i := range results {
		fillCreated(out.Created[places[i]], &results[i])
	}
	return out, nil
}

// importTimers responds with 200 even if timers were refused, as batchCreate does. They go into the
// namespace of the path, or into any if that is everywhere.
func importTimers(f *httpHandler, c *call) error {
	var body api.Import
	if err := c.decodeBody(maxBatchBody, false, &body); err != nil {
		return err
	}
	if err := checkImport(len(body.Timers), len(body.Calendars)); err != nil {
		return err
	}
	mode, ok := modes[body.Mode]
	if !ok {
		return badMode(body.Mode)
	}
	calendars := make([]rouse.Calendar, len(body.Calendars))
	for i := range body.Calendars {
		o := &body.Calendars[i]
		err := c.inNamespace(&o.Namespace)
		if err == nil {
			calendars[i], err = o.Parse()
		}
		if err != nil {
			return rouse.Under(calendarField(i), err)
		}
	}
	out := api.BatchCreated{Created: make([]api.Created, len(body.Timers))}
	timers := make([]rouse.Timer, 0, len(body.Timers))
	places := make([]int, 0, len(body.Timers)) // of the timers that were valid
	for i := range body.Timers {
		o := &body.Timers[i]
		var t rouse.Timer
		err := c.inNamespace(&o.Namespace)
		if err == nil {
			t, err = o.Parse()
		}
		if err != nil {
			audit.Failed(c.ctx, "", o.Name, err)
			out.Created[i] = failedOutcome(o.Name, err)
			continue
		}
		timers, places = append(timers, t), append(places, i)
	}
	results, err := f.importRows(c.ctx, timers, calendars, mode)
	if err != nil {
		return err
	}
	for i := range results {
		out.Created[places[i]] = batchOutcome(timers[i].Key.Name, &results[i])
	}
	return c.batchCreated(&out)
}

// inNamespace sets a missing namespace to that of the path, and refuses a different one.
func (c *call) inNamespace(namespace *string) error {
	switch {
	case c.pathNamespace() == everywhere, *namespace == c.pathNamespace():
		return nil
	case *namespace == "":
		*namespace = c.pathNamespace()
		return nil
	}
	return rouse.Refuse("namespace", *namespace, "is not the namespace in the path",
		`leave it out, make them the same, or use "-" in the path`)
}

// calendarField returns the field name of a calendar in a list.
func calendarField(i int) string { return "calendars[" + strconv.Itoa(i) + "]" }
