package rouse_test

import (
	"fmt"
	"log"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/schedule"
)

// The life of a timer is a pure function: no store, no clock, no goroutine.
func Example() {
	now := rouse.At(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	key := rouse.Key{Namespace: "default", Name: "report"}
	spec := rouse.Spec{
		Schedule: "0 9 * * *", Target: "https://example.com/report",
		Retry: rouse.Retry{Attempts: 2, Interval: time.Minute, Factor: 2, Max: time.Hour, Jitter: -1},
	}
	daily, err := schedule.Compile(&spec, rouse.ScheduleInput{Key: key, Anchor: now})
	if err != nil {
		log.Fatal(err)
	}
	t, err := rouse.NewTimer(key, spec, now, now, daily)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.State(), "due", t.Due)

	// The first attempt fails a second after it was sent: the timer is visible again a minute later.
	occurrence, _ := t.Current()
	sent, ended := t.Due, t.Due.Add(time.Second)
	next := *t.After(occurrence, 1, rouse.Outcome{Verdict: rouse.Failed, Code: 503}, sent, ended, daily).To
	fmt.Println(next.State(), "visible", next.Visible)

	// The second attempt succeeds: the occurrence ends in a record, and the next one is due.
	occurrence, _ = next.Current()
	step := next.After(occurrence, 2, rouse.Outcome{Verdict: rouse.Done, Code: 200}, next.Visible, next.Visible.Add(time.Second), daily)
	fmt.Println(step.To.State(), "due", step.To.Due, "after", step.Log[0].Ending, "at attempt", step.Log[0].Attempts)
	// Output:
	// scheduled due 2027-01-01T09:00:00.000Z
	// retrying visible 2027-01-01T09:01:01.000Z
	// scheduled due 2027-01-02T09:00:00.000Z after fired at attempt 2
}
