package foreign

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/rousehq/rouse"
)

// payload returns the JSON of a value of texts, as a person would write it.
func payload(v any) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // texts always can be
	return bytes.TrimSpace(out.Bytes())
}

// objects reads a JSON object, several one after the other, or an array of them.
func objects[T any](in []byte, want string) (list []T, err error) {
	refuse := func(wrong string) error { return rouse.Refuse("file", "", wrong, "give "+want) }
	for d := json.NewDecoder(bytes.NewReader(in)); d.More(); {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, refuse("is no JSON: " + err.Error())
		}
		if raw[0] != '[' {
			raw = append(append([]byte{'['}, raw...), ']')
		}
		var some []T
		if err := json.Unmarshal(raw, &some); err != nil {
			return nil, refuse("cannot be read: " + err.Error())
		}
		list = append(list, some...)
	}
	if len(list) == 0 {
		return nil, refuse("is empty")
	}
	return list, nil
}

// read reads an object of an entry, and notes its members that have no field there.
func (e *Entry) read(in json.RawMessage, to any) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(in, to); err != nil {
		return rouse.Refuse("entry", rouse.Shorten(string(in), 64), "cannot be read: "+err.Error(), "give it as docs/moving-in.md exports it")
	}
	_ = json.Unmarshal(in, &members) // it is an object
	fields := reflect.TypeOf(to).Elem()
	for i := range fields.NumField() {
		f := fields.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = strings.ToLower(f.Name)
		}
		delete(members, name)
	}
	if len(members) > 0 {
		e.note("what is not known is left out: %s.", strings.Join(slices.Sorted(maps.Keys(members)), ", "))
	}
	return nil
}
