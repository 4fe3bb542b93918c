package audit

import (
	"cmp"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Fields of requests that name what they are about. Nothing else of a request gets into an event.
const (
	fieldNamespace = "namespace"
	fieldName      = "name"
	fieldFire      = "fire_id"
)

// otherNames are further fields that name something.
var otherNames = []protoreflect.Name{"id", "channel", "pool", "key", "app_id", "actor_id", "reminder_id"}

// within are fields whose messages have such fields.
var within = []protoreflect.Name{"filter", "open", "initial", "metadata", "role", "reminder", "hello", "caller", "actor"}

// Request notes what a message asks for.
func (c *Call) Request(message any) {
	m, ok := message.(proto.Message)
	if c == nil || !ok {
		return
	}
	var d description
	switch m.ProtoReflect().Descriptor().Name() {
	case "ListAuditRequest", "FollowAuditRequest": // what is looked for in the audit log is not what the call is about
		d.read(m.ProtoReflect())
	default:
		d.readAll(m.ProtoReflect())
	}
	if name := string(m.ProtoReflect().Descriptor().Name()); strings.HasSuffix(name, "NamespaceRequest") {
		c.About(d.name)
		return
	}
	c.About(d.namespace, append([]string{Joined(d.name, d.fire)}, d.others...)...)
}

// Joined is the name of an occurrence next to its timer.
func Joined(name, fire string) string {
	if fire == "" {
		return name
	}
	return name + "/" + fire
}

type description struct {
	namespace, name, fire string
	others                []string
}

// readAll reads a message and those within it, and the first of its timers.
func (d *description) readAll(m protoreflect.Message) {
	d.read(m)
	if f := m.Descriptor().Fields().ByName("timers"); f != nil && f.IsList() && f.Message() != nil {
		list := m.Get(f).List()
		for i := range min(list.Len(), MaxNames) {
			var t description
			t.read(list.Get(i).Message())
			d.namespace = cmp.Or(d.namespace, t.namespace)
			d.others = append(d.others, Joined(t.name, t.fire))
		}
	}
	for _, field := range within {
		if f := m.Descriptor().Fields().ByName(field); f != nil && f.Message() != nil && !f.IsList() && !f.IsMap() && m.Has(f) {
			d.readAll(m.Get(f).Message())
			if d.namespace == "" && field == "filter" {
				d.namespace = Several
			}
		}
	}
}

func (d *description) read(m protoreflect.Message) {
	text := func(name protoreflect.Name) (string, bool) {
		f := m.Descriptor().Fields().ByName(name)
		if f == nil || f.Kind() != protoreflect.StringKind || f.IsList() {
			return "", false
		}
		return m.Get(f).String(), true
	}
	set := func(to *string, name protoreflect.Name) {
		if s, _ := text(name); s != "" {
			*to = s
		}
	}
	set(&d.namespace, fieldNamespace)
	set(&d.name, fieldName)
	set(&d.fire, fieldFire)
	for _, name := range otherNames {
		if s, _ := text(name); s != "" {
			d.others = append(d.others, s)
		}
	}
}
