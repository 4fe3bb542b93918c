package api

import (
	"fmt"

	"github.com/rousehq/rouse"
)

// Calendar is a named set of days.
type Calendar struct {
	Namespace string `json:"namespace,omitzero"`
	Name      string `json:"name"`
	Days      []Day  `json:"days,omitempty" schema:"maxItems=20000"` // left out of lists
	Revision  uint64 `json:"revision,omitzero"`
	Updated   Time   `json:"updated,omitzero"`
}

// Day is one day of a calendar.
type Day struct {
	Date string `json:"date" schema:"format=date"`            // YYYY-MM-DD
	Text string `json:"text,omitzero" schema:"maxLength=128"` // such as "Christmas Eve"
}

// CalendarOf returns the JSON form of a calendar.
func CalendarOf(c *rouse.Calendar) Calendar {
	o := Calendar{Namespace: c.Namespace, Name: c.Name, Revision: c.Revision, Updated: TimeOf(c.Updated)}
	for _, d := range c.Days {
		o.Days = append(o.Days, Day{d.Date.String(), d.Text})
	}
	return o
}

// Parse returns the calendar in the words of rouse. It refuses, with a *rouse.Invalid, days that are no
// dates; the rest is for rouse.Calendar.Check.
func (o *Calendar) Parse() (rouse.Calendar, error) {
	days, err := daysIn(o.Days)
	return rouse.Calendar{Namespace: o.Namespace, Name: o.Name, Days: days, Revision: o.Revision,
		Updated: o.Updated.Instant()}, err
}

// PutCalendar asks for a calendar of the name in the request's path.
type PutCalendar struct {
	Days []Day `json:"days" schema:"maxItems=20000"` // in any order
}

// Parse returns the days in the words of rouse. It refuses invalid dates with a *rouse.Invalid.
func (o *PutCalendar) Parse() ([]rouse.Day, error) { return daysIn(o.Days) }

func daysIn(list []Day) ([]rouse.Day, error) {
	var days []rouse.Day
	for i, d := range list {
		date, err := rouse.ParseDate(d.Date)
		if err != nil {
			return nil, rouse.Refuse(fmt.Sprintf("days[%d].date", i), d.Date, "is no date between the years 1970 and 9998",
				"give one such as 2027-12-24")
		}
		days = append(days, rouse.Day{Date: date, Text: d.Text})
	}
	return days, nil
}

// CalendarPut is the answer to PutCalendar.
type CalendarPut struct {
	Calendar Calendar `json:"calendar"` // without its days
	Days     int      `json:"days" schema:"Number"`
	Moved    uint64   `json:"moved"` // timers that are due at another time now
	// the id of the job that moves the rest of them, or could not move some (failed); left out: all have
	// moved
	Job      string   `json:"job,omitzero"`
	Warnings []string `json:"warnings,omitempty"` // such as an event that repeats beyond what is kept
}

// CalendarList is all calendars of a namespace, without their days.
type CalendarList struct {
	Calendars []Calendar `json:"calendars"`
}
