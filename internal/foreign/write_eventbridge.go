package foreign

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rousehq/rouse"
)

var eventBridgeLosses = []string{
	"EventBridge invokes --arn with the payload, instead of the target, within a minute of the due time.",
	"EventBridge invokes although an earlier occurrence is still in progress: overlap is allow there.",
}

var awsName = regexp.MustCompile(`^[0-9A-Za-z_.-]{1,64}$`)

// awsSchedule is the input of "aws scheduler create-schedule --cli-input-json".
type awsSchedule struct {
	Name                       string
	GroupName                  string `json:",omitempty"`
	ScheduleExpression         string
	ScheduleExpressionTimezone string `json:",omitempty"`
	State                      string
	StartDate                  string `json:",omitempty"`
	EndDate                    string `json:",omitempty"`
	ActionAfterCompletion      string `json:",omitempty"`
	FlexibleTimeWindow         awsWindow
	Target                     awsTarget
}

type awsWindow struct {
	Mode                   string
	MaximumWindowInMinutes int `json:",omitempty"`
}

type awsTarget struct {
	Arn, RoleArn string
	Input        string `json:",omitempty"`
	RetryPolicy  struct{ MaximumEventAgeInSeconds, MaximumRetryAttempts int64 }
}

func writeEventBridge(w *Writer, x *outgoingTimer) error {
	s := x.spec
	out := awsSchedule{Name: x.t.Key.Name, State: "ENABLED", FlexibleTimeWindow: awsWindow{Mode: "OFF"},
		Target: awsTarget{Arn: w.o.ARN, RoleArn: w.o.Role}}
	if group, name, ok := strings.Cut(out.Name, "/"); ok {
		out.GroupName, out.Name = group, name
	}
	switch {
	case !awsName.MatchString(out.Name), out.GroupName != "" && !awsName.MatchString(out.GroupName),
		out.GroupName == "default":
		return rouse.Refuse("name", x.t.Key.Name, "is no name of a schedule",
			"use NAME or GROUP/NAME with at most 64 of letters, digits, '-', '_' and '.' each, and no group default")
	case !utf8.Valid(s.Payload), bytes.Contains(s.Payload, []byte("<aws.scheduler.")):
		return rouse.Refuse("payload", "", "is no text that EventBridge sends as it is",
			"give it as text or JSON, without <aws.scheduler.")
	}
	if x.t.Paused {
		out.State = "DISABLED"
	}
	if err := x.awsTimes(&out); err != nil {
		return err
	}
	const day = 24 * 60
	if minutes := int(s.Jitter / time.Minute); s.Jitter%time.Minute == 0 && minutes > 0 && minutes <= day {
		out.FlexibleTimeWindow = awsWindow{"FLEXIBLE", minutes}
		x.addLossNote("its jitter is a flexible window, in which EventBridge invokes at any time.")
	}
	retry := s.Retry.Effective()
	policy := &out.Target.RetryPolicy
	policy.MaximumRetryAttempts = min(int64(retry.Attempts)-1, 185)
	policy.MaximumEventAgeInSeconds = day * 60
	if seconds := int64(retry.GiveUp / time.Second); seconds > 0 {
		policy.MaximumEventAgeInSeconds = min(max(seconds, 60), day*60)
	}
	out.Target.Input = string(s.Payload)
	x.carried = append(x.carried, "target", "payload", "payload_base64")
	x.verify = func(back *rouse.Spec) error {
		if !bytes.Equal(back.Payload, s.Payload) {
			return rouse.Refuse("payload", "", "would come back as another", "give it as text or JSON")
		}
		if kept := (rouse.Retry{Attempts: s.Retry.Attempts, GiveUp: s.Retry.GiveUp}); s.Retry == kept &&
			back.Retry.Attempts == retry.Attempts &&
			(kept.GiveUp == 0 || kept.GiveUp == back.Retry.GiveUp) {
			x.carried = append(x.carried, "retry")
		}
		return nil
	}
	x.text = string(encodePayload(out))
	x.alone = x.text
	return nil
}

// awsTimes sets when a schedule is due.
func (x *outgoingTimer) awsTimes(out *awsSchedule) error {
	s := x.spec
	step, isInterval := x.s.Interval()
	once := !s.Recurring() || x.occurrencesLeft() == 1
	if end := x.endOfSchedule(); end != 0 && !once {
		out.EndDate = end.String()
	}
	expression, own := strings.CutPrefix(s.Schedule, "aws:")
	switch {
	case once:
		if out.ActionAfterCompletion = "NONE"; s.Keep == 0 {
			out.ActionAfterCompletion = "DELETE"
		}
		if x.due%1000 != 0 {
			return rouse.Refuse("schedule", s.Schedule, "has a part of a second", "give whole seconds")
		}
		out.ScheduleExpressionTimezone = x.zoneOrUTC()
		if !own || s.Recurring() {
			expression, out.ScheduleExpressionTimezone = "at("+x.due.Time().UTC().Format("2006-01-02T15:04:05")+")", "UTC"
		}
	case isInterval && step%time.Minute != 0:
		return rouse.Refuse("schedule", s.Schedule, "is no interval of whole minutes", "give it in minutes")
	case isInterval:
		if !own {
			expression = rateOf(step)
		}
		out.StartDate = x.due.String()
	default:
		var err error
		if expression, err = x.s.Translate("aws:"); err != nil {
			return err
		}
		expression = "cron(" + strings.TrimPrefix(expression, "aws:") + ")"
		out.ScheduleExpressionTimezone = x.zoneOrUTC()
		if s.Start > x.now {
			out.StartDate = s.Start.String()
		}
	}
	out.ScheduleExpression = expression
	return nil
}

// rateOf returns the expression of an interval of whole minutes.
func rateOf(step time.Duration) string {
	n, unit := int64(step/time.Minute), "minute"
	switch {
	case n%(24*60) == 0:
		n, unit = n/(24*60), "day"
	case n%60 == 0:
		n, unit = n/60, "hour"
	}
	if n != 1 {
		unit += "s"
	}
	return fmt.Sprintf("rate(%d %s)", n, unit)
}
