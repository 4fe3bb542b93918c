package server

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"

	"github.com/rousehq/rouse/api"
)

const (
	openAPIFile = "../../api/openapi.yaml"
	openAPIBase = "../../api/openapi.base.yaml"
)

// TestOpenAPI compares api/openapi.yaml with what is made of the routes, of the structs of package api with
// their comments and tags, and of api/openapi.base.yaml. With ROUSE_UPDATE=1, as make generate has it, it
// writes the file.
func TestOpenAPI(t *testing.T) {
	made, err := yaml.MarshalWithOptions(newDescription(t).document(), yaml.IndentSequence(true), yaml.UseLiteralStyleIfMultiline(true))
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("ROUSE_UPDATE") != "" {
		if err := os.WriteFile(openAPIFile, made, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(made, api.OpenAPI) {
		t.Error("api/openapi.yaml is not what its sources give; run make generate")
	}
}

// TestOpenAPIReferences: every reference resolves, and every component is referenced.
func TestOpenAPIReferences(t *testing.T) {
	var whole map[string]any
	if err := yaml.Unmarshal(api.OpenAPI, &whole); err != nil {
		t.Fatal(err)
	}
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
	for kind, list := range whole["components"].(map[string]any) {
		for name := range list.(map[string]any) {
			ref := "#/components/" + kind + "/" + name
			if !used[ref] {
				t.Errorf("%s is not used", ref)
			}
			delete(used, ref)
		}
	}
	for ref := range used {
		t.Errorf("%s leads nowhere", ref)
	}
}

// TestOpenAPIHasEveryCode: every problem code is documented with its status.
func TestOpenAPIHasEveryCode(t *testing.T) {
	var d struct {
		Components struct {
			Responses map[string]struct{ Description string }
		}
	}
	if err := yaml.Unmarshal(api.OpenAPI, &d); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(d.Components.Responses["Problem"].Description), " ")
	for code, s := range statuses {
		at := strings.Index(text, code)
		if at < 0 || !strings.Contains(text[at:], fmt.Sprint(s.status)) {
			t.Errorf("%s %d is not told", code, s.status)
		}
	}
}

// object is an object of the description, in its order.
type object = yaml.MapSlice

func get(o object, key string) any {
	for _, item := range o {
		if item.Key == key {
			return item.Value
		}
	}
	return nil
}

// merged returns o with a member; one that is there and an object is merged with it, and a list continued.
func merged(o object, key string, value any) object {
	for i := range o {
		if o[i].Key != key {
			continue
		}
		switch old := o[i].Value.(type) {
		case object:
			for _, item := range value.(object) {
				old = merged(old, item.Key.(string), item.Value)
			}
			o[i].Value = old
		case []any:
			o[i].Value = append(old, value.([]any)...)
		default:
			o[i].Value = value
		}
		return o
	}
	return append(o, yaml.MapItem{Key: key, Value: value})
}

// of returns an object of keys and values.
func of(pairs ...any) (o object) {
	for i := 0; i < len(pairs); i += 2 {
		o = append(o, yaml.MapItem{Key: pairs[i], Value: pairs[i+1]})
	}
	return o
}

func ref(kind, name string) object { return of("$ref", "#/components/"+kind+"/"+name) }

// description makes the description.
type description struct {
	t       *testing.T
	base    object
	docs    map[string]string // of structs, "Timer", and their fields, "Timer.Name"
	schemas map[string]object
	closed  map[reflect.Type]bool // requests, and what only they contain: unknown members are refused
}

func newDescription(t *testing.T) *description {
	d := &description{t: t, docs: map[string]string{}, schemas: map[string]object{},
		closed: map[reflect.Type]bool{reflect.TypeFor[api.Timer](): false, reflect.TypeFor[api.Calendar](): false}} // imports have what lists returned
	base, err := os.ReadFile(openAPIBase)
	if err != nil {
		t.Fatal(err)
	}
	d.base = d.parse(string(base))
	files, _ := filepath.Glob("../../api/*.go")
	for _, file := range files {
		d.readDocs(file)
	}
	for _, r := range routes {
		if r.body != nil {
			d.close(reflect.TypeOf(r.body))
		}
	}
	for _, v := range []any{api.Called{}, api.Deadline{}, api.Problem{}} { // of the responses in the base
		d.schema(reflect.TypeOf(v))
	}
	return d
}

func (d *description) parse(text string) (o object) {
	if err := yaml.UnmarshalWithOptions([]byte(text), &o, yaml.UseOrderedMap()); err != nil {
		d.t.Fatalf("%v in\n%s", err, text)
	}
	return o
}

func (d *description) readDocs(file string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, decl := range parsed.Decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		s := g.Specs[0].(*ast.TypeSpec)
		if fields, ok := s.Type.(*ast.StructType); ok {
			d.docs[s.Name.Name] = g.Doc.Text()
			for _, f := range fields.Fields.List {
				for _, name := range f.Names {
					d.docs[s.Name.Name+"."+name.Name] = cmp.Or(f.Comment.Text(), f.Doc.Text())
				}
			}
		}
	}
}

