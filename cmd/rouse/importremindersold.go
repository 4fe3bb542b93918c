package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/dapr/job"
)

// oldReminder is a reminder in a list.
type oldReminder struct {
	ID         string          `json:"actorID"`
	Type       string          `json:"actorType"`
	Name       string          `json:"name"`
	Data       json.RawMessage `json:"data"`
	Period     string          `json:"period"`
	DueTime    string          `json:"dueTime"`        // as requested
	Registered string          `json:"registeredTime"` // when it is due first
	Expiration string          `json:"expirationTime"`
}

// oldTrack is when a reminder last fired, and how many fires are left; below 0 is without end.
type oldTrack struct {
	Last string `json:"lastFiredTime"`
	Left int    `json:"repetitionLeft"`
}

func (r *oldReminder) key() string { return strings.Join([]string{r.Type, r.ID, r.Name}, "||") }

func readTrack(body []byte) (*oldTrack, bool) {
	t := &oldTrack{Left: -1}
	ok := bytes.Contains(body, []byte(`"lastFiredTime"`)) && json.Unmarshal(body, t) == nil
	return t, ok && t.Last != ""
}

// readReminders parses a list of reminders of one type.
func readReminders(body []byte, typ string) (list []oldReminder, err error) {
	if rest, ok := bytes.CutPrefix(body, protobufMark); ok {
		list, err = readProtobuf(rest)
	} else {
		err = json.Unmarshal(body, &list)
	}
	if err != nil {
		return nil, rouse.Refuse("value", rouse.Shorten(string(body), 60), "is no list of reminders: "+err.Error(), "export it again")
	}
	for i := range list {
		if list[i].Type == "" {
			list[i].Type = typ
		}
	}
	return list, nil
}

// readProtobuf parses a list in protobuf: field 1 of a message has the reminders, each with fields in the
// order of oldReminder, except that the first two are swapped.
func readProtobuf(body []byte) (list []oldReminder, err error) {
	err = fields(body, func(number protowire.Number, value []byte) error {
		if number != 1 {
			return nil
		}
		var r oldReminder
		err := fields(value, func(number protowire.Number, value []byte) (err error) {
			switch number {
			case 1:
				r.ID = string(value)
			case 2:
				r.Type = string(value)
			case 3:
				r.Name = string(value)
			case 4:
				r.Data = value
			case 5:
				r.Period = strings.Trim(string(value), `"`)
			case 6:
				r.Registered, err = protoTime(value)
			case 7:
				r.DueTime = string(value)
			case 8:
				r.Expiration, err = protoTime(value)
			}
			return err
		})
		list = append(list, r)
		return err
	})
	return list, err
}

// fields calls do for each length-delimited field of a message.
func fields(body []byte, do func(number protowire.Number, value []byte) error) error {
	for len(body) > 0 {
		number, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return protowire.ParseError(n)
		}
		body = body[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, body); n < 0 {
				return protowire.ParseError(n)
			}
			body = body[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(body)
		if n < 0 {
			return protowire.ParseError(n)
		}
		body = body[n:]
		if err := do(number, value); err != nil {
			return err
		}
	}
	return nil
}

func protoTime(value []byte) (string, error) {
	var at timestamppb.Timestamp
	if err := proto.Unmarshal(value, &at); err != nil {
		return "", err
	}
	if err := at.CheckValid(); err != nil || at.AsTime().IsZero() {
		return "", err
	}
	return at.AsTime().Format(time.RFC3339Nano), nil
}

// nextTick is the next tick of a reminder.
type nextTick struct {
	due    rouse.Instant
	at     time.Time
	period oldPeriod
	left   int    // ticks; below 0 is without end
	over   string // why there is none
}

// next returns the next tick of a reminder.
func (r *oldReminder) next(last *oldTrack, now rouse.Instant) (n nextTick, err error) {
	if n.period, n.left, err = readOldPeriod(r.Period); err != nil {
		return n, err
	}
	if n.at, err = r.first(); err != nil {
		return n, err
	}
	if last != nil {
		at, err := time.Parse(time.RFC3339, last.Last)
		if err != nil {
			return n, rouse.Refuse("lastFiredTime", last.Last, "is no time", "it should be such as 2023-01-31T09:00:00Z")
		}
		n.at, n.left = n.period.after(at), last.Left
	}
	n.due = rouse.At(n.at)
	end, err := r.end()
	switch {
	case err != nil:
		return n, err
	case n.left == 0:
		n.over = "its repetitions are used up"
	case end != 0 && (n.due > end || end < now):
		n.over = "it expired at " + end.String()
	}
	return n, nil
}

