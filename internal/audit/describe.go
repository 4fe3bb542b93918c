package audit

import (
	"cmp"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The services of rouse.v1 declare the subjects of their requests. Those of others do not: these are the
// fields of their requests that name it, in their order. Nothing else of a request gets into an event.
var subjects = []protoreflect.Name{"app_id", "actor_id", "reminder_id"}

// within are fields whose messages have such fields.
var within = []protoreflect.Name{"initial", "metadata", "reminder", "hello", "caller", "actor"}

// Request notes the names in a message of another service than those of rouse.v1.
func (c *Call) Request(message any) {
	m, ok := message.(proto.Message)
	if c == nil || !ok {
		return
	}
	var d description
	d.readAll(m.ProtoReflect())
	c.About(d.namespace, append([]string{d.name}, d.others...)...)
}

// Joined is the name of an occurrence next to its timer.
func Joined(name, fire string) string {
	if fire == "" {
		return name
	}
	return name + "/" + fire
}

type description struct {
	namespace, name string
	others          []string
}

// readAll reads a message and those within it.
func (d *description) readAll(m protoreflect.Message) {
	read := func(name protoreflect.Name) string {
		f := m.Descriptor().Fields().ByName(name)
		if f == nil || f.Kind() != protoreflect.StringKind || f.IsList() {
			return ""
		}
		return m.Get(f).String()
	}
	d.namespace = cmp.Or(read("namespace"), d.namespace)
	d.name = cmp.Or(read("name"), d.name)
	for _, name := range subjects {
		if s := read(name); s != "" {
			d.others = append(d.others, s)
		}
	}
	for _, field := range within {
		if f := m.Descriptor().Fields().ByName(field); f != nil && f.Message() != nil && !f.IsList() &&
			!f.IsMap() && m.Has(f) {
			d.readAll(m.Get(f).Message())
		}
	}
}
