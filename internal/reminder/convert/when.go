package convert

import (
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/schedule"
)

// unsure is the maximum by which an engine may be behind its store's clock: a delay counted from a time later
// by this is surely not too short.
const unsure = 2 * time.Millisecond

// setReminderTimes sets the due times of the timer.
func (t *Timer) setReminderTimes(r *reminderv1.Reminder, now rouse.Instant) error {
	first, err := firstTime(r, now)
	if err != nil {
		return err
	}
	end, err := parseTimestamp("reminder.ttl", r.Ttl)
	if err != nil {
		return err
	}
	if end != 0 && end <= max(first, now) { // one at the same time would be over before it is sent
		return rouse.Refuse("reminder.ttl", end.String(), "is not after the first execution, "+max(first, now).String(),
			"give a later one, or none")
	}
	if r.Schedule == "" {
		switch {
		case first == 0:
			t.Spec.Schedule = "@after 0s"
		case r.NextExecutionTime == nil: // counted from the timer's creation, by the store's clock
			t.Spec.Schedule = "@after " + first.Sub(now).String()
		default:
			t.Spec.Schedule = first.String()
		}
		return nil
	}
	cron, err := t.setRecurrence(r.Schedule)
	if err != nil {
		return err
	}
	if r.InitialDelay != "" && r.NextExecutionTime == nil {
		first = first.Add(unsure)
	}
	t.Spec.Overlap = rouse.OverlapWait
	if end != 0 && end < rouse.MaxInstant {
		t.Spec.End = end + 1 // an execution exactly at the end still fires
	}
	switch {
	case cron && first == 0:
	case cron:
		t.Spec.Start, t.Spec.Also, t.First = first, []string{first.String()}, first
	default:
		t.First = max(first, now)
		t.Spec.Start = t.First
	}
	return nil
}

// firstTime returns the time of the first execution, 0 if none is specified.
func firstTime(r *reminderv1.Reminder, now rouse.Instant) (rouse.Instant, error) {
	at, err := parseTimestamp("reminder.next_execution_time", r.NextExecutionTime)
	if err != nil {
		return 0, err
	}
	if r.InitialDelay == "" {
		return at, nil
	}
	d, err := parseInitialDelay(r.InitialDelay)
	if err != nil || d < 0 || d > 200*366*24*time.Hour {
		return 0, rouse.Refuse("reminder.initial_delay", r.InitialDelay, "is no duration",
			`give one of up to 200 years such as "10s", "1h30m" or "PT10S"`)
	}
	if at != 0 { // GetReminder returns both: the time is the result of the delay
		return at, nil
	}
	if first := now.Add(d); first <= rouse.MaxInstant {
		return first, nil
	}
	return rouse.MaxInstant, nil
}

// setRecurrence sets a schedule with more than one execution. cron reports whether it has its own times
// instead of an interval.
func (t *Timer) setRecurrence(text string) (cron bool, err error) {
	s := &t.Spec
	if d, err := rouse.ParseDuration(text); err == nil {
		s.Schedule = "@every " + d.String()
		return false, nil
	}
	switch fields := strings.Fields(text); {
	case strings.HasPrefix(text, "@every "), strings.HasPrefix(text, "P"):
		s.Schedule = text
		return false, nil
	case strings.HasPrefix(text, "R"):
		count, period, ok := strings.Cut(text[1:], "/")
		if !ok || strings.Contains(period, "/") {
			break // it specifies its start, or nothing
		}
		if count != "" {
			n, err := strconv.ParseUint(count, 10, 32)
			if err != nil || n == 0 || n > rouse.MaxOccurrences {
				return false, rouse.Refuse("reminder.schedule", text, "has no number of executions",
					"give 1 to "+strconv.Itoa(rouse.MaxOccurrences)+`, as in "R5/PT90S", or none`)
			}
			s.MaxOccurrences = n
		}
		s.Schedule = "R/" + period
		return false, nil
	case len(fields) == 6 && !strings.Contains(fields[0], ":"):
		s.Schedule = "cron6:" + text
		return true, nil
	}
	s.Schedule = text
	if !s.Recurring() {
		return false, rouse.Refuse("reminder.schedule", text, "is one time, and no schedule",
			"give it as next_execution_time")
	}
	return true, nil
}

// parseInitialDelay reads Go durations and ISO 8601 durations without calendar units.
func parseInitialDelay(text string) (time.Duration, error) {
	d, err := rouse.ParseDuration(text)
	if err != nil && strings.HasPrefix(text, "P") {
		return schedule.ParseISODuration(text)
	}
	return d, err
}
