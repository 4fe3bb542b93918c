package rouse

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Date is a day of the Gregorian calendar, in days since 1970-01-01.
type Date int32

// DateOf returns the day that t shows in its own zone.
func DateOf(t time.Time) Date {
	y, m, d := t.Date()
	return Date(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400)
}

// ParseDate reads YYYY-MM-DD, from 1970 to 9998.
func ParseDate(s string) (Date, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil || t.Year() < 1970 || t.Year() > 9998 {
		return 0, fmt.Errorf("%q is no date such as 2027-12-24", s)
	}
	return DateOf(t), nil
}

func (d Date) String() string { return time.Unix(int64(d)*86400, 0).UTC().Format(time.DateOnly) }

// Weekday returns the day of the week.
func (d Date) Weekday() time.Weekday { return time.Unix(int64(d)*86400, 0).UTC().Weekday() }

// Day is one day of a calendar, with its name.
type Day struct {
	Date Date
	Text string // such as "Christmas Eve"; may be empty
}

// Calendar is a named set of days of a namespace.
type Calendar struct {
	Namespace string
	Name      string
	Days      []Day // ascending, each date once
	Revision  uint64
	Updated   Instant
}

// Limits on calendars.
const (
	MaxDays      = 20_000 // days of one calendar
	MaxCalendars = 8      // calendars that one timer names
	MaxDayText   = 128    // bytes
)

// Weekends is the name of the calendar that every namespace has: Saturdays and Sundays.
const Weekends = "weekends"

// CalendarRule defines which days of a schedule count, and what happens to occurrences on the other days.
// Days are in the timer's time zone.
type CalendarRule struct {
	Off   []string // names of calendars: their days do not count
	Only  []string // names of calendars: only their days count, less those of Off
	Shift Shift
}

// Shift defines what happens to an occurrence on a day that does not count.
type Shift uint8

const (
	ShiftSkip     Shift = iota // there is none
	ShiftNext                  // it moves to the same local time of the next day that counts
	ShiftPrevious              // it moves to the same local time of the day before that counts
)

var shiftNames = [...]string{ShiftSkip: "skip", ShiftNext: "next", ShiftPrevious: "previous"}

func (s Shift) String() string {
	if int(s) >= len(shiftNames) {
		return "unknown"
	}
	return shiftNames[s]
}

// ParseShift reads a shift; empty is skip.
func ParseShift(name string) (Shift, error) {
	if name == "" {
		return ShiftSkip, nil
	}
	if i := slices.Index(shiftNames[:], name); i >= 0 {
		return Shift(i), nil
	}
	return 0, Refuse("calendar.shift", name, "is no shift", "give one of skip, next, previous")
}

// Ordered returns the calendar with its days in order. It refuses, with an *Invalid, an invalid calendar, and
// one with a duplicate day.
func (c Calendar) Ordered() (Calendar, error) {
	if len(c.Days) > MaxDays {
		return c, c.Check()
	}
	at := make(map[Date]int, len(c.Days))
	for i, d := range c.Days {
		if first, twice := at[d.Date]; twice {
			return c, Refuse(fmt.Sprintf("days[%d].date", i), d.Date.String(), fmt.Sprintf("is that of days[%d], too", first),
				"give each day once")
		}
		at[d.Date] = i
	}
	c.Days = slices.Clone(c.Days)
	slices.SortFunc(c.Days, func(a, b Day) int { return cmp.Compare(a.Date, b.Date) })
	return c, c.Check()
}

// Check refuses, with an *Invalid, an invalid calendar.
func (c *Calendar) Check() error {
	if err := CheckNamespace(c.Namespace); err != nil {
		return err
	}
	if err := CheckCalendarName("name", c.Name); err != nil {
		return err
	}
	if wrong, cure := nameFault(c.Name); wrong != "" {
		return Refuse("name", c.Name, wrong, cure)
	}
	if c.Name == Weekends {
		return Refuse("name", c.Name, "is the calendar that every namespace has", "give another name")
	}
	if len(c.Days) > MaxDays {
		return Refuse("days", "", fmt.Sprintf("are %d", len(c.Days)), fmt.Sprintf("use at most %d", MaxDays))
	}
	for i, d := range c.Days {
		field := fmt.Sprintf("days[%d]", i)
		if i > 0 && d.Date <= c.Days[i-1].Date {
			return Refuse(field, d.Date.String(), "is not after the day before it", "sort the days, and give each once")
		}
		if wrong := textFault(d.Text, MaxDayText); wrong != "" {
			return Refuse(field+".text", d.Text, wrong, fmt.Sprintf("use at most %d bytes of printable UTF-8", MaxDayText))
		}
	}
	return nil
}

// CheckCalendarName refuses names that a calendar cannot have.
func CheckCalendarName(field, name string) error {
	if wrong := textFault(name, 64); name == "" || wrong != "" || strings.ContainsAny(name, " ,=/") {
		return Refuse(field, name, "is no name of a calendar",
			"use 1 to 64 bytes of printable UTF-8 without space, ',', '=' and '/'")
	}
	return nil
}

// ScheduleInput holds the inputs of a timer's due times other than its spec.
type ScheduleInput struct {
	Key      Key                              // H in a cron expression spreads by it
	Anchor   Instant                          // where intervals, @after and TTL begin: when the timer was created
	Calendar func(name string) ([]Date, bool) // the days of a calendar, ascending; nil: only Weekends exists
}

// Described is a schedule that can describe itself in English.
type Described interface {
	Schedule

	// Describe describes the schedule in English, such as "at 02:30 on Monday to Friday".
	Describe() string

	// Mark describes what is unusual about a due time, such as "02:30 does not exist on this day: the clocks
	// go forward at 02:00". It is usually empty.
	Mark(due Instant) string

	// Location is the zone that the schedule is read in.
	Location() *time.Location
}

// MeteredMarks is a Described schedule that counts the cost of a mark.
type MeteredMarks interface {
	// MarkSteps is Mark with the number of its steps; a mark that takes more than MaxScheduleSteps is
	// omitted.
	MarkSteps(due Instant) (mark string, steps int)
}

// Mark is Mark of any schedule, with the number of steps that it took.
func Mark(s Schedule, due Instant) (mark string, steps int) {
	switch s := s.(type) {
	case MeteredMarks:
		return s.MarkSteps(due)
	case Described:
		return s.Mark(due), 1
	}
	return "", 0
}

// Preview contains the next due times of a schedule.
type Preview struct {
	Words    string
	Location *time.Location
	Next     []Coming
}

// Coming is a due time to come.
type Coming struct {
	Due  Instant
	At   Instant // when it is sent: later than Due by the timer's jitter
	Mark string  // see Described
}
