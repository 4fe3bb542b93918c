package declare

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
)

// sumOf returns a hash of a spec as the API shows it, without the label that holds such a hash.
func sumOf(spec *rouse.Spec) (string, error) {
	s := *spec
	s.Labels = maps.Clone(s.Labels)
	delete(s.Labels, AppliedLabel)
	body, err := api.Encode(api.SpecOf(&s))
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:16]), err
}

// owned returns the spec as apply writes it: with its owner, and the hash by which a change by another client
// is noticed.
func ownedBy(owner string, spec *rouse.Spec) (rouse.Spec, error) {
	s := *spec
	if s.Labels = maps.Clone(s.Labels); s.Labels == nil {
		s.Labels = map[string]string{}
	}
	s.Labels[OwnerLabel] = owner
	sum, err := sumOf(&s)
	s.Labels[AppliedLabel] = sum
	return s, err
}

// fieldsOf returns the members of a form of the API as texts: those of objects with the path to them,
// payloads and lists whole.
func fieldsOf(form any) (map[string]string, error) {
	body, err := api.Encode(form)
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	return fields, flattenMembers("", body, fields)
}

func flattenMembers(at string, value jsontext.Value, to map[string]string) error {
	switch {
	case at != "payload" && value.Kind() == jsontext.KindBeginObject:
		var members map[string]jsontext.Value
		if err := json.Unmarshal(value, &members); err != nil {
			return err
		}
		for name, v := range members {
			if err := flattenMembers(strings.TrimPrefix(at+"."+name, "."), v, to); err != nil {
				return err
			}
		}
		return nil
	case at != "payload" && value.Kind() == jsontext.KindString:
		text, err := jsontext.AppendUnquote(nil, value)
		to[at] = string(text)
		return err
	}
	to[at] = string(value)
	return nil
}

// samePayload reports whether the payloads of both are JSON of one value: programs that print JSON again,
// such as kubectl, put the members of its objects in another order.
func samePayload(a, b *rouse.Spec) bool {
	x, y := orderedJSON(a), orderedJSON(b)
	return x != nil && bytes.Equal(x, y)
}

// orderedJSON returns the payload of a spec without spaces and with its members in order, numbers and texts
// as they are written; nil if it is no JSON, or has a member twice.
func orderedJSON(s *rouse.Spec) []byte {
	shown, _ := api.PayloadOf(s.ContentType, s.Payload)
	ordered := shown.Clone()
	if ordered.Format(jsontext.ReorderRawObjects(true), jsontext.PreserveRawStrings(true)) != nil {
		return nil
	}
	return ordered
}

// dayFields returns the days of a calendar as texts.
func dayFields(days []rouse.Day) map[string]string {
	fields := map[string]string{}
	for _, d := range days {
		text := d.Text
		if text == "" {
			text = "a day"
		}
		fields["days."+d.Date.String()] = text
	}
	return fields
}

// diffLimit returns what changes in a limit when another replaces it.
func diffLimit(have, want rouse.Limit) ([]Change, error) {
	want, err := want.Replacing(have)
	if err != nil {
		return nil, err
	}
	old, err := fieldsOf(api.LimitOf(&have))
	if err != nil {
		return nil, err
	}
	wanted, err := fieldsOf(api.LimitOf(&want))
	return diffFields(old, wanted), err
}

// Change is a member that differs; a text that is empty stands for none.
type Change struct {
	Field string `json:"field"`
	Old   string `json:"old,omitzero"`
	New   string `json:"new,omitzero"`
}

// maxFieldText bounds the text of a member in a difference.
const maxFieldText = 120

// diffFields returns the members that differ, by name.
func diffFields(have, want map[string]string) (changes []Change) {
	for field := range maps.Keys(have) {
		if have[field] != want[field] {
			changes = append(changes, Change{field, rouse.Shorten(have[field], maxFieldText),
				rouse.Shorten(want[field], maxFieldText)})
		}
	}
	for field, text := range want {
		if _, both := have[field]; !both {
			changes = append(changes, Change{field, "", rouse.Shorten(text, maxFieldText)})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Field, b.Field) })
	if len(changes) > 1 { // it follows from the others
		changes = slices.DeleteFunc(changes, func(c Change) bool { return c.Field == "labels."+AppliedLabel })
	}
	return changes
}
