package redis

import (
	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/cloudevent"
)

// entry is the command for a message.
type entry struct {
	i    int // index of the message
	args []any
}

// newEntry returns the command that adds a message to the stream of a key.
func (p *Publisher) newEntry(i int, key string, m *broker.Message) entry {
	f := m.Fire
	args := make([]any, 0, 38)
	args = append(args, "XADD", key)
	if p.c.MaxLength > 0 {
		args = append(args, "MAXLEN", "~", p.c.MaxLength)
	}
	args = append(args, "*")
	if m.Target.Structured {
		return entry{i, append(args, "id", f.ID, "event", cloudevent.Append(make([]byte, 0, cloudevent.Size(f)), f))}
	}
	args = append(args, "specversion", "1.0", "id", f.ID, "source", cloudevent.Source(f), "type", cloudevent.Type, "time",
		f.Due.String(), "subject", f.Name)
	if kind := cloudevent.ContentType(f.Spec); kind != "" {
		args = append(args, "datacontenttype", kind)
	}
	if f.Traceparent != "" {
		args = append(args, "traceparent", f.Traceparent)
	}
	return entry{i, append(args, "attempt", f.Attempt, "token", f.Token, "generation", f.Generation, "namespace",
		f.Namespace,
		"manual", boolText(f.Manual), "last", boolText(f.Last), "data", f.Spec.Payload)}
}

func boolText(yes bool) string {
	if yes {
		return "true"
	}
	return "false"
}
