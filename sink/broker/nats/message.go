package nats

import (
	"strconv"

	natsgo "github.com/nats-io/nats.go"

	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/cloudevent"
)

// message returns the message of a fire to a subject.
func message(m *broker.Message, subject string) *natsgo.Msg {
	f := m.Fire
	h := header{make(natsgo.Header, 23), make([]string, 0, 23)}
	name, due := cloudevent.Percent(f.Name), f.Due.String()
	attempt := strconv.FormatUint(uint64(f.Attempt), 10)
	token, generation := strconv.FormatUint(f.Token, 10), strconv.FormatUint(f.Generation, 10)
	h.set(natsgo.MsgIdHdr, f.ID)
	h.set("rouse-fire-id", f.ID)
	h.set("rouse-namespace", f.Namespace)
	h.set("rouse-timer", name)
	h.set("rouse-due", due)
	h.set("rouse-attempt", attempt)
	h.set("rouse-token", token)
	h.set("rouse-generation", generation)
	h.set("rouse-manual", strconv.FormatBool(f.Manual))
	h.set("rouse-last", strconv.FormatBool(f.Last))
	if f.Traceparent != "" {
		h.set("traceparent", f.Traceparent)
	}
	if m.Target.Structured {
		h.set("content-type", "application/cloudevents+json")
		return &natsgo.Msg{Subject: subject, Header: h.h, Data: cloudevent.Append(make([]byte, 0, cloudevent.Size(f)), f)}
	}
	if kind := cloudevent.ContentType(f.Spec); kind != "" {
		h.set("content-type", kind)
		h.set("ce-datacontenttype", cloudevent.Percent(kind))
	}
	h.set("ce-specversion", "1.0")
	h.set("ce-id", f.ID)
	h.set("ce-source", cloudevent.Percent(cloudevent.Source(f)))
	h.set("ce-type", cloudevent.Type)
	h.set("ce-time", due)
	h.set("ce-subject", name)
	h.set("ce-attempt", attempt)
	h.set("ce-token", token)
	h.set("ce-generation", generation)
	return &natsgo.Msg{Subject: subject, Header: h.h, Data: f.Spec.Payload}
}

// header collects the headers of a message. The values share one array, as there are two dozen of them.
type header struct {
	h      natsgo.Header
	values []string
}

func (h *header) set(name, value string) {
	h.values = append(h.values, value)
	h.h[name] = h.values[len(h.values)-1 : len(h.values) : len(h.values)]
}
