package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// method is an RPC of rouse.v1 with its options.
type method struct {
	protoreflect.MethodDescriptor
	call             protoreflect.Message // its option rouse.v1.call
	httpMethod, path string               // empty without a door
	bodyField        string               // the field of the request that the body is; "*" is the request, "" no body
	service          string
}

// optionText returns an option of the call.
func (m *method) optionText(name protoreflect.Name) string { return m.optionValue(name).String() }
func (m *method) hasOption(name protoreflect.Name) bool    { return m.optionValue(name).Bool() }

func (m *method) optionValue(name protoreflect.Name) protoreflect.Value {
	return m.call.Get(m.call.Descriptor().Fields().ByName(name))
}

// optionList returns an option that is a list.
func (m *method) optionList(name protoreflect.Name) (out []string) {
	list := m.optionValue(name).List()
	for i := range list.Len() {
		out = append(out, list.Get(i).String())
	}
	return out
}

func (m *method) methodName() string  { return string(m.Name()) }
func (m *method) requestName() string { return string(m.Input().Name()) }

// errorFields returns the fields that errors name as HTTP does, after those names.
func (m *method) errorFields() (named []string) {
	pairs := m.optionList("errors")
	for _, pair := range pairs {
		field, name, alone := strings.Cut(pair, "=")
		m.inputGetter("m", field) // which checks it
		if alone {
			named = append(named, fmt.Sprintf("%q: %q", name, field))
			continue
		}
		fields := m.Input().Fields().ByName(protoreflect.Name(field)).Message().Fields()
		for i := range fields.Len() {
			if of := string(fields.Get(i).Name()); !strings.Contains(strings.Join(pairs, " "), field+"."+of+"=") {
				named = append(named, fmt.Sprintf("%q: %q", strings.TrimSuffix(of, "_ms"), field+"."+of))
			}
		}
	}
	return named
}

// routeTable begins the name of the table of routes that has it.
func (m *method) routeTable() string { return cmp.Or(m.optionText("table"), lowerFirst(m.service)) }

// commentSummary returns the first paragraph of the comment, without the name that it begins with, as a
// sentence.
func (m *method) commentSummary() string {
	text := m.ParentFile().SourceLocations().ByDescriptor(m).LeadingComments
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n\n")
	text, named := strings.CutPrefix(strings.Join(strings.Fields(text), " "), m.methodName()+" ")
	if !named {
		log.Fatalf("%s: its comment does not begin with its name", m.FullName())
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// pathVariables returns the fields that the path has.
func (m *method) pathVariables() (fields []string) {
	for part := range strings.SplitSeq(m.path, "{") {
		if name, _, ok := strings.Cut(part, "}"); ok {
			fields = append(fields, name)
		}
	}
	return fields
}

// shownName returns the name of a field in the path or the query.
func (m *method) shownName(field string) string {
	for _, pair := range m.optionList("shown") {
		if name, ok := strings.CutPrefix(pair, field+"="); ok {
			return name
		}
	}
	return field
}

// shownPath returns the path as the description has it.
func (m *method) shownPath() string {
	path := m.path
	for _, field := range m.pathVariables() {
		path = strings.Replace(path, "{"+field+"}", "{"+m.shownName(field)+"}", 1)
	}
	return path
}

// queryFields returns the fields that the generated door reads from the query: those of a request without a
// body.
func (m *method) queryFields() (fields []protoreflect.FieldDescriptor) {
	for i := range m.Input().Fields().Len() {
		if f := m.Input().Fields().Get(i); m.bodyField == "" && !slices.Contains(m.pathVariables(), string(f.Name())) {
			fields = append(fields, f)
		}
	}
	return fields
}

// readMethods returns the RPCs of rouse.v1 in their order. Each has a verb.
func readMethods(dir string) (list []*method) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{dir}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), "rouse/v1/rouse.proto", "rouse/v1/options.proto",
		"google/api/annotations.proto")
	if err != nil {
		log.Fatal(err)
	}
	for i := range files[0].Services().Len() {
		service := files[0].Services().Get(i)
		for j := range service.Methods().Len() {
			m := &method{MethodDescriptor: service.Methods().Get(j), service: string(service.Name())}
			bytes, err := proto.Marshal(m.Options())
			if err != nil {
				log.Fatal(err)
			}
			options := dynamicpb.NewMessage((&descriptorpb.MethodOptions{}).ProtoReflect().Descriptor())
			if err := (proto.UnmarshalOptions{Resolver: files.AsResolver()}).Unmarshal(bytes, options); err != nil {
				log.Fatal(err)
			}
			options.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
				switch f.FullName() {
				case "rouse.v1.call":
					m.call = v.Message()
				case "google.api.http":
					v.Message().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
						if f.Name() == "body" {
							m.bodyField = v.String()
						} else {
							m.httpMethod, m.path = strings.ToUpper(string(f.Name())), v.String()
						}
						return true
					})
				}
				return true
			})
			if m.call == nil || m.optionText("verb") == "" {
				log.Fatalf("%s has no verb: give it the option (call).verb", m.FullName())
			}
			list = append(list, m)
		}
	}
	return list
}
