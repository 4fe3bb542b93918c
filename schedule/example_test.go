package schedule_test

import (
	"fmt"
	"log"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/schedule"
)

func Example() {
	s, err := schedule.Parse("30 8 * * MON-FRI", schedule.Options{Timezone: "Europe/Stockholm"})
	if err != nil {
		log.Fatal(err)
	}
	due := rouse.At(time.Date(2027, 3, 26, 12, 0, 0, 0, time.UTC)) // a Friday; clocks go forward on Sunday
	for range 3 {
		due, _ = s.Next(due)
		fmt.Println(due.Time().In(s.Location()).Format(time.RFC1123Z))
	}
	// Output:
	// Mon, 29 Mar 2027 08:30:00 +0200
	// Tue, 30 Mar 2027 08:30:00 +0200
	// Wed, 31 Mar 2027 08:30:00 +0200
}

// An invalid expression is reported with its field, its value and a cure.
func ExampleParse() {
	_, err := schedule.Parse("61 8 * * *", schedule.Options{})
	fmt.Println(err)
	// Output: schedule "61 8 * * *": the minute "61" is out of bounds; use 0 to 59
}

// Cron has five fields: minute, hour, day of month, month, day of week. One of two day fields has to match.
func ExampleParse_cron() {
	newYear := rouse.At(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	s, err := schedule.Parse("0 9 13 * FRI", schedule.Options{Timezone: "Europe/Stockholm"})
	if err != nil {
		log.Fatal(err)
	}
	due := newYear
	for range 2 {
		due, _ = s.Next(due)
		fmt.Println(due)
	}
	// Output:
	// 2027-01-01T08:00:00.000Z
	// 2027-01-08T08:00:00.000Z
}

// With the prefix cron6, a second comes first.
func ExampleParse_seconds() {
	newYear := rouse.At(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	s, err := schedule.Parse("cron6:*/20 30 2 * * SUN", schedule.Options{})
	if err != nil {
		log.Fatal(err)
	}
	due := newYear
	for range 2 {
		due, _ = s.Next(due)
		fmt.Println(due)
	}
	// Output:
	// 2027-01-03T02:30:00.000Z
	// 2027-01-03T02:30:20.000Z
}

// Quartz has seconds, L, W and #, and perhaps a year: here the last Friday of the month.
func ExampleParse_quartz() {
	newYear := rouse.At(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	s, err := schedule.Parse("quartz:0 30 17 ? * 6L", schedule.Options{})
	if err != nil {
		log.Fatal(err)
	}
	due := newYear
	for range 2 {
		due, _ = s.Next(due)
		fmt.Println(due)
	}
	// Output:
	// 2027-01-29T17:30:00.000Z
	// 2027-02-26T17:30:00.000Z
}

// Spring has seconds, L, W and #, and both day fields have to match: here Fridays that are the 13th.
func ExampleParse_spring() {
	newYear := rouse.At(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	s, err := schedule.Parse("spring:0 0 9 13 * FRI", schedule.Options{})
	if err != nil {
		log.Fatal(err)
	}
	due := newYear
	for range 2 {
		due, _ = s.Next(due)
		fmt.Println(due)
	}
	// Output:
	// 2027-08-13T09:00:00.000Z
	// 2028-10-13T09:00:00.000Z
}

// EventBridge has a year at the end: here the weekday that is nearest to the 15th.
func ExampleParse_eventBridge() {
	newYear := rouse.At(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	s, err := schedule.Parse("aws:cron(0 9 15W * ? 2027)", schedule.Options{})
	if err != nil {
		log.Fatal(err)
	}
	due := newYear
	for range 2 {
		due, _ = s.Next(due)
		fmt.Println(due)
	}
	// Output:
	// 2027-01-15T09:00:00.000Z
	// 2027-02-15T09:00:00.000Z
}

// Rules of RFC 5545 may begin with DTSTART: here the last working day of the month.
func ExampleParse_rrule() {
	newYear := rouse.At(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	s, err := schedule.Parse("rrule:FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=17;BYMINUTE=0", schedule.Options{})
	if err != nil {
		log.Fatal(err)
	}
	due := newYear
	for range 2 {
		due, _ = s.Next(due)
		fmt.Println(due)
	}
	// Output:
	// 2027-01-29T17:00:00.000Z
	// 2027-02-26T17:00:00.000Z
}

// Intervals of ISO 8601 count from their start, so that days do not drift: here the last of each month.
func ExampleParse_iso8601() {
	newYear := rouse.At(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	s, err := schedule.Parse("R3/2027-01-31T09:00:00Z/P1M", schedule.Options{})
	if err != nil {
		log.Fatal(err)
	}
	due := newYear
	for range 2 {
		due, _ = s.Next(due)
		fmt.Println(due)
	}
	// Output:
	// 2027-01-31T09:00:00.000Z
	// 2027-02-28T09:00:00.000Z
}

// Intervals count from the anchor, which is when a timer was created.
func ExampleParse_every() {
	newYear := rouse.At(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	s, err := schedule.Parse("@every 90m", schedule.Options{Anchor: newYear})
	if err != nil {
		log.Fatal(err)
	}
	due := newYear
	for range 2 {
		due, _ = s.Next(due)
		fmt.Println(due)
	}
	// Output:
	// 2027-01-01T01:30:00.000Z
	// 2027-01-01T03:00:00.000Z
}

// Compile combines everything of a spec that decides when its timer is due: here a schedule with a TTL.
func ExampleCompile() {
	created := rouse.At(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	spec := rouse.Spec{Schedule: "@every 20m", TTL: time.Hour}
	s, err := schedule.Compile(&spec, rouse.ScheduleInput{Anchor: created})
	if err != nil {
		log.Fatal(err)
	}
	for due, ok := s.Next(created); ok; due, ok = s.Next(due) {
		fmt.Println(due)
	}
	// Output:
	// 2027-01-01T00:20:00.000Z
	// 2027-01-01T00:40:00.000Z
}
