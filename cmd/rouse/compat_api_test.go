package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rousehq/rouse/api"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// protoLines are the methods, fields and values of the gRPC services.
func protoLines() (lines []string) {
	for _, file := range []protoreflect.FileDescriptor{rousev1.File_rouse_v1_rouse_proto, reminderv1.File_reminder_v1_reminder_proto} {
		for i := range file.Services().Len() {
			s := file.Services().Get(i)
			for i := range s.Methods().Len() {
				m := s.Methods().Get(i)
				lines = append(lines, fmt.Sprintf("rpc %s(%s) %s", m.FullName(), streamed(m.IsStreamingClient(), m.Input()), streamed(m.IsStreamingServer(), m.Output())))
			}
		}
		lines = append(lines, enumLines(file.Enums())...)
		lines = append(lines, messageLines(file.Messages())...)
	}
	return lines
}

func streamed(is bool, m protoreflect.MessageDescriptor) string {
	if is {
		return "stream " + string(m.FullName())
	}
	return string(m.FullName())
}

func messageLines(list protoreflect.MessageDescriptors) (lines []string) {
	for i := range list.Len() {
		m := list.Get(i)
		lines = append(lines, enumLines(m.Enums())...)
		lines = append(lines, messageLines(m.Messages())...)
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			kind := f.Kind().String()
			switch {
			case f.Enum() != nil:
				kind = string(f.Enum().FullName())
			case f.Message() != nil:
				kind = string(f.Message().FullName())
			}
			of := ""
			if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() {
				of = " of " + string(o.Name())
			}
			lines = append(lines, fmt.Sprintf("field %s = %d %s %s%s", f.FullName(), f.Number(), f.Cardinality(), kind, of))
		}
	}
	return lines
}

func enumLines(list protoreflect.EnumDescriptors) (lines []string) {
	for i := range list.Len() {
		for j := range list.Get(i).Values().Len() {
			v := list.Get(i).Values().Get(j)
			lines = append(lines, fmt.Sprintf("value %s.%s = %d", list.Get(i).FullName(), v.Name(), v.Number()))
		}
	}
	return lines
}

// notPromised are members of the OpenAPI description that may change: texts, and limits, which docs/limits.md
// lists.
var notPromised = map[string]bool{"description": true, "summary": true, "title": true, "examples": true, "example": true, "default": true, "pattern": true,
	"maxLength": true, "minLength": true, "maximum": true, "minimum": true, "exclusiveMinimum": true, "maxItems": true, "minItems": true,
	"maxProperties": true, "minProperties": true, "operationId": true, "const": true, "x-enum-varnames": true,
	// What refuses unknown members of requests stands at schemas of answers or not, and at those that others
	// contain or not, as generators of clients need it.
	"unevaluatedProperties": true}

// description is the OpenAPI description, with the schemas that requests consist of.
type description struct {
	root     map[string]any
	requests map[string]bool
	lines    []string
}

// httpLines are the routes, parameters, bodies, answers and schemas of the HTTP API.
func httpLines(t *testing.T) []string {
	d := &description{requests: map[string]bool{}}
	if err := yaml.Unmarshal(api.OpenAPI, &d.root); err != nil {
		t.Fatal(err)
	}
	paths, components := d.root["paths"].(map[string]any), d.root["components"].(map[string]any)
	for path, methods := range paths {
		for method, operation := range methods.(map[string]any) {
			if operation, ok := operation.(map[string]any); ok {
				d.reach(operation["requestBody"])
				d.parameters("http "+path+" "+method, operation)
			}
		}
	}
	d.walk("http", paths)
	for kind, of := range components {
		d.walk(kind, of)
	}
	return d.lines
}

// resolve follows a reference.
func (d *description) resolve(v map[string]any) map[string]any {
	if ref, ok := v["$ref"].(string); ok {
		v = d.root
		for _, key := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			v = v[key].(map[string]any)
		}
	}
	return v
}

// parameters adds which parameters an operation requires: there may be no more of them.
func (d *description) parameters(path string, operation map[string]any) {
	var names []string
	list, _ := operation["parameters"].([]any)
	for _, p := range list {
		if p := d.resolve(p.(map[string]any)); p["required"] == true {
			names = append(names, fmt.Sprint(p["name"]))
		}
	}
	slices.Sort(names)
	d.lines = append(d.lines, path+" requires "+strings.Join(names, " "))
}

// reach notes the schemas that a part of a request refers to.
func (d *description) reach(v any) {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok && !d.requests[ref] {
			d.requests[ref] = true
			d.reach(d.resolve(v))
		}
		for _, member := range v {
			d.reach(member)
		}
	case []any:
		for _, member := range v {
			d.reach(member)
		}
	}
}

// walk adds a line for each value below a path.
func (d *description) walk(path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		name := path[strings.LastIndex(path, " ")+1:]
		inProperties := name == "properties" || name == "schemas" || name == "parameters"
		for _, key := range slices.Sorted(maps.Keys(v)) {
			switch {
			case notPromised[key] && !inProperties:
			case key == "additionalProperties" && v[key] == false && !inProperties:
			case key == "required" && !inProperties:
				d.required(path, v[key])
			default:
				d.walk(path+" "+key, v[key])
			}
		}
	case []any:
		for i, member := range v {
			key := fmt.Sprint(i)
			if m, ok := member.(map[string]any); ok {
				switch {
				case m["name"] != nil:
					key = fmt.Sprint(m["in"], " ", m["name"])
				case m["$ref"] != nil:
					key = ""
					if p := d.resolve(m); p["name"] != nil { // a parameter is the same one when it stands elsewhere
						d.walk(fmt.Sprint(path, " ", p["in"], " ", p["name"]), p)
					}
				}
			} else {
				key = "" // of an enum: the order is not promised
			}
			d.walk(strings.TrimSpace(path+" "+key), member)
		}
	default:
		d.lines = append(d.lines, fmt.Sprintf("%s: %v", path, v))
	}
}

// required adds what must be there. In a request, nothing else may become necessary; in an answer, it may.
func (d *description) required(path string, v any) {
	list, ok := v.([]any)
	if !ok { // of a parameter or a body
		d.lines = append(d.lines, fmt.Sprintf("%s required: %v", path, v))
		return
	}
	names := make([]string, len(list))
	for i := range list {
		names[i] = fmt.Sprint(list[i])
	}
	slices.Sort(names)
	if schema, _, inner := strings.Cut(strings.TrimPrefix(path, "schemas "), " "); !inner && !d.requests["#/components/schemas/"+schema] {
		for _, name := range names {
			d.lines = append(d.lines, path+" always has "+name)
		}
		return
	}
	d.lines = append(d.lines, path+" requires "+strings.Join(names, " "))
}
