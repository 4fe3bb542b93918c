package foreign

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

var eventBridgeNotes = []string{
	"EventBridge calls a target by its ARN; rouse calls a URL, which gets the schedule's Input.",
	"EventBridge invokes within a minute of the due time; rouse within milliseconds.",
	"The intervals of rate() are counted from StartDate, or from the creation of the timer.",
	"EventBridge leaves out what falls into an hour that the clocks skip, as do these timers, and runs once in one that they repeat; here a cron with * as its hour is due in both passes.",
}

// eventBridge is the output of "aws scheduler get-schedule", of "aws scheduler list-schedules" or of "aws
// events list-rules", or an array of such objects.
type eventBridge struct {
	Schedules, Rules []json.RawMessage
	NextToken        string // there are more, which are not in the answer

	Arn, Name, GroupName       string
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
	Target       *struct {
		Arn, Input       string
		RetryPolicy      struct{ MaximumEventAgeInSeconds, MaximumRetryAttempts *int }
		DeadLetterConfig struct{ Arn string }

		RoleArn ignored
	}

	CreationDate, LastModificationDate, Description ignored // of schedules
	RoleArn, EventBusName                           ignored // of rules
	ResponseMetadata                                ignored // of answers
}

// awsTime is a time as the command line of AWS prints it: a text, or seconds since 1970.
type awsTime struct {
	at    time.Time
	wrong string // a text that is none
}

// maxSeconds is after any year that a time can be of.
const maxSeconds = 1e12

func (t *awsTime) UnmarshalJSON(in []byte) (err error) {
	text := strings.Trim(string(in), `"`)
	if text == "null" || text == "" {
		return nil
	}
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(seconds) < maxSeconds {
		t.at = time.UnixMilli(int64(seconds * 1000))
		return nil
	}
	if t.at, err = readTime(text, time.UTC); err != nil {
		t.wrong = text
	}
	return nil
}

func readEventBridge(in []byte, o *Options) ([]Entry, error) {
	list, err := readObjects[json.RawMessage](in, "what aws scheduler get-schedule prints, or an array of it")
	if err != nil {
		return nil, err
	}
	o.noteZone("EventBridge reads an expression in UTC, unless ScheduleExpressionTimezone names a zone")
	part := false
	entries := readEntries(list, func(in json.RawMessage, number int) (Entry, []json.RawMessage) {
		var r eventBridge
		e := readEntry(in, number, &r, r.newEventBridgeEntry)
		if r.NextToken != "" {
			part = true
		}
		if r.Schedules == nil {
			return e, r.Rules
		}
		return e, r.Schedules
	})
	if part { // pruning would delete the timers of the other parts
		entries = append(entries, Entry{Line: len(entries) + 1, Name: "NextToken",
			Err: rouse.Refuse("NextToken", "", "is there: the file is a part of the schedules",
				"list them without --max-items and --no-paginate")})
	}
	return slices.DeleteFunc(entries, func(e Entry) bool {
		without := errors.Is(e.Err, errNoTime)
		if without {
			o.leaveOut("rule " + e.Name + " of an EventPattern")
		}
		return without
	}), nil
}

// errNoTime is that of a rule which waits for events alone.
var errNoTime = errors.New("has no time")

var rate = regexp.MustCompile(`^rate\(\s*(\d+)\s+(minute|hour|day)s?\s*\)$`)

// ruleExpression returns the expression of a rule, and the interval of a rate. EventBridge Scheduler takes
// both forms of a unit with any number.
func (r *eventBridge) ruleExpression() (expression string, every time.Duration) {
	expression = strings.TrimSpace(r.ScheduleExpression)
	m := rate.FindStringSubmatch(expression)
	if m == nil {
		return expression, 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return expression, 0
	}
	unit := map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}[m[2]]
	if n != 1 {
		m[2] += "s"
	}
	if n < 200*366 { // more is refused
		every = time.Duration(n) * unit
	}
	return "rate(" + strconv.Itoa(n) + " " + m[2] + ")", every
}