// first returns when a reminder was first due.
func (r *oldReminder) first() (time.Time, error) {
	for _, text := range []string{r.Registered, r.DueTime} { // the requested time may be absolute, too
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, rouse.Refuse("registeredTime", r.Registered, "is no time", "it should be such as 2023-01-31T09:00:00Z; set when the reminder is due")
}

func (r *oldReminder) end() (rouse.Instant, error) {
	if r.Expiration == "" {
		return 0, nil
	}
	at, err := time.Parse(time.RFC3339, r.Expiration)
	if err != nil {
		return 0, rouse.Refuse("expirationTime", r.Expiration, "is no time", "it should be such as 2023-01-31T09:00:00Z")
	}
	return rouse.At(at), nil
}

// timer converts a reminder to a timer as Dapr's scheduler would have it. over is true if it ends before
// its next tick.
func (r *oldReminder) timer(next nextTick, namespace, app string, now rouse.Instant) (t rouse.Timer, over bool, err error) {
	named := &schedulerv1.NamedJob{Name: r.Name, Job: &schedulerv1.Job{DueTime: proto.String(next.at.UTC().Format(time.RFC3339Nano))},
		Metadata: &schedulerv1.JobMetadata{Namespace: namespace, AppId: app, Target: &schedulerv1.JobTargetMetadata{
			Type: &schedulerv1.JobTargetMetadata_Actor{Actor: &schedulerv1.TargetActorReminder{Type: r.Type, Id: r.ID}}}}}
	for _, part := range []struct{ field, text string }{{"actorType", r.Type}, {"actorID", r.ID}, {"name", r.Name}} {
		if part.text == "" {
			return t, false, rouse.Refuse(part.field, "", "is missing", "a reminder without it cannot be delivered")
		}
	}
	ref, err := job.Of(named.Name, named.Metadata)
	if err != nil {
		return t, false, err
	}
	if schedule, err := next.period.schedule(next.at); err != nil {
		return t, false, err
	} else if schedule != "" {
		named.Job.Schedule = &schedule
		if next.left > 0 {
			named.Job.Repeats = proto.Uint32(uint32(next.left))
		}
		if r.Expiration != "" {
			named.Job.Ttl = &r.Expiration
		}
	}
	if data := bytes.TrimSpace(r.Data); len(data) > 0 && string(data) != "null" {
		if named.Job.Data, err = anypb.New(wrapperspb.Bytes(data)); err != nil { // sidecars send the JSON to the actor unchanged
			return t, false, err
		}
	}
	made, err := job.New(ref, named, now)
	if err != nil {
		return t, false, err
	}
	return rouse.Timer{Key: ref.Key(), Spec: made.Spec, Due: next.due}, made.Over, nil
}

// oldPeriod is the interval between the ticks of a reminder; zero: it has one tick.
type oldPeriod struct {
	text   string
	months int
	every  time.Duration
}

// readOldPeriod parses a Go duration or an ISO 8601 duration, optionally preceded by repetitions: R5/PT10S.
func readOldPeriod(text string) (p oldPeriod, left int, err error) {
	refuse := func(wrong string) (oldPeriod, int, error) {
		return p, 0, rouse.Refuse("period", text, wrong, `it should be such as "10m", "PT10M" or "R5/PT10M"`)
	}
	p.text, left = text, -1
	rest := text
	if strings.HasPrefix(text, "R") {
		count, after, _ := strings.Cut(text[1:], "/")
		if left, err = strconv.Atoi(count); err != nil || left == 0 || left > 1<<31 {
			return refuse("has no number of repetitions")
		}
		if rest = after; rest == "" {
			return p, left, nil
		}
		if rest[0] != 'P' {
			return refuse("has repetitions of what is no ISO 8601 duration")
		}
	}
	if rest == "" {
		return p, left, nil
	}
	if p.every, err = time.ParseDuration(rest); err == nil {
		if p.every < 0 {
			return refuse("is negative")
		}
		return p, left, nil
	}
	if wrong := p.iso(rest); wrong != "" {
		return refuse(wrong)
	}
	return p, left, nil
}

// iso parses P1Y2M3W4DT5H6M7S.
func (p *oldPeriod) iso(text string) (wrong string) {
	const none = "is no duration"
	rest, ok := strings.CutPrefix(text, "P")
	if !ok || rest == "" {
		return none
	}
	months := map[string]int{"Y": 12, "M": 1}
	elapsed := map[string]time.Duration{"W": 7 * 24 * time.Hour, "D": 24 * time.Hour, "TH": time.Hour, "TM": time.Minute, "TS": time.Second}
	clock := ""
	for rest != "" {
		if rest[0] == 'T' && clock == "" && len(rest) > 1 {
			rest, clock = rest[1:], "T"
		}
		end := strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' })
		if end <= 0 {
			return none
		}
		n, err := strconv.Atoi(rest[:end])
		name := clock + rest[end:end+1]
		unit, months := elapsed[name], months[name]
		switch {
		case err != nil, unit == 0 && months == 0:
			return none
		case months > 0 && n > maxPeriodYears, unit > 0 && n > int(maxPeriodYears*365*24*time.Hour/unit):
			return fmt.Sprintf("is longer than %d years", maxPeriodYears)
		}
		p.months += n * months
		p.every += time.Duration(n) * unit
		rest = rest[end+1:]
	}
	return ""
}

// maxPeriodYears bounds each of the up to seven parts of a period, so that none overflows.
const maxPeriodYears = 40

// after returns the next tick.
func (p oldPeriod) after(at time.Time) time.Time { return at.AddDate(0, p.months, 0).Add(p.every) }

// schedule returns the period in the form of Dapr's scheduler, given the time of one tick; "" if there is
// only one tick.
func (p oldPeriod) schedule(at time.Time) (string, error) {
	utc := at.UTC()
	switch {
	case p.months == 0 && p.every == 0:
		return "", nil
	case p.months == 0:
		return "@every " + p.every.String(), nil
	case p.every == 0 && 12%p.months == 0 && utc.Day() <= 28 && at.Day() == utc.Day():
		var months []string
		for m := range 12 / p.months {
			months = append(months, strconv.Itoa((int(utc.Month())-1+m*p.months)%12+1))
		}
		return fmt.Sprintf("%d %d %d %d %s *", utc.Second(), utc.Minute(), utc.Hour(), utc.Day(), strings.Join(months, ",")), nil
	}
	return "", rouse.Refuse("period", p.text, "is one of months that no schedule can express, from "+at.Format(time.RFC3339)+" on",
		"months that divide a year can be expressed, on days up to the 28th: schedule it again, with cron")
}
