package foreign

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

var eventBridgeNotes = []string{
	"EventBridge calls a target by its ARN; rouse calls a URL, which gets the schedule's Input.",
	"EventBridge invokes within a minute of the due time; rouse within milliseconds.",
	"The intervals of rate() are counted from the creation of the timer.",
}

// eventBridge is what "aws scheduler get-schedule" prints, what "aws scheduler list-schedules" or "aws events
// list-rules" print, or an array of such objects.
type eventBridge struct {
	Schedules, Rules []eventBridge

	Name, GroupName            string
	ScheduleExpression         string
	ScheduleExpressionTimezone string
	State                      string
	StartDate, EndDate         awsTime
	ActionAfterCompletion      string
	FlexibleTimeWindow         struct {
		Mode                   string
		MaximumWindowInMinutes int
	}
	EventPattern string
	Target       struct {
		Arn, Input       string
		RetryPolicy      *struct{ MaximumEventAgeInSeconds, MaximumRetryAttempts *int }
		DeadLetterConfig struct{ Arn string }
	}
}

// awsTime is a time as the command line of AWS prints it: a text, or seconds since 1970.
type awsTime struct{ at rouse.Instant }

func (t *awsTime) UnmarshalJSON(in []byte) (err error) {
	text := strings.Trim(string(in), `"`)
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		t.at = rouse.Instant(seconds * 1000)
		return nil
	}
	t.at, err = rouse.ParseInstant(text)
	return err
}

func readEventBridge(in []byte, o *Options) (entries []Entry, err error) {
	list, err := objects[eventBridge](in, "what aws scheduler get-schedule prints, or an array of it")
	if err != nil {
		return nil, err
	}
	var add func(r *eventBridge)
	add = func(r *eventBridge) {
		for _, inner := range [][]eventBridge{r.Schedules, r.Rules} {
			for i := range inner {
				add(&inner[i])
			}
		}
		if r.Schedules == nil && r.Rules == nil {
			entries = append(entries, r.entry(len(entries)+1, o))
		}
	}
	for i := range list {
		add(&list[i])
	}
	return entries, nil
}

func (r *eventBridge) entry(number int, o *Options) Entry {
	e := Entry{Line: number, Name: r.Name, Paused: r.State == "DISABLED"}
	if r.GroupName != "" && r.GroupName != "default" {
		e.Name = r.GroupName + "/" + r.Name
	}
	s := &e.Spec
	s.Schedule = "aws:" + r.ScheduleExpression
	if !strings.HasPrefix(r.ScheduleExpression, "rate(") {
		s.Timezone = cmp.Or(r.ScheduleExpressionTimezone, o.Timezone)
	}
	if strings.HasPrefix(r.ScheduleExpression, "cron(") {
		s.DST = "skip" // a time that the clocks skip is left out, one that they repeat is due once
	}
	s.Start, s.End = r.StartDate.at, r.EndDate.at
	if r.Target.Input != "" {
		s.Payload = []byte(r.Target.Input)
		if json.Valid(s.Payload) {
			s.ContentType = "application/json"
		}
	}
	if f := &r.FlexibleTimeWindow; f.Mode == "FLEXIBLE" {
		s.Jitter = time.Duration(f.MaximumWindowInMinutes) * time.Minute
		e.note("its flexible window of %d minutes became jitter: each occurrence has always the same delay.", f.MaximumWindowInMinutes)
	}
	retries, age := 185, 24*60*60 // its defaults
	if p := r.Target.RetryPolicy; p != nil {
		if p.MaximumRetryAttempts != nil {
			retries = *p.MaximumRetryAttempts
		}
		if p.MaximumEventAgeInSeconds != nil {
			age = *p.MaximumEventAgeInSeconds
		}
	}
	s.Retry.Attempts, s.Retry.GiveUp = uint32(max(0, retries))+1, time.Duration(age)*time.Second
	if s.Recurring() {
		s.Overlap = rouse.OverlapAllow
	} else if r.ActionAfterCompletion != "DELETE" {
		s.Keep = -1
	}
	if r.Target.Arn != "" {
		e.note("its target is %s.", r.Target.Arn)
	}
	if r.Target.DeadLetterConfig.Arn != "" {
		e.note("its dead letters go to %s; here they are kept with the timer: rouse dead.", r.Target.DeadLetterConfig.Arn)
	}
	switch {
	case r.EventPattern != "" && r.ScheduleExpression == "":
		e.Err = rouse.Refuse("EventPattern", "", "waits for events, not for a time", "leave the rule where it is")
	case r.ScheduleExpression == "":
		e.Err = rouse.Refuse("ScheduleExpression", "", "is missing", "list-schedules leaves it out: give what get-schedule prints of each")
	}
	return e
}
