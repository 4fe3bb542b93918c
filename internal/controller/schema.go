package controller

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/rousehq/rouse/api"
)

// Definitions returns the definitions of the objects, in YAML: CustomResourceDefinitions with the schemas
// that the API has of timers and of calendars, as Kubernetes wants schemas.
func Definitions() ([]byte, error) {
	var description struct {
		Components struct{ Schemas map[string]members }
	}
	if err := yaml.UnmarshalWithOptions(api.OpenAPI, &description, yaml.UseOrderedMap()); err != nil {
		return nil, err
	}
	s := schemas(description.Components.Schemas)
	timer, err := s.structuralSchema(s.timerSpecSchema())
	if err != nil {
		return nil, err
	}
	calendar, err := s.structuralSchema(s["PutCalendar"])
	if err != nil {
		return nil, err
	}
	out := []byte("# Made from the API by: rouse controller crds\n")
	for i, d := range []members{
		kindDefinition("Timer", "A timer of rouse: its spec has the members of the API's create call.", timer, members{
			{Key: "state", Value: textSchema("What the timer does: scheduled, retrying, accepted, paused or ended.")},
			{Key: "nextFire", Value: instantSchema("When it is due next.")},
			{Key: "lastFire", Value: members{
				{Key: "description", Value: "How its last occurrence ended."},
				{Key: "type", Value: "object"},
				{Key: "properties", Value: members{
					{Key: "due", Value: instantSchema("When it was due.")},
					{Key: "ended", Value: instantSchema("When it ended.")},
					{Key: "ending", Value: textSchema("fired, dead, skipped or missed.")},
					{Key: "cause", Value: textSchema("Why it ended so.")},
				}},
			}},
			{Key: "ended", Value: members{{Key: "description", Value: "How many of its occurrences have ended."},
				{Key: "type", Value: "integer"}, {Key: "format", Value: "int64"}}},
		}, []any{
			printerColumn("Schedule", "string", ".spec.schedule"), printerColumn("Next", "string", ".status.nextFire"),
			printerColumn("Last", "string", ".status.lastFire.ending"),
		}),
		kindDefinition("Calendar", "A calendar of rouse: days on which timers do not fire, or fire only.",
			calendar, nil, nil),
	} {
		body, err := yaml.MarshalWithOptions(d, yaml.IndentSequence(true))
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, "---\n"...)
		}
		out = append(out, body...)
	}
	return out, nil
}

// members are those of an object, in their order.
type members = yaml.MapSlice

func findMember(o members, key string) any {
	for _, m := range o {
		if m.Key == key {
			return m.Value
		}
	}
	return nil
}

func textSchema(description string) members {
	return members{{Key: "description", Value: description}, {Key: "type", Value: "string"}}
}

func instantSchema(description string) members {
	return append(textSchema(description), yaml.MapItem{Key: "format", Value: "date-time"})
}

func printerColumn(name, kind, path string) members {
	return members{{Key: "name", Value: name}, {Key: "type", Value: kind}, {Key: "jsonPath", Value: path}}
}

// kindDefinition returns the definition of a kind.
func kindDefinition(kind, description string, spec, statusMembers members, columns []any) members {
	const conditionOf = `.status.conditions[?(@.type=="Ready")]`
	singular := strings.ToLower(kind)
	columns = append(columns, printerColumn("Ready", "string", conditionOf+".status"),
		printerColumn("Reason", "string", conditionOf+".reason"), printerColumn("Age", "date", ".metadata.creationTimestamp"))
	statusMembers = append(members{
		{Key: "observedGeneration", Value: members{{Key: "type", Value: "integer"}, {Key: "format", Value: "int64"}}},
		{Key: "namespace", Value: textSchema("The namespace of rouse.")},
	}, statusMembers...)
	statusMembers = append(statusMembers, yaml.MapItem{Key: "conditions", Value: members{
		{Key: "description",
			Value: "Ready: rouse has what is declared. Invalid: it never will, because of what the message of Ready tells."},
		{Key: "type", Value: "array"},
		{Key: "x-kubernetes-list-type", Value: "map"},
		{Key: "x-kubernetes-list-map-keys", Value: []any{"type"}},
		{Key: "items", Value: members{
			{Key: "type", Value: "object"},
			{Key: "required", Value: []any{"type", "status"}},
			{Key: "properties", Value: members{
				{Key: "type", Value: members{{Key: "type", Value: "string"}}},
				{Key: "status", Value: members{{Key: "type", Value: "string"},
					{Key: "enum", Value: []any{"True", "False", "Unknown"}}}},
				{Key: "reason", Value: members{{Key: "type", Value: "string"}}},
				{Key: "message", Value: members{{Key: "type", Value: "string"}}},
				{Key: "observedGeneration", Value: members{{Key: "type", Value: "integer"}, {Key: "format", Value: "int64"}}},
				{Key: "lastTransitionTime", Value: members{{Key: "type", Value: "string"}, {Key: "format", Value: "date-time"}}},
			}},
		}},
	}})
	return members{
		{Key: "apiVersion", Value: "apiextensions.k8s.io/v1"},
		{Key: "kind", Value: "CustomResourceDefinition"},
		{Key: "metadata", Value: members{{Key: "name", Value: singular + "s." + Group}}},
		{Key: "spec", Value: members{
			{Key: "group", Value: Group},
			{Key: "scope", Value: "Namespaced"},
			{Key: "names", Value: members{{Key: "kind", Value: kind}, {Key: "listKind", Value: kind + "List"},
				{Key: "plural", Value: singular + "s"}, {Key: "singular", Value: singular}}},
			{Key: "versions", Value: []any{members{
				{Key: "name", Value: Version},
				{Key: "served", Value: true},
				{Key: "storage", Value: true},
				{Key: "subresources", Value: members{{Key: "status", Value: members{}}}},
				{Key: "additionalPrinterColumns", Value: columns},
				{Key: "schema", Value: members{{Key: "openAPIV3Schema", Value: members{
					{Key: "description", Value: description},
					{Key: "type", Value: "object"},
					{Key: "required", Value: []any{"spec"}},
					{Key: "properties", Value: members{
						{Key: "apiVersion", Value: members{{Key: "type", Value: "string"}}},
						{Key: "kind", Value: members{{Key: "type", Value: "string"}}},
						{Key: "metadata", Value: members{{Key: "type", Value: "object"}}},
						{Key: "spec", Value: spec},
						{Key: "status", Value: members{{Key: "type", Value: "object"}, {Key: "properties", Value: statusMembers}}},
					}},
				}}}},
			}}},
		}},
	}
}

