package foreign

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/rousehq/rouse"
)

var asynqNotes = []string{
	"asynq gives a task to a handler of a program that links it; rouse calls a target, which gets the task as JSON: {\"id\": …, \"type\": …, \"payload\": …, \"queue\": …}. It can enqueue the task, without ProcessAt.",
	"asynq looks at what is scheduled every five seconds, and knows whole seconds; rouse fires within milliseconds. Its pauses between attempts are those of retry.",
	"The tasks stay in asynq: delete them there before these timers are due, or both run. Periodic tasks are not in Redis, but in the program.",
}

// asynqTask is a task in the sorted set of scheduled tasks, or of retries.
type asynqTask struct {
	State string
	At    int64  // seconds since 1970
	Msg   latin1 // asynq's TaskMessage, in the binary form of protobuf
}

// latin1 are bytes in a text, each as the character with its number.
type latin1 []byte

func (b *latin1) UnmarshalText(text []byte) error {
	for _, r := range string(text) {
		if r > math.MaxUint8 {
			return errors.New("a message has a character that is no byte")
		}
		*b = append(*b, byte(r))
	}
	return nil
}

// readAsynq reads the output of the script for Redis: JSON whose texts have bytes in place of characters,
// which is read as Latin-1. In hexadecimal the script would keep Redis five times as long.
func readAsynq(in []byte, _ *Options) ([]Entry, error) {
	text := make([]byte, 0, len(in)+len(in)/4)
	for _, b := range in {
		text = utf8.AppendRune(text, rune(b))
	}
	tasks, err := readObjects[json.RawMessage](text, "tasks, as docs/moving-in.md exports them")
	if err != nil {
		return nil, err
	}
	return readEntries(tasks, func(in json.RawMessage, number int) (Entry, []json.RawMessage) {
		var t asynqTask
		return readEntry(in, number, &t, t.newAsynqEntry), nil
	}), nil
}

// asynqMessage has the members of a TaskMessage that are used.
type asynqMessage struct {
	id, kind, queue, failure, unique string
	payload                          []byte
	headers                          map[string]string
	retry, retried                   int64
	timeout, deadline, retention     int64 // seconds; deadline since 1970
}

// decodeMessage reads the form of protobuf. Fields that it does not know are left out.
func (m *asynqMessage) decodeMessage(in []byte) error {
	texts := map[protowire.Number]*string{1: &m.kind, 3: &m.id, 4: &m.queue, 7: &m.failure, 10: &m.unique}
	numbers := map[protowire.Number]*int64{5: &m.retry, 6: &m.retried, 8: &m.timeout, 9: &m.deadline, 12: &m.retention}
	m.headers = map[string]string{}
	return eachField(in, func(field protowire.Number, number uint64, body []byte) error {
		switch {
		case texts[field] != nil:
			*texts[field] = string(body)
		case numbers[field] != nil:
			*numbers[field] = int64(number)
		case field == 2:
			m.payload = body
		case field == 15:
			var header [2]string
			err := eachField(body, func(part protowire.Number, _ uint64, text []byte) error {
				if part == 1 || part == 2 {
					header[part-1] = string(text)
				}
				return nil
			})
			m.headers[header[0]] = header[1]
			return err
		}
		return nil
	})
}

// eachField calls do for each field of a message, with its number or its bytes.
func eachField(in []byte, do func(field protowire.Number, number uint64, body []byte) error) error {
	for len(in) > 0 {
		field, kind, n := protowire.ConsumeTag(in)
		if n < 0 {
			return protowire.ParseError(n)
		}
		in = in[n:]
		var number uint64
		var body []byte
		switch kind {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(in)
		case protowire.BytesType:
			body, n = protowire.ConsumeBytes(in)
		default:
			n = protowire.ConsumeFieldValue(field, kind, in)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := do(field, number, body); err != nil {
			return err
		}
		in = in[n:]
	}
	return nil
}

func (t *asynqTask) newAsynqEntry(number int) Entry {
	e := Entry{Line: number, Late: true}
	var m asynqMessage
	err := m.decodeMessage(t.Msg)
	if err == nil && (m.kind == "" || m.id == "") {
		err = errors.New("it has no type or no id")
	}
	if err != nil {
		e.Err = rouse.Refuse("msg", rouse.Shorten(string(t.Msg), 64), "is no task of asynq: "+err.Error(),
			"give tasks as docs/moving-in.md exports them")
		return e
	}
	e.Name = m.kind + "-" + m.id
	s := &e.Spec
	s.Labels = map[string]string{"type": m.kind, "queue": m.queue}
	s.Payload, s.ContentType = m.targetPayload(), "application/json"
	due := rouse.Instant(min(max(t.At, math.MinInt64/1000), math.MaxInt64/1000) * 1000)
	s.Schedule = due.String()
	if t.State != "scheduled" && t.State != "retry" {
		e.Err = rouse.Refuse("state", t.State, "is not of a task that waits for its time",
			"leave it to asynq, which works it now, or has done so")
	}
	s.Retry.Attempts = countAttempts(m.retry-m.retried) + 1
	if t.State == "retry" {
		e.noteDifference("it has failed, the last time with %q; attempts left: %d.", rouse.Shorten(m.failure, 128),
			s.Retry.Attempts)
	}
	e.setTimeout(clampSeconds(m.timeout))
	if m.deadline > t.At {
		s.Deadline = clampSeconds(m.deadline - t.At)
	}
	s.Keep = clampSeconds(m.retention)
	if m.unique != "" {
		e.noteDifference("it is unique in asynq; here only its name is, which has its id.")
	}
	return e
}

// clampSeconds returns a duration, none for a negative number.
func clampSeconds(n int64) time.Duration {
	const most = 100 * 366 * 24 * 60 * 60 // no overflow: a longer time is refused later
	return time.Duration(min(max(0, n), most)) * time.Second
}

// countAttempts returns a number of attempts, none for a negative number.
func countAttempts(n int64) uint32 {
	return uint32(min(max(0, n), math.MaxInt32)) // a larger number is refused later
}

// targetPayload returns the payload of the timer: a payload that is JSON as it is, any other in base64.
func (m *asynqMessage) targetPayload() []byte {
	form := struct {
		ID      string            `json:"id"`
		Type    string            `json:"type"`
		Payload json.RawMessage   `json:"payload,omitempty"`
		Base64  []byte            `json:"payload_base64,omitempty"`
		Queue   string            `json:"queue"`
		Headers map[string]string `json:"headers,omitempty"`
	}{ID: m.id, Type: m.kind, Queue: m.queue, Headers: m.headers}
	if body := bytes.TrimSpace(m.payload); json.Valid(body) {
		form.Payload = body
	} else {
		form.Base64 = m.payload
	}
	return encodePayload(form)
}
