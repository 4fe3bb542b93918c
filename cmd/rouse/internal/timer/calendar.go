package timer

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/schedule"
)

// CalendarCmd groups the commands for calendars.
type CalendarCmd struct {
	List   calendarListCmd   `cmd:"" default:"withargs" help:"List calendars."`
	Put    calendarPutCmd    `cmd:"" help:"Create or replace a calendar from a file."`
	Get    calendarGetCmd    `cmd:"" help:"Show a calendar."`
	Delete calendarDeleteCmd `cmd:"" aliases:"rm" help:"Delete a calendar that no timer uses."`
}

func (CalendarCmd) Help() string {
	return `A calendar is a named set of days of a namespace, such as holidays. Timers leave its days out or keep to them: see
--calendar-off and --calendar-only of create. Every namespace has the calendar weekends.

Examples:

    rouse calendar
    rouse calendar put holidays holidays.ics
    rouse calendar get holidays --json`
}

// calendarListCmd lists calendars.
type calendarListCmd struct{}

func (calendarListCmd) Help() string {
	return `Examples:

    rouse calendar list
    rouse calendar list --namespace billing --json`
}

// Run lists them.
func (c *calendarListCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		list, err := s.Calendars(ctx, a.Flags.Namespace)
		if err != nil {
			return err
		}
		t := cli.NewTable(a, "NAME", "REVISION", "UPDATED")
		for i := range list {
			if a.Flags.JSON {
				if err := a.PrintJSON(api.CalendarOf(&list[i])); err != nil {
					return err
				}
				continue
			}
			if err := t.AddTableRow(list[i].Name, strconv.FormatUint(list[i].Revision, 10),
				cli.FormatRFC3339(list[i].Updated)); err != nil {
				return err
			}
		}
		if len(list) == 0 && !a.Flags.JSON {
			a.PrintNote("no calendars but weekends")
		}
		return t.FlushTable()
	})
}

// calendarPutCmd writes a calendar.
type calendarPutCmd struct {
	Name string `arg:"" help:"Name of the calendar."`
	File string `arg:"" help:"An iCalendar file (.ics), or one of JSON as get --json prints it; - is stdin."`

	Only    []string `help:"Only events of an iCalendar file with this text in SUMMARY, DESCRIPTION or CATEGORIES; can be repeated." placeholder:"TEXT" sep:"none"`
	Without []string `help:"No events of an iCalendar file with such a text; can be repeated." placeholder:"TEXT" sep:"none"`
}

func (calendarPutCmd) Help() string {
	return `The days of an iCalendar file are the whole days that its events touch. JSON is {"days": [{"date": "2027-12-24", "text": "Christmas
Eve"}]}, in any order. Timers that use the calendar move to their new due times. If some could not be moved, the output tells how many,
and rouse jobs get calendar-NAME why.

Examples:

    rouse calendar put holidays holidays.ics
    rouse calendar put holidays holidays.ics --without observance
    rouse calendar put closed closed.json
    rouse calendar get holidays --json | rouse calendar put holidays - --namespace billing`
}

// maxCalendarFile bounds the file of a calendar. Servers accept messages of 4 MiB.
const maxCalendarFile = 3 << 20

// Run writes it.
func (c *calendarPutCmd) Run(a *cli.App) error {
	if err := rouse.CheckCalendarName("name", c.Name); err != nil {
		return err
	}
	body, err := cli.ReadUpTo(a.In, "file", c.File, maxCalendarFile)
	if err != nil {
		return err
	}
	var days []rouse.Day
	ical := isICalendar(c.File, body)
	switch {
	case ical && len(c.Only)+len(c.Without) > 0:
		if body, err = c.filterEvents(a, body); err != nil {
			return err
		}
	case ical:
	case len(c.Only)+len(c.Without) > 0:
		return rouse.Refuse("file", c.File, "has no events, which --only and --without choose from",
			"leave these flags out, or give an iCalendar file")
	default:
		if days, err = c.parseCalendarDays(body); err != nil {
			return err
		}
	}
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		put := func() (client.SavedCalendar, error) { return s.PutCalendar(ctx, a.Flags.Namespace, c.Name, days) }
		if ical {
			put = func() (client.SavedCalendar, error) { return s.PutICalendar(ctx, a.Flags.Namespace, c.Name, body) }
		}
		saved, err := put()
		if err != nil {
			return cli.AddObjectName("calendar", c.Name, err)
		}
		shown := api.CalendarPut{Calendar: api.Calendar{Namespace: a.Flags.Namespace, Name: c.Name, Revision: saved.Revision},
			Days:  int(saved.Days),
			Moved: saved.Moved, Job: saved.Job, Warnings: saved.Warnings}
		return a.ShowValue(shown, func() error {
			a.PrintLine("saved calendar %s: %s, %s moved", c.Name, cli.CountThings(saved.Days, "day"),
				cli.CountThings(saved.Moved, "timer"))
			if saved.Job != "" {
				noteUnmoved(a, ctx, s, saved.Job)
			}
			for _, w := range saved.Warnings {
				a.PrintNote("%s", w)
			}
			return nil
		})
	})
}