func (r *eventBridge) newEventBridgeEntry(number int) Entry {
	e := Entry{Line: number, Name: r.Name, Paused: r.State == "DISABLED"}
	if r.GroupName != "" && r.GroupName != "default" {
		e.Name = r.GroupName + "/" + r.Name
	}
	s := &e.Spec
	expression, every := r.ruleExpression()
	s.Schedule = "aws:" + expression
	if !strings.HasPrefix(expression, "rate(") {
		s.Timezone = r.ScheduleExpressionTimezone // without it, and in a rule, it is UTC
	}
	if strings.HasPrefix(expression, "cron(") {
		s.DST = "skip" // a time that the clocks skip is left out, one that they repeat is due once
	}
	if s.Recurring() { // EventBridge ignores both dates for at()
		if !r.StartDate.at.IsZero() {
			e.startAt(r.StartDate.at, every)
		}
		if !r.EndDate.at.IsZero() {
			e.endAt(r.EndDate.at)
		}
	}
	if f := &r.FlexibleTimeWindow; f.Mode == "FLEXIBLE" {
		s.Jitter = clampSeconds(60 * int64(min(f.MaximumWindowInMinutes, math.MaxInt32)))
		e.noteDifference("its flexible window of %d minutes became jitter: each occurrence has always the same delay.",
			f.MaximumWindowInMinutes)
	}
	retries, age := 185, 24*60*60 // its defaults
	if t := r.Target; t != nil {
		retries = *cmp.Or(t.RetryPolicy.MaximumRetryAttempts, &retries)
		age = *cmp.Or(t.RetryPolicy.MaximumEventAgeInSeconds, &age)
	}
	s.Retry.Attempts, s.Retry.GiveUp = countAttempts(int64(retries))+1, clampSeconds(int64(age))
	if s.Recurring() {
		s.Overlap = rouse.OverlapAllow
	} else if r.ActionAfterCompletion != "DELETE" {
		s.Keep = -1
	}
	switch r.ActionAfterCompletion {
	case "", "DELETE":
	case "NONE":
		if s.Recurring() && s.End != 0 {
			e.noteDifference(
				"it stays there when it has ended (ActionAfterCompletion); this timer is deleted then, as it has no keep.")
		}
	default:
		e.noteDifference("not read: ActionAfterCompletion %q.", r.ActionAfterCompletion)
	}
	switch {
	case r.StartDate.wrong != "":
		e.Err = rouse.Refuse("StartDate", r.StartDate.wrong, "is no time", "give it as get-schedule prints it")
	case r.EndDate.wrong != "":
		e.Err = rouse.Refuse("EndDate", r.EndDate.wrong, "is no time", "give it as get-schedule prints it")
	case r.EventPattern != "" && expression == "":
		e.Err = errNoTime
	case expression == "":
		e.Err = rouse.Refuse("ScheduleExpression", "", "is missing",
			"list-schedules leaves it out: give what get-schedule prints of each")
	default:
		if r.EventPattern != "" {
			e.noteDifference("it waits for events, too: this timer is that of its ScheduleExpression alone.")
		}
		e.Err = r.copyInput(&e)
	}
	return e
}

// keyword matches the keywords that EventBridge Scheduler replaces in an Input at each invocation.
var keyword = regexp.MustCompile(`<aws\.scheduler\.[a-z-]+>`)

// scheduleARN is the keyword that is the same at each invocation.
const scheduleARN = "<aws.scheduler.schedule-arn>"

// copyInput takes the input, and notes its target.
func (r *eventBridge) copyInput(e *Entry) error {
	t := r.Target
	if t == nil || t.Input == "" {
		e.noteDifference("it has no Input: this timer has no payload, whatever EventBridge sends then.")
	}
	if t == nil {
		return nil
	}
	input := t.Input
	if r.Arn != "" {
		input = strings.ReplaceAll(input, scheduleARN, r.Arn)
	}
	if input != "" {
		e.Spec.Payload = []byte(input)
		if json.Valid(e.Spec.Payload) {
			e.Spec.ContentType = "application/json"
		}
	}
	if t.Arn != "" {
		e.noteDifference("its target is %s.", t.Arn)
	}
	if t.DeadLetterConfig.Arn != "" {
		e.noteDifference("its dead letters go to %s; here they are kept with the timer: rouse dead.", t.DeadLetterConfig.Arn)
	}
	switch word := keyword.FindString(input); word {
	case "":
	case scheduleARN:
		return rouse.Refuse("Input", word, "stands for the Arn of the schedule, which the file does not have",
			"give its Arn, as get-schedule prints it")
	default:
		return rouse.Refuse("Input", word, "is replaced by EventBridge each time, and rouse sends a payload as it is",
			"take it out, and let the target read the headers of the request: rouse-fire-id, rouse-due and rouse-attempt")
	}
	return nil
}