// close notes that unknown members of a struct are refused, and of those that it contains.
func (d *description) close(s reflect.Type) {
	for s.Kind() == reflect.Pointer || s.Kind() == reflect.Slice {
		s = s.Elem()
	}
	if _, known := d.closed[s]; known || s.Kind() != reflect.Struct {
		return
	}
	d.closed[s] = true
	for f := range s.Fields() {
		if d.close(f.Type); f.Anonymous {
			d.closed[f.Type] = false // the struct around it refuses them
		}
	}
}

func (d *description) document() object {
	paths := object{}
	for i := range routes {
		r := &routes[i]
		paths = merged(paths, r.path, of(strings.ToLower(r.method), d.operation(r)))
	}
	components := get(d.base, "components").(object)
	schemas := get(components, "schemas").(object)
	for _, name := range slices.Sorted(maps.Keys(d.schemas)) {
		schemas = merged(schemas, name, d.schemas[name])
	}
	components = merged(components[:len(components)-1], "schemas", schemas)
	return append(d.base[:len(d.base)-1], of("paths", paths, "components", components)...)
}

var variable = regexp.MustCompile(`\{([a-z_]+)\}`)

func (d *description) operation(r *route) object {
	name := runtime.FuncForPC(reflect.ValueOf(r.serve).Pointer()).Name()
	o := of("operationId", name[strings.LastIndex(name, ".")+1:], "summary", r.summary)
	more := d.parse(r.more)
	own := fmt.Sprint(get(more, "parameters"))
	var parameters []any
	refer := func(name, component string) {
		if !strings.Contains(own, "{name "+name+"}") {
			parameters = append(parameters, ref("parameters", component))
		}
	}
	for _, v := range variable.FindAllStringSubmatch(r.path, -1) {
		refer(v[1], v[1])
	}
	for _, p := range r.params {
		if p == "name" {
			refer(p, "nameFilter")
		} else {
			refer(p, p)
		}
	}
	if r.repeats == withKey {
		refer("Idempotency-Key", "Idempotency-Key")
	}
	if parameters != nil {
		o = merged(o, "parameters", parameters)
	}
	if r.body != nil {
		o = merged(o, "requestBody", of("required", true, "content", of(jsonType, of("schema", d.schema(reflect.TypeOf(r.body))))))
	}
	answer := of("description", r.means)
	status := http.StatusOK
	switch a := r.answer.(type) {
	case nil:
		switch {
		case strings.Contains(r.more, `"303"`):
			status = http.StatusSeeOther
		case !strings.Contains(r.more, `"200"`):
			status = http.StatusNoContent
		}
	case string:
		answer = ref("responses", a)
	default:
		answer = append(answer, of("content", of(jsonType, of("schema", d.schema(reflect.TypeOf(a)))))...)
	}
	o = merged(o, "responses", of(strconv.Itoa(status), answer))
	for _, item := range more {
		o = merged(o, item.Key.(string), item.Value)
	}
	return merged(o, "responses", of("default", ref("responses", "Problem")))
}

