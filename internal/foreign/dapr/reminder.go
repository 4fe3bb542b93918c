package dapr

import (
	"bytes"
	"encoding/json"
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
	"github.com/rousehq/rouse/internal/foreign"
)

// reminder is a reminder in a list.
type reminder struct {
	ID         string          `json:"actorID"`
	Type       string          `json:"actorType"`
	Name       string          `json:"name"`
	Data       json.RawMessage `json:"data"`
	Period     string          `json:"period"`
	DueTime    string          `json:"dueTime"`        // as requested
	Registered string          `json:"registeredTime"` // when it is due first
	Expiration string          `json:"expirationTime"`
}

// track is when a reminder last fired, and how many fires are left; below 0 is without end.
type track struct {
	Last string `json:"lastFiredTime"`
	Left int    `json:"repetitionLeft"`
}

func (r *reminder) reminderKey() string { return strings.Join([]string{r.Type, r.ID, r.Name}, "||") }

func parseTrack(body []byte) (*track, bool) {
	t := &track{Left: -1}
	ok := bytes.Contains(body, []byte(`"lastFiredTime"`)) && json.Unmarshal(body, t) == nil
	return t, ok && t.Last != ""
}

// parseReminders parses a list of reminders of one type.
func parseReminders(body []byte, typ string) (list []reminder, err error) {
	if rest, ok := bytes.CutPrefix(body, protobufMark); ok {
		list, err = parseProtobuf(rest)
	} else {
		err = json.Unmarshal(body, &list)
	}
	if err != nil {
		return nil, rouse.Refuse("value", rouse.Shorten(string(body), 60), "is no list of reminders: "+err.Error(),
			"export it again")
	}
	for i := range list {
		if list[i].Type == "" {
			list[i].Type = typ
		}
	}
	return list, nil
}

// parseProtobuf parses a list in protobuf: field 1 of a message has the reminders, each with fields in the
// order of reminder, except that the first two are swapped.
func parseProtobuf(body []byte) (list []reminder, err error) {
	err = eachField(body, func(number protowire.Number, value []byte) error {
		if number != 1 {
			return nil
		}
		var r reminder
		err := eachField(value, func(number protowire.Number, value []byte) (err error) {
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

// eachField calls do for each length-delimited field of a message.
func eachField(body []byte, do func(number protowire.Number, value []byte) error) error {
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
	period period
	left   int    // ticks; below 0 is without end
	over   string // why there is none
}

// findNextTick returns the next tick of a reminder.
func (r *reminder) findNextTick(last *track, now rouse.Instant) (n nextTick, err error) {
	if n.period, n.left, err = parsePeriod(r.Period); err != nil {
		return n, err
	}
	if n.at, err = r.firstDueTime(); err != nil {
		return n, err
	}
	if last != nil {
		at, err := time.Parse(time.RFC3339, last.Last)
		if err != nil {
			return n, rouse.Refuse("lastFiredTime", last.Last, "is no time", "it should be such as 2023-01-31T09:00:00Z")
		}
		n.at, n.left = n.period.tickAfter(at), last.Left
	}
	n.due = rouse.At(n.at)
	end, err := r.parseExpiration()
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

// firstDueTime returns when a reminder was first due.
func (r *reminder) firstDueTime() (time.Time, error) {
	for _, text := range []string{r.Registered, r.DueTime} { // the requested time may be absolute, too
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, rouse.Refuse("registeredTime", r.Registered, "is no time",
		"it should be such as 2023-01-31T09:00:00Z; set when the reminder is due")
}

func (r *reminder) parseExpiration() (rouse.Instant, error) {
	if r.Expiration == "" {
		return 0, nil
	}
	at, err := time.Parse(time.RFC3339, r.Expiration)
	if err != nil {
		return 0, rouse.Refuse("expirationTime", r.Expiration, "is no time", "it should be such as 2023-01-31T09:00:00Z")
	}
	return rouse.At(at), nil
}

// resumeReminder sets the timer of a reminder, as Dapr's scheduler would have it, or why there is none. last
// is its last tick, if it has one.
func (r *reminder) resumeReminder(e *foreign.Resumed, last *track, s *Selection, now rouse.Instant) {
	next, err := r.findNextTick(last, now)
	if e.Err = err; err != nil {
		return
	}
	e.Timer.Due = next.due
	if next.over == "" {
		next.over, e.Err = r.fillTimer(&e.Timer, next, s, now)
	}
	if e.Why = next.over; e.Why != "" {
		e.Outcome = foreign.Over
	}
	e.Size = len(e.Timer.Spec.Payload)
}

// fillTimer sets the key and the spec of the timer of a reminder. over is why there is no tick.
func (r *reminder) fillTimer(t *rouse.Timer, next nextTick, s *Selection, now rouse.Instant) (over string, err error) {
	for _, part := range []struct{ field, text string }{{"actorType", r.Type}, {"actorID", r.ID}, {"name", r.Name}} {
		if part.text == "" {
			return "", rouse.Refuse(part.field, "", "is missing", "a reminder without it cannot be delivered")
		}
	}
	named := &schedulerv1.NamedJob{Name: r.Name, Metadata: actorMetadata(s.Namespace, s.As, r.Type, r.ID),
		Job: &schedulerv1.Job{DueTime: new(next.at.UTC().Format(time.RFC3339Nano))}}
	ref, err := job.Of(named.Name, named.Metadata)
	if err != nil {
		return "", err
	}
	if schedule, err := next.period.daprSchedule(next.at); err != nil {
		return "", err
	} else if schedule != "" {
		named.Job.Schedule = &schedule
		if next.left > 0 {
			named.Job.Repeats = new(uint32(next.left))
		}
		if r.Expiration != "" {
			named.Job.Ttl = &r.Expiration
		}
	}
	if data := bytes.TrimSpace(r.Data); len(data) > 0 && string(data) != "null" {
		// sidecars send the JSON to the actor unchanged
		if named.Job.Data, err = anypb.New(wrapperspb.Bytes(data)); err != nil {
			return "", err
		}
	}
	made, err := job.New(ref, named, now)
	if err == nil && made.Over {
		over = "it ends before it is due"
	}
	t.Key, t.Spec = ref.Key(), made.Spec
	return over, err
}
