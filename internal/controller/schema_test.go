package controller

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/rousehq/rouse/api"
)

// definitions is the file of the chart.
const definitions = "../../packaging/helm/rouse/files/crds.yaml"

// TestDefinitions compares the file of the chart with what is made of the API. With ROUSE_UPDATE=1, as make
// generate has it, it writes the file.
func TestDefinitions(t *testing.T) {
	made, err := Definitions()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("ROUSE_UPDATE") != "" {
		if err := os.WriteFile(definitions, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(definitions)
	if err != nil || !bytes.Equal(made, have) {
		t.Errorf("%s is not what its sources give: run make generate (%v)", definitions, err)
	}
}

// TestSchemasAreStructural: every schema has what Kubernetes demands of it, and every member that the API
// takes is there.
func TestSchemasAreStructural(t *testing.T) {
	made, err := Definitions()
	if err != nil {
		t.Fatal(err)
	}
	var description struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := yaml.Unmarshal(api.OpenAPI, &description); err != nil {
		t.Fatal(err)
	}
	for i, document := range strings.Split(string(made), "\n---\n") {
		var d struct {
			Spec struct {
				Versions []struct {
					Schema struct {
						OpenAPIV3Schema map[string]any `yaml:"openAPIV3Schema"`
					}
				}
			}
		}
		if err := yaml.Unmarshal([]byte(document), &d); err != nil || len(d.Spec.Versions) != 1 {
			t.Fatal(err, d)
		}
		whole := d.Spec.Versions[0].Schema.OpenAPIV3Schema
		structured(t, "", whole)
		spec := whole["properties"].(map[string]any)["spec"].(map[string]any)["properties"].(map[string]any)
		form := []string{"BatchTimer", "PutCalendar"}[i]
		for member := range description.Components.Schemas[form].Properties {
			if spec[member] == nil && member != "name" { // that of the object
				t.Errorf("%s has %s, and the definition has not", form, member)
			}
		}
	}
}

// structured checks a schema and those in it.
func structured(t *testing.T, at string, schema map[string]any) {
	if schema["type"] == nil && schema["x-kubernetes-preserve-unknown-fields"] == nil {
		t.Errorf("%s has no type", at)
	}
	for key, value := range schema {
		switch key {
		case "$ref", "contentEncoding":
			t.Errorf("%s has %s", at, key)
		case "properties":
			for name, one := range value.(map[string]any) {
				structured(t, at+"."+name, one.(map[string]any))
			}
		case "items", "additionalProperties":
			structured(t, at+"[]", value.(map[string]any))
		}
	}
}

// TestKeywordsAreTranslated: a keyword that the translation does not know is an error, so that none is lost.
func TestKeywordsAreTranslated(t *testing.T) {
	for _, in := range []string{"type: string\nmultipleOf: 2", "$ref: '#/components/schemas/None'", "type: array\nitems: {oneOf: []}"} {
		var o members
		if err := yaml.UnmarshalWithOptions([]byte(in), &o, yaml.UseOrderedMap()); err != nil {
			t.Fatal(err)
		}
		if out, err := (schemas{}).structuralSchema(o); err == nil {
			t.Errorf("%s gives %v", in, out)
		}
	}
}
