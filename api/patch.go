package api

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/rousehq/rouse"
)

// Patch is a JSON merge patch (RFC 7396) of a spec: a member replaces that of the spec, null removes it, and
// of an object the members do so. A payload is replaced as a whole, because it belongs to the receiver.
type Patch map[string]jsontext.Value

// PatchTo returns the members of a spec.
func PatchTo(s *rouse.Spec) (p Patch, err error) {
	text, err := json.Marshal(SpecOf(s), json.Deterministic(true))
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	return p, err
}

// PatchOf returns the patch that makes one JSON object of another one.
func PatchOf(was, is Patch) (Patch, error) {
	p := Patch{}
	for name := range was {
		if is[name] == nil {
			p[name] = jsontext.Value("null")
		}
	}
	for name, value := range is {
		old := was[name]
		if string(old) == string(value) {
			continue
		}
		p[name] = value
		if name == "payload" || old.Kind() != jsontext.KindBeginObject || value.Kind() != jsontext.KindBeginObject {
			continue
		}
		var a, b Patch
		if err := errors.Join(json.Unmarshal(old, &a), json.Unmarshal(value, &b)); err != nil {
			return nil, err
		}
		inner, err := PatchOf(a, b)
		if err != nil {
			return nil, err
		}
		p[name] = jsontext.Value(inner.String())
	}
	return p, nil
}

// Remove makes the patch remove a member, such as "retry", "retry.attempts" or "labels.team".
func (p Patch) Remove(path string) error {
	levels := 2 // names of labels and headers have dots, too
	if strings.HasPrefix(path, "webhook.headers.") {
		levels = 3
	}
	return p.setMember(strings.SplitN(path, ".", levels), jsontext.Value("null"))
}

// setMember gives a member at a path a value.
func (p Patch) setMember(path []string, value jsontext.Value) error {
	if len(path) == 1 {
		p[path[0]] = value
		return nil
	}
	inner := Patch{}
	if was := p[path[0]]; was.Kind() == jsontext.KindBeginObject {
		if err := json.Unmarshal(was, &inner); err != nil {
			return err
		}
	}
	err := inner.setMember(path[1:], value)
	p[path[0]] = jsontext.Value(inner.String())
	return err
}

// String returns the patch as JSON, with its members in order.
func (p Patch) String() string {
	text, err := json.Marshal(p, json.Deterministic(true))
	if err != nil { // no member is what Decode reads
		return ""
	}
	return string(text)
}

// ApplyTo returns a spec with the changes of the patch. It refuses members without a meaning with a
// *rouse.Invalid; rouse.Spec.Check checks whether values are within their bounds.
func (p Patch) ApplyTo(s *rouse.Spec) (rouse.Spec, error) {
	if err := decodeStrictly([]byte(p.String()), new(Spec)); err != nil { // also of what is removed
		return rouse.Spec{}, err
	}
	members, err := PatchTo(s)
	if err != nil {
		return rouse.Spec{}, err
	}
	payload := p["payload"]
	keeps := payload == nil && p["payload_base64"] == nil
	if !keeps {
		delete(members, "payload")
		delete(members, "payload_base64")
		if !isJSON(s.ContentType) || p["payload_base64"] != nil { // it was that of the other form
			delete(members, "content_type")
		}
	}
	for name, value := range p {
		if err := members.mergeMember(name, value, name == "payload"); err != nil {
			return rouse.Spec{}, err
		}
	}
	text, err := json.Marshal(members)
	if err != nil {
		return rouse.Spec{}, err
	}
	var o Spec
	if err := Decode(text, &o); err != nil {
		return rouse.Spec{}, err
	}
	spec, err := o.Parse()
	switch { // byte for byte
	case keeps:
		spec.Payload = s.Payload
	case payload != nil && payload.Kind() != jsontext.KindNull:
		spec.Payload = payload
	}
	return spec, err
}

// mergeMember gives a member another value; with whole it is not merged with the value that the member has.
func (p Patch) mergeMember(name string, value jsontext.Value, whole bool) (err error) {
	switch {
	case value.Kind() == jsontext.KindNull:
		delete(p, name)
		return nil
	case whole || value.Kind() != jsontext.KindBeginObject:
		p[name] = value
		return nil
	}
	var is, with Patch
	if was := p[name]; was.Kind() == jsontext.KindBeginObject {
		if err := json.Unmarshal(was, &is); err != nil {
			return err
		}
	}
	if err := json.Unmarshal(value, &with); err != nil {
		return err
	}
	if is == nil {
		is = Patch{}
	}
	for inner, v := range with {
		if err := is.mergeMember(inner, v, false); err != nil {
			return err
		}
	}
	p[name], err = json.Marshal(is)
	return err
}
