package server

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
)

// TestNullIsRefused: no member of any request, no element and no value of a map may be null but a payload,
// and the error names it. Null would be taken for a member that is left out, and what a client lost by
// mistake, such as the labels of a replacement, would be gone.
func TestNullIsRefused(t *testing.T) {
	tried := map[string]bool{}
	for i := range routes {
		if routes[i].body == nil {
			continue
		}
		body := reflect.TypeOf(routes[i].body)
		for _, n := range withNull(body) {
			tried[n.field] = true
			err := api.Decode([]byte(n.text), reflect.New(body).Interface())
			var inv *rouse.Invalid
			if !errors.As(err, &inv) || inv.Problems[0].Field != n.field || inv.Problems[0].Wrong != "is null" {
				t.Errorf("%s %s of %s: %v", routes[i].method, routes[i].path, n.text, err)
			}
		}
	}
	for _, field := range strings.Fields("body name labels labels.x retry.attempts timers[0].also[0] filter.states max") {
		if !tried[field] {
			t.Errorf("%s was not tried", field)
		}
	}
	var c api.CreateTimer
	if err := api.Decode([]byte(`{"payload":null}`), &c); err != nil || string(c.Payload) != "null" {
		t.Errorf("a payload null is %q: %v", c.Payload, err)
	}
}

// nullText is JSON with one null in it, and the name of its place.
type nullText struct{ text, field string }

// withNull returns the texts of a type that have a null, one for each place that may have one.
func withNull(t reflect.Type) []nullText {
	list := []nullText{{"null", "body"}}
	add := func(before string, t reflect.Type, after, name string) {
		for _, n := range withNull(t) {
			field := name
			if n.field != "body" {
				field = strings.ReplaceAll(name+"."+n.field, ".[", "[")
			}
			list = append(list, nullText{before + n.text + after, field})
		}
	}
	switch {
	case t == reflect.TypeFor[jsontext.Value]():
		return nil
	case t.Kind() == reflect.Pointer:
		return withNull(t.Elem())
	case t.Kind() == reflect.Map:
		add(`{"x":`, t.Elem(), "}", "x")
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		add("[", t.Elem(), "]", "[0]")
	case t.Kind() == reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous {
				list = append(list, withNull(f.Type)[1:]...)
			} else if name != "-" && f.IsExported() {
				add(`{"`+name+`":`, f.Type, "}", name)
			}
		}
	}
	return list
}
