package server

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
)

// TestOpenAPIHasEveryValue: each enumeration of the description has the values that Go knows, so that a new
// one is in the clients, too. A new enumeration belongs in this table.
func TestOpenAPIHasEveryValue(t *testing.T) {
	parseCause := func(name string) (rouse.Cause, error) {
		c, ok := rouse.ParseCause(name)
		if !ok {
			return c, errors.New("no cause")
		}
		return c, nil
	}
	notices := wordsOf(rouse.ParseNotice)
	putModes := slices.DeleteFunc(slices.Collect(maps.Keys(modes)), func(name string) bool { return name == "" })
	var badgeStates []string
	for state := range badgeColors {
		badgeStates = append(badgeStates, string(state))
	}
	known := map[string][]string{ // by the last names of their places
		"State": namesOf(rouse.AllStates...), "Cause": wordsOf(parseCause), "ending": wordsOf(rouse.ParseEnding),
		"order_by": wordsOf(rouse.ParseOrder), "overlap": wordsOf(rouse.ParseOverlap), "priority": wordsOf(rouse.ParsePriority),
		"shift": wordsOf(rouse.ParseShift), "pause_cause": wordsOf(rouse.ParsePauseCause), "status": wordsOf(rouse.ParseReportStatus),
		"notice": notices, "mode": putModes, "parameters.by": listConstants(t, "By*"), "worst": listConstants(t, "Severity*"),
		"severity": listConstants(t, "Severity*"), "circuit": listConstants(t, "Circuit*"), "kind": listConstants(t, "JobKind"),
		"Job.state": listConstants(t, "JobState"), "Badge.state": badgeStates, "order": {rouse.OrderByDue}, "format": listConstants(t, "Format*"),
		"events": slices.DeleteFunc(slices.Clone(notices), func(name string) bool {
			return name == rouse.NoticeSucceeded.String() || name == rouse.NoticeFailed.String() // of callbacks
		}),
	}
	without := []string{"AskForecast.by", "Bulk.action", "Called.status", "Pool.namespaces", "Webhook.method", "audit.order"} // Go has no list
	for at, has := range listEnumerations(t) {
		if slices.Contains(without, at) {
			continue
		}
		want, ok := known[at]
		if !ok {
			want, ok = known[at[strings.LastIndex(at, ".")+1:]]
		}
		slices.Sort(has)
		slices.Sort(want)
		if !ok {
			t.Errorf("%s is a new enumeration, of %q", at, has)
		} else if !slices.Equal(has, want) {
			t.Errorf("%s has %q, and Go %q", at, has, want)
		}
	}
}

// listEnumerations returns the enumerations of the description, by the last two names of their places.
func listEnumerations(t *testing.T) map[string][]string {
	t.Helper()
	var whole map[string]any
	if err := yaml.Unmarshal(api.OpenAPI, &whole); err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	var walk func(at []string, v any)
	walk = func(at []string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if list, ok := v["enum"].([]any); ok {
				place := slices.DeleteFunc(slices.Clone(at), func(name string) bool {
					return slices.Contains([]string{"components", "schemas", "properties", "items", "schema"}, name)
				})
				place = place[max(0, len(place)-2):]
				for _, one := range list {
					found[strings.Join(place, ".")] = append(found[strings.Join(place, ".")], fmt.Sprint(one))
				}
			}
			for key, child := range v {
				walk(append(slices.Clip(at), key), child)
			}
		case []any:
			for _, child := range v {
				if o, ok := child.(map[string]any); ok && o["in"] != nil { // a parameter of an operation
					walk([]string{"audit", fmt.Sprint(o["name"])}, child)
					continue
				}
				walk(at, child)
			}
		}
	}
	walk(nil, whole)
	return found
}

// namesOf returns the names of values.
func namesOf[T fmt.Stringer](values ...T) (names []string) {
	for _, v := range values {
		names = append(names, v.String())
	}
	return names
}

// wordsOf returns the names of all values of a type that can be read.
func wordsOf[T interface {
	~uint8 | ~int8
	fmt.Stringer
}](parse func(string) (T, error)) (names []string) {
	for i := -128; i < 256; i++ {
		if v, err := parse(T(i).String()); err == nil && v == T(i) && v.String() != "" && !slices.Contains(names, v.String()) {
			names = append(names, v.String())
		}
	}
	return names
}

// listConstants returns the values of the constants of package rouse that have a type, or, with a "*", whose
// names begin so.
func listConstants(t *testing.T, of string) (values []string) {
	t.Helper()
	prefix, byName := strings.CutSuffix(of, "*")
	files, err := filepath.Glob("../../*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			value, ok := spec.Values[0].(*ast.BasicLit)
			kind, typed := spec.Type.(*ast.Ident)
			if ok && value.Kind == token.STRING && (byName && strings.HasPrefix(spec.Names[0].Name, prefix) || typed && kind.Name == of) {
				text, _ := strconv.Unquote(value.Value)
				values = append(values, text)
			}
			return true
		})
	}
	return values
}
