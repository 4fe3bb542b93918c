package foreign

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/rousehq/rouse"
)

// encodePayload returns the JSON of a value of texts, as a person would write it.
func encodePayload(v any) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // texts always can be
	return bytes.TrimSpace(out.Bytes())
}

// readObjects reads a JSON object, several one after the other, or an array of them.
func readObjects[T any](in []byte, want string) (list []T, err error) {
	refuse := func(wrong string) error { return rouse.Refuse("file", "", wrong, "give "+want) }
	for d := json.NewDecoder(bytes.NewReader(in)); ; {
		var raw json.RawMessage
		if err := d.Decode(&raw); err == io.EOF { // More would also end at a bracket too many
			break
		} else if err != nil {
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

// ignored is a member that has no meaning for a timer.
type ignored struct{}

func (*ignored) UnmarshalJSON([]byte) error { return nil }

// readEntries reads objects with a function that returns the entry of one, or those that it lists if it is an
// answer of an API.
func readEntries(list []json.RawMessage, read func(in json.RawMessage, number int) (Entry,
	[]json.RawMessage)) (entries []Entry) {
	for _, in := range list {
		e, listed := read(in, len(entries)+1)
		if listed == nil {
			entries = append(entries, e)
		}
		for _, in := range listed {
			e, _ := read(in, len(entries)+1)
			entries = append(entries, e)
		}
	}
	return entries
}

// readEntry reads an object into a structure, and returns its entry, with a note of the members that the
// structure does not have. An object that cannot be read leaves the others as they are.
func readEntry(in json.RawMessage, number int, to any, entry func(number int) Entry) Entry {
	var read Entry
	if err := read.readMembers(in, to); err != nil {
		return Entry{Line: number, Name: read.Name, Err: err}
	}
	e := entry(number)
	e.Notes = append(e.Notes, read.Notes...)
	return e
}

// readMembers reads an object into a structure, and notes the members that the structure does not have. One
// that cannot be read gives the entry its name only.
func (e *Entry) readMembers(in json.RawMessage, to any) error {
	if err := json.Unmarshal(in, to); err != nil {
		var named struct{ Name, JobName string }
		_ = json.Unmarshal(in, &named) // a name identifies it for people
		e.Name = cmp.Or(named.Name, named.JobName)
		return refuseMember(err)
	}
	var unread []string
	addUnread(&unread, "", in, reflect.TypeOf(to))
	slices.Sort(unread)
	e.noteUnread(unread)
	return nil
}

// refuseMember returns the error of an object that has the form of JSON.
func refuseMember(err error) error {
	field, wrong := "entry", err.Error()
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field, wrong = cmp.Or(strings.TrimPrefix(t.Field, "."), field), "has the type "+t.Value
	}
	return rouse.Refuse(field, "", wrong, "give what the source's own command prints")
}

// addUnread adds the members of an object that a type does not have. Those that are null are as absent.
func addUnread(unread *[]string, prefix string, in json.RawMessage, t reflect.Type) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var members map[string]json.RawMessage
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[ignored]() || json.Unmarshal(in, &members) != nil {
		return
	}
	for name, value := range members {
		field := memberType(t, name)
		switch {
		case string(value) == "null":
		case field != nil:
			addUnread(unread, prefix+name+".", value, field)
		default:
			*unread = append(*unread, prefix+name)
		}
	}
}

// memberName returns the name of a member in JSON.
func memberName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return cmp.Or(name, f.Name)
}

// memberType returns the type of a member of a structure; nil if it has none of that name.
func memberType(t reflect.Type, name string) reflect.Type {
	for i := range t.NumField() {
		if f := t.Field(i); strings.EqualFold(memberName(f), name) {
			return f.Type
		}
	}
	return nil
}

// noteUnread notes the members of an entry that are not read.
func (e *Entry) noteUnread(names []string) {
	if len(names) > 0 {
		e.Notes = append(e.Notes, notRead(names))
	}
}

// notRead returns the note of the members that are not read.
func notRead(names []string) string {
	if more := len(names) - maxLeftOut; more > 0 {
		names = append(names[:maxLeftOut:maxLeftOut], fmt.Sprintf("and %d more", more))
	}
	return "not read: " + strings.Join(names, ", ") + "."
}
