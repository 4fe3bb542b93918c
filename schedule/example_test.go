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