// schema returns the schema of a type, and adds that of a struct to the components.
func (d *description) schema(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[api.Time](), reflect.TypeFor[api.Duration]():
		return ref("schemas", t.Name())
	case reflect.TypeFor[api.Keep]():
		return of("type", "string")
	case reflect.TypeFor[jsontext.Value]():
		return object{}
	case reflect.TypeFor[[]byte]():
		return of("type", "string", "contentEncoding", "base64")
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.schema(t.Elem())
	case reflect.String:
		return of("type", "string")
	case reflect.Bool:
		return of("type", "boolean")
	case reflect.Float64:
		return of("type", "number")
	case reflect.Int, reflect.Int64:
		return of("type", "integer")
	case reflect.Uint32, reflect.Uint64:
		return of("type", "integer", "minimum", 0)
	case reflect.Slice:
		return of("type", "array", "items", d.schema(t.Elem()))
	case reflect.Map:
		return of("type", "object", "additionalProperties", d.schema(t.Elem()))
	}
	if _, ok := d.schemas[t.Name()]; !ok {
		d.schemas[t.Name()] = nil // it may contain itself
		d.schemas[t.Name()] = d.structSchema(t)
	}
	return ref("schemas", t.Name())
}

func (d *description) structSchema(t reflect.Type) object {
	o := of("description", sentence(d.docs[t.Name()]))
	var all, required []any
	properties := object{}
	for f := range t.Fields() {
		if f.Anonymous {
			all = append(all, d.schema(f.Type))
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if options == "" {
			required = append(required, name)
		}
		p := d.constrained(d.schema(f.Type), f.Tag.Get("schema"))
		if doc := d.docs[t.Name()+"."+f.Name]; doc != "" {
			p = merged(p, "description", sentence(doc))
		}
		properties = merged(properties, name, p)
	}
	refuse := "additionalProperties"
	if all != nil {
		o, refuse = merged(o, "allOf", all), "unevaluatedProperties"
	} else {
		o = merged(o, "type", "object")
	}
	if required != nil {
		o = merged(o, "required", required)
	}
	o = merged(o, "properties", properties)
	if d.closed[t] {
		o = merged(o, refuse, false)
	}
	return o
}

// constrained adds what the tag "schema" of a field has: the name of a schema in place of that of its type,
// or keywords of JSON Schema with commas between; values of lists have "|" between, and those for items begin
// with "items.", those of maps with "values.".
func (d *description) constrained(o object, tag string) object {
	if tag == "" {
		return o
	}
	if unicode.IsUpper(rune(tag[0])) {
		return ref("schemas", tag)
	}
	for _, constraint := range strings.Split(tag, ",") {
		key, text, _ := strings.Cut(constraint, "=")
		var value any
		switch key {
		case "items":
			o = slices.DeleteFunc(o, func(i yaml.MapItem) bool { return i.Key == key })
			value = ref("schemas", text)
		case "enum", "examples":
			var list []any
			for v := range strings.SplitSeq(text, "|") {
				list = append(list, v)
			}
			value = list
		default:
			if err := yaml.Unmarshal([]byte(text), &value); err != nil {
				d.t.Fatal(err)
			}
		}
		if outer, inner, ok := strings.Cut(key, "."); ok {
			key, value = map[string]string{"items": "items", "values": "additionalProperties"}[outer], of(inner, value)
		}
		o = merged(o, key, value)
	}
	return o
}

// value is a comment that begins with a value, such as "latest (the default), all or skip".
var value = regexp.MustCompile(`^[a-z_]+(,| \()`)

// sentence makes a sentence of a comment.
func sentence(comment string) string {
	text := strings.TrimSuffix(strings.Join(strings.Fields(comment), " "), ".")
	if text != "" && !value.MatchString(text) {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return text + "."
}