// schemas are those of the API, by name.
type schemas map[string]members

// timerSpecSchema returns the schema of a timer's spec: that of one in a batch, without the name.
func (s schemas) timerSpecSchema() (out members) {
	for _, m := range s["BatchTimer"] {
		if m.Key == "properties" {
			m.Value = slices.DeleteFunc(slices.Clone(m.Value.(members)), func(p yaml.MapItem) bool { return p.Key == "name" })
		}
		if m.Key == "description" {
			m.Value = "What a timer is to do. Members that are left out have their defaults."
		}
		out = append(out, m)
	}
	return out
}

// structuralSchema returns a schema as Kubernetes wants it: without references and compositions, with a type
// everywhere. It has no defaults, so that Kubernetes does not fill in absent members.
func (s schemas) structuralSchema(in members) (out members, err error) {
	properties, required := members{}, []any{}
	for _, m := range in {
		switch key := m.Key.(string); key {
		case "$ref":
			ref, _ := m.Value.(string)
			base, known := s[strings.TrimPrefix(ref, "#/components/schemas/")]
			if !known {
				return nil, fmt.Errorf("the schema %q is not there", ref)
			}
			if base, err = s.structuralSchema(base); err != nil {
				return nil, err
			}
			for _, b := range base {
				switch b.Key {
				case "properties":
					properties = append(properties, b.Value.(members)...)
				case "required":
					required = append(required, b.Value.([]any)...)
				case "description":
					if findMember(in, "description") == nil {
						out = append(out, b)
					}
				default:
					out = append(out, b)
				}
			}
		case "properties":
			for _, p := range m.Value.(members) {
				schema, err := s.structuralSchema(p.Value.(members))
				if err != nil {
					return nil, fmt.Errorf("%s: %w", p.Key, err)
				}
				properties = append(properties, yaml.MapItem{Key: p.Key, Value: schema})
			}
		case "required":
			required = append(required, m.Value.([]any)...)
		case "items", "additionalProperties":
			schema, isSchema := m.Value.(members)
			if !isSchema {
				continue // false: Kubernetes prunes members that a schema lacks, or refuses them if it is asked to
			}
			if schema, err = s.structuralSchema(schema); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			out = append(out, yaml.MapItem{Key: key, Value: schema})
		case "contentEncoding": // base64
			out = append(out, yaml.MapItem{Key: "format", Value: "byte"})
		case "examples":
		case "description", "type", "format", "enum", "minimum", "maximum", "maxLength", "minLength", "maxItems",
			"maxProperties", "pattern":
			out = append(out, m)
		default:
			return nil, fmt.Errorf("the keyword %q has no translation for Kubernetes", key)
		}
	}
	if len(properties) > 0 && findMember(out, "type") == nil {
		out = append(out, yaml.MapItem{Key: "type", Value: "object"})
	}
	if len(required) > 0 {
		out = append(out, yaml.MapItem{Key: "required", Value: required})
	}
	if len(properties) > 0 {
		out = append(out, yaml.MapItem{Key: "properties", Value: properties})
	}
	if findMember(out, "type") == nil { // any JSON
		out = append(out, yaml.MapItem{Key: "x-kubernetes-preserve-unknown-fields", Value: true})
	}
	return out, nil
}
