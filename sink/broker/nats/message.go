package nats

import (
	"strconv"

	natsgo "github.com/nats-io/nats.go"

	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/cloudevent"
)

// newMessage returns the message of a fire to a subject.
func newMessage(m *broker.Message, subject string) *natsgo.Msg {
	f := m.Fire
	h := header{make(natsgo.Header, 23), make([]string, 0, 23)}
	name, due := cloudevent.Percent(f.Name), f.Due.String()
	attempt := strconv.FormatUint(uint64(f.Attempt), 10)
	token, generation := strconv.FormatUint(f.Token, 10), strconv.FormatUint(f.Generation, 10)
	h.setHeader(natsgo.MsgIdHdr, f.ID)
	h.setHeader("rouse-fire-id", f.ID)
	h.setHeader("rouse-namespace", f.Namespace)
	h.setHeader("rouse-timer", name)
	h.setHeader("rouse-due", due)
	h.setHeader("rouse-attempt", attempt)
	h.setHeader("rouse-token", token)
	h.setHeader("rouse-generation", generation)
	h.setHeader("rouse-manual", strconv.FormatBool(f.Manual))
	h.setHeader("rouse-last", strconv.FormatBool(f.Last))
	if f.Traceparent != "" {
		h.setHeader("traceparent", f.Traceparent)
	}
	if m.Target.Structured {
		h.setHeader("content-type", "application/cloudevents+json")
		return &natsgo.Msg{Subject: subject, Header: h.h, Data: cloudevent.Append(make([]byte, 0, cloudevent.Size(f)), f)}
	}
	if kind := cloudevent.ContentType(f.Spec); kind != "" {
		h.setHeader("content-type", kind)
		h.setHeader("ce-datacontenttype", cloudevent.Percent(kind))
	}
	h.setHeader("ce-specversion", "1.0")
	h.setHeader("ce-id", f.ID)
	h.setHeader("ce-source", cloudevent.Percent(cloudevent.Source(f)))
	h.setHeader("ce-type", cloudevent.Type)
	h.setHeader("ce-time", due)
	h.setHeader("ce-subject", name)
	h.setHeader("ce-attempt", attempt)
	h.setHeader("ce-token", token)
	h.setHeader("ce-generation", generation)
	return &natsgo.Msg{Subject: subject, Header: h.h, Data: f.Spec.Payload}
}

// header collects the headers of a message. The values share one array, as there are two dozen of them.
type header struct {
	h      natsgo.Header
	values []string
}

func (h *header) setHeader(name, value string) {
	h.values = append(h.values, value)
	h.h[name] = h.values[len(h.values)-1 : len(h.values) : len(h.values)]
}