// noteUnmoved prints why a job of a calendar has not moved all timers.
func noteUnmoved(a *cli.App, ctx context.Context, s *client.Client, id string) {
	switch j, err := s.Job(ctx, a.Flags.Namespace, id); {
	case err != nil: // the caller may not see it
		a.PrintNote("not all timers have moved; see rouse jobs get %s", id)
	case j.State == rouse.JobRunning:
		a.PrintNote("the job %s moves the rest; see rouse jobs get %[1]s", id)
	case j.Failed > 0:
		a.PrintNote("%s could not be moved; see rouse jobs get %s", cli.CountThings(j.Failed, "timer"), id)
	}
}

// isICalendar decides by the file name, or, if that has no known extension, by the first bytes.
func isICalendar(name string, body []byte) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".ics", ".ical", ".icalendar":
		return true
	case ".json":
		return false
	}
	head := bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")), " \t\r\n")
	const begin = "BEGIN:VCALENDAR"
	return len(head) >= len(begin) && strings.EqualFold(string(head[:len(begin)]), begin)
}

// filterEvents leaves out the events that --only and --without do not want. A calendar that would have none
// is refused: timers would fire on all of its days.
func (c *calendarPutCmd) filterEvents(a *cli.App, body []byte) ([]byte, error) {
	within := func(list []string, text string) bool {
		return slices.ContainsFunc(list, func(s string) bool {
			return strings.Contains(strings.ToLower(text),
				strings.ToLower(s))
		})
	}
	kept := 0
	body, left := schedule.FilterICalendar(body, func(text string) bool {
		keep := (len(c.Only) == 0 || within(c.Only, text)) && !within(c.Without, text)
		if keep {
			kept++
		}
		return keep
	})
	if kept == 0 {
		return nil, rouse.Refuse("file", c.File, fmt.Sprintf("has %s, and --only and --without leave none",
			cli.CountThings(uint64(left), "event")),
			"give texts that the SUMMARY, DESCRIPTION or CATEGORIES of its events have")
	}
	a.PrintNote("%s left out by --only and --without", cli.CountThings(uint64(left), "event"))
	return body, nil
}

// parseCalendarDays parses the output of get --json. Only the days count: the name comes from the command
// line.
func (c *calendarPutCmd) parseCalendarDays(body []byte) ([]rouse.Day, error) {
	var o api.Calendar
	if err := api.Decode(body, &o); err != nil {
		return nil, cli.AddObjectName("calendar", c.Name, err)
	}
	if o.Days == nil {
		return nil, rouse.Refuse("days", "", "are missing",
			`give {"days": [{"date": "2027-12-24", "text": "Christmas Eve"}]}, or an iCalendar file`)
	}
	calendar, err := o.Parse()
	return calendar.Days, err
}

// calendarGetCmd shows a calendar.
type calendarGetCmd struct {
	Name string `arg:"" help:"Name of the calendar."`
}

func (calendarGetCmd) Help() string {
	return `Examples:

    rouse calendar get holidays
    rouse calendar get holidays --json > holidays.json`
}

// Run shows it.
func (c *calendarGetCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		calendar, err := s.Calendar(ctx, a.Flags.Namespace, c.Name)
		if err != nil {
			return cli.AddObjectName("calendar", c.Name, err)
		}
		return a.ShowValue(api.CalendarOf(&calendar), func() error {
			cli.PrintFacts(a.Out, a.Style, "name", calendar.Name, "namespace", calendar.Namespace, "days",
				strconv.Itoa(len(calendar.Days)),
				"revision", strconv.FormatUint(calendar.Revision, 10), "updated",
				cli.FormatWithRelative(calendar.Updated, a.ServerTime()))
			if len(calendar.Days) == 0 {
				return nil
			}
			a.PrintLine("")
			t := cli.NewTable(a, "DATE", "DAY", "TEXT")
			for _, d := range calendar.Days {
				if err := t.AddTableRow(d.Date.String(), d.Date.Weekday().String()[:3], d.Text); err != nil {
					return err
				}
			}
			return t.FlushTable()
		})
	})
}

// calendarDeleteCmd deletes a calendar.
type calendarDeleteCmd struct {
	Name string `arg:"" help:"Name of the calendar."`
}

func (calendarDeleteCmd) Help() string {
	return `Examples:

    rouse calendar delete holidays`
}

// Run deletes it.
func (c *calendarDeleteCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		if err := s.DeleteCalendar(ctx, a.Flags.Namespace, c.Name); err != nil {
			return cli.AddObjectName("calendar", c.Name, err)
		}
		if !a.Flags.JSON {
			a.PrintLine("deleted calendar %s", c.Name)
		}
		return nil
	})
}
