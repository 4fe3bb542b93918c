package main

import (
	"context"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client/reminder"
)

// schedules are texts that timers and reminders both have: those that begin with a word of their own are read
// alike.
var schedules = []string{
	"@every 1h", "@every 1ms", "@every 0s", "@every -5s", "@every 5", "@every 5d", "@every +5s", "@every 1h30m", "@every 200000000h", "@daily", "@dayly",
	"R/PT1M", "R/PT1,5S", "R/PT0.001S", "R/PT0S", "R/P1M", "R/P", "R/PT5", "R/PT1.5H", "0 9 * * *", "0\t9 *\t* *", "61 9 * * *", "0 9 * * MON-FRI", "0 9 31 2 *", "0 9 * * XXX",
	"* * * * * *", "every day", "sometimes", "\a", strings.Repeat("1", 600),
}

// timeless is a refusal without the time from which on a schedule was looked at.
func timeless(v refusal) refusal {
	v.wrong, _, _ = strings.Cut(v.wrong, " after 2")
	return v
}

// TestRemindersTakeAndRefuseTheSame: a schedule gets the verdict that it has through every other door.
func TestRemindersTakeAndRefuseTheSame(t *testing.T) {
	d := openDoors(t)
	sidecar, err := reminder.Open(d.n.Addr(), reminder.Options{App: "app", Address: "127.0.0.1:1",
		Handle: func(context.Context, reminder.Execution) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer sidecar.Close()
	if err := sidecar.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	remind := func(r reminder.Reminder) refusal {
		_, err := sidecar.Create(t.Context(), r)
		v := judged(err)
		v.field = strings.TrimPrefix(v.field, "reminder.")
		return timeless(v)
	}
	for _, text := range schedules {
		spec := rouse.Spec{Schedule: text, Target: "stream:x"}
		if len(strings.Fields(text)) == 6 && !strings.HasPrefix(text, "@") {
			spec.Schedule = "cron6:" + text // which reminders do by themselves
		}
		_, err := d.n.Replace(t.Context(), "a", spec)
		if want, got := timeless(judged(err)), remind(reminder.Reminder{Schedule: text}); got != want {
			t.Errorf("%q: %q, and as a timer %q", rouse.Shorten(text, 64), got, want)
		}
	}
}
