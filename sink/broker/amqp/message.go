package amqp

import (
	"strconv"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/cloudevent"
)

// headerAttempt distinguishes attempts of one fire.
const headerAttempt = "rouse-attempt"

// newPublishing returns the message for a fire.
func newPublishing(m *broker.Message) amqp091.Publishing {
	f := m.Fire
	due, token, generation := f.Due.String(), strconv.FormatUint(f.Token, 10), strconv.FormatUint(f.Generation, 10)
	h := make(amqp091.Table, 18)
	h["rouse-fire-id"] = f.ID
	h["rouse-namespace"] = f.Namespace
	h["rouse-timer"] = f.Name
	h["rouse-due"] = due
	h[headerAttempt] = int64(f.Attempt)
	h["rouse-token"] = token
	h["rouse-generation"] = generation
	h["rouse-manual"] = f.Manual
	h["rouse-last"] = f.Last
	if f.Traceparent != "" {
		h["traceparent"] = f.Traceparent
	}
	p := amqp091.Publishing{Headers: h, DeliveryMode: amqp091.Persistent, MessageId: f.ID, Type: cloudevent.Type,
		AppId: "rouse"}
	if m.Target.Structured {
		p.ContentType = "application/cloudevents+json"
		p.Body = cloudevent.Append(make([]byte, 0, cloudevent.Size(f)), f)
		return p
	}
	p.ContentType, p.Body = cloudevent.ContentType(f.Spec), f.Spec.Payload
	h["cloudEvents_specversion"] = "1.0"
	h["cloudEvents_id"] = f.ID
	h["cloudEvents_source"] = cloudevent.Source(f)
	h["cloudEvents_type"] = cloudevent.Type
	h["cloudEvents_time"] = due
	h["cloudEvents_subject"] = f.Name
	h["cloudEvents_attempt"] = int64(f.Attempt)
	h["cloudEvents_token"] = token
	h["cloudEvents_generation"] = generation
	return p
}
