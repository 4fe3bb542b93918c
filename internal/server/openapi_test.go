package server

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/rousehq/rouse/api"
)

// document is the part of an OpenAPI file that the tests use.
type document struct {
	Paths      map[string]map[string]any `yaml:"paths"`
	Components map[string]map[string]any `yaml:"components"`
}

func openapi(t *testing.T) (d document, whole map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal(api.OpenAPI, &d); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(api.OpenAPI, &whole); err != nil {
		t.Fatal(err)
	}
	return d, whole
}

// TestOpenAPIHasEveryRoute: exactly the routes that are served are described.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	d, _ := openapi(t)
	described := map[string]bool{}
	for path, item := range d.Paths {
		for method := range item {
			if method != "parameters" {
				described[strings.ToUpper(method)+" "+path] = true
			}
		}
	}
	served := map[string]bool{}
	for _, r := range routes {
		served[r.method+" "+r.path] = true
		if !described[r.method+" "+r.path] {
			t.Errorf("%s %s is not described", r.method, r.path)
		}
	}
	for name := range described {
		if !served[name] {
			t.Errorf("%s is not served", name)
		}
	}
}

// TestOpenAPIReferences: every reference resolves, and every component is referenced.
func TestOpenAPIReferences(t *testing.T) {
	d, whole := openapi(t)
	used := map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, child := range v {
				if ref, ok := child.(string); ok && k == "$ref" {
					used[ref] = true
					continue
				}
				walk(child)
			}
		case []any:
			for _, child := range v {
				walk(child)
			}
		}
	}
	walk(whole)
	there := map[string]bool{}
	for kind, list := range d.Components {
		for name := range list {
			ref := "#/components/" + kind + "/" + name
			if there[ref] = true; !used[ref] && !slices.Contains([]string{"Record"}, name) { // used by events
				t.Errorf("%s is not used", ref)
			}
		}
	}
	for ref := range used {
		if !there[ref] {
			t.Errorf("%s leads nowhere", ref)
		}
	}
}

// TestOpenAPIHasEveryMember: the schemas and the structs of package api have the same members.
func TestOpenAPIHasEveryMember(t *testing.T) {
	d, _ := openapi(t)
	for _, v := range []any{api.Spec{}, api.When{}, api.CalendarRule{}, api.Retry{}, api.Webhook{}, api.NewTimer{}, api.CreateTimer{}, api.Coalesce{},
		api.Debounce{}, api.Throttle{}, api.Skip{}, api.Reschedule{}, api.Backfill{}, api.Backfilled{}, api.Import{}, api.Coming{}, api.Explanation{},
		api.Reason{}, api.Filter{}, api.Simulate{}, api.Simulated{}, api.Bulk{}, api.BulkProgress{}, api.BulkFailure{}, api.Calendar{}, api.Day{},
		api.PutCalendar{}, api.CalendarPut{}, api.CalendarList{}, api.Clock{}, api.AdvanceClock{}, api.Node{}, api.NodeList{}, api.Attempt{}, api.PutTimer{}, api.Timer{}, api.BatchCreate{}, api.BatchCreated{},
		api.Created{}, api.TimerList{}, api.Count{}, api.Deleted{}, api.Pause{}, api.Ran{}, api.Preview{}, api.Next{}, api.Version{}, api.Record{},
		api.RecordList{}, api.Complete{}, api.Fail{}, api.Heartbeat{}, api.Deadline{}, api.Called{}, api.Problem{}, api.Fault{}} {
		typ := reflect.TypeOf(v)
		var members []string
		for i := range typ.NumField() {
			if f := typ.Field(i); !f.Anonymous {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				members = append(members, name)
			}
		}
		schema, ok := d.Components["schemas"][typ.Name()].(map[string]any)
		if !ok {
			t.Errorf("%s has no schema", typ.Name())
			continue
		}
		properties, _ := schema["properties"].(map[string]any)
		described := slices.Sorted(maps.Keys(properties))
		slices.Sort(members)
		if fmt.Sprint(members) != fmt.Sprint(described) {
			t.Errorf("%s has members %v, its schema %v", typ.Name(), members, described)
		}
	}
}

// TestOpenAPIHasEveryCode: every problem code is documented with its status.
func TestOpenAPIHasEveryCode(t *testing.T) {
	d, _ := openapi(t)
	text := strings.Join(strings.Fields(d.Components["responses"]["Problem"].(map[string]any)["description"].(string)), " ")
	for code, s := range statuses {
		at := strings.Index(text, code)
		if at < 0 || !strings.Contains(text[at:], fmt.Sprint(s.status)) {
			t.Errorf("%s %d is not told", code, s.status)
		}
	}
}
