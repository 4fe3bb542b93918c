package server

import (
	"mime"
	"net/http"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
)

const icalendarType = "text/calendar"

// putCalendarDays accepts days as JSON or the events of an iCalendar file.
func (f *httpHandler) putCalendarDays(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	out := api.CalendarPut{}
	days, err := f.calendarDays(c, &out)
	if err != nil {
		return err
	}
	ctx, cancel := c.context()
	defer cancel()
	saved, moved, err := f.putCalendar(ctx, rouse.Calendar{Namespace: c.namespace(), Name: c.name(), Days: days})
	if err != nil {
		return err
	}
	out.Days, out.Moved = len(days), moved
	saved.Days = nil
	out.Calendar = api.CalendarOf(&saved)
	return c.reply(http.StatusOK, out)
}

// calendarDays reads the days of the body.
func (f *httpHandler) calendarDays(c *call, out *api.CalendarPut) (days []rouse.Day, err error) {
	if media, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err == nil && media == icalendarType {
		file, err := c.read(maxCalendar)
		if err != nil {
			return nil, err
		}
		days, out.Warnings, err = f.parseCalendar(file)
		return days, err
	}
	var body api.PutCalendar
	if err := c.decode(maxCalendar, false, &body); err != nil {
		return nil, err
	}
	if body.Days == nil {
		return nil, rouse.Refuse("days", "", "is missing", "give the days, or an empty list")
	}
	return body.Words()
}

func (f *httpHandler) getCalendar(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	ctx, cancel := c.context()
	defer cancel()
	found, err := f.timers.Calendar(ctx, c.namespace(), c.name())
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, api.CalendarOf(&found))
}

func (f *httpHandler) listCalendars(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	ctx, cancel := c.context()
	defer cancel()
	list, err := f.calendars(ctx, c.namespace())
	if err != nil {
		return err
	}
	out := api.CalendarList{Calendars: make([]api.Calendar, len(list))}
	for i := range list {
		out.Calendars[i] = api.CalendarOf(&list[i])
	}
	return c.reply(http.StatusOK, out)
}

func (f *httpHandler) dropCalendar(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	ctx, cancel := c.context()
	defer cancel()
	if err := f.timers.DeleteCalendar(ctx, c.namespace(), c.name()); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
