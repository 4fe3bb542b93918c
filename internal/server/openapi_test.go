package server

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
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

// TestOpenAPISuitsGenerators: the description has nothing of which a generator of clients makes code that
// does not compile, or that reads or sends something else. Each rule finds what it is for; make clients-check
// runs the generators.
func TestOpenAPISuitsGenerators(t *testing.T) {
	for _, fault := range unsuitable(t, api.OpenAPI) {
		t.Error(fault)
	}
	const answer = "paths: {/a: {get: {operationId: a, responses: {'200': {description: '', content: {application/json: {schema: {$ref: '#/components/schemas/A'}}}}}}}}\n"
	for _, c := range []struct{ description, want string }{
		{"components: {schemas: {A: {type: integer}}}", "A: an integer has the format int64, or a maximum"},
		{"components: {schemas: {A: {type: integer, maximum: 5000000000}}}", "A: an integer"},
		{"components: {schemas: {A: {type: integer, maximum: 5}, B: {type: integer, format: int64}}}", ""},
		{"components: {schemas: {A: {allOf: [{$ref: '#/components/schemas/B'}]}}}", "A: allOf"},
		{"components: {schemas: {A: {properties: {b: {type: string, default: x}}}}}", "b: default"},
		{"components: {schemas: {A: {properties: {default: {type: string}}}}}", ""},
		{"components: {schemas: {A: {type: [string, 'null']}}}", "A: several types"},
		{"components: {schemas: {A: {properties: {b: {$ref: '#/components/schemas/C', maximum: 1}}}}}", "b: maximum next to a reference"},
		{"components: {schemas: {A: {properties: {b: {$ref: '#/components/schemas/C', description: it}}}}}", ""},
		{"components: {parameters: {A: {in: header, schema: {type: string, enum: [x]}}}}", "A: a header is any text"},
		{"paths: {/a: {post: {operationId: a, requestBody: {content: {'*/*': {}}}}}}", "*/*: content without a schema"},
		{"paths: {/a: {get: {operationId: a}}, /b: {get: {operationId: A}}}", "the operation A is there twice"},
		{"paths: {/a: {get: {operationId: func1}}}", "an operation has a name"},
		{"components: {schemas: {A: {}, a: {}}}", "the schema"},
		{"components: {schemas: {Timer: {}, NewTimer: {}}}", "NewTimer: is what makes a Timer, in Go"},
		{"components: {schemas: {A: {enum: [x, y]}, B: {enum: [Y]}}}", "the constant Y is there twice"},
		{"components: {schemas: {A: {enum: [x, y]}, B: {enum: [y], x-enum-varnames: [B_Y]}}}", ""},
		{"components: {schemas: {A: {enum: [x, y], x-enum-varnames: [X]}}}", "A: 1 names of 2 words"},
		{answer + "components: {schemas: {A: {type: object, additionalProperties: false}}}", "A: answers have it, and a later server may add members"},
		{answer + "components: {schemas: {A: {properties: {b: {items: {$ref: '#/components/schemas/B'}}}}, B: {additionalProperties: false}}}", "B: answers"},
	} {
		faults := strings.Join(unsuitable(t, []byte(c.description)), "\n")
		if c.want == "" && faults != "" || !strings.Contains(faults, c.want) {
			t.Errorf("%s: found %q, want %q", c.description, faults, c.want)
		}
	}
}

// unsuitable returns what generators of clients fail at.
func unsuitable(t *testing.T, text []byte) (faults []string) {
	var whole map[string]any
	if err := yaml.Unmarshal(text, &whole); err != nil {
		t.Fatal(err)
	}
	add := func(at, wrong string) { faults = append(faults, at+": "+wrong) }
	once := map[string]bool{}
	twice := func(kind, name string) {
		if name = strings.ToUpper(name); once[kind+name] {
			faults = append(faults, fmt.Sprintf("the %s %s is there twice", kind, name))
		}
		once[kind+name] = true
	}
	var walk func(at string, v any, names bool) // names: what v's keys are, not keywords
	walk = func(at string, v any, names bool) {
		list, _ := v.([]any)
		for i, one := range list {
			walk(fmt.Sprintf("%s[%d]", at, i), one, false)
		}
		o, _ := v.(map[string]any)
		for key, child := range o {
			if !names {
				switch {
				case slices.Contains([]string{"allOf", "anyOf", "oneOf", "not", "const", "nullable", "unevaluatedProperties"}, key),
					key == "default" && !strings.HasSuffix(at, ".responses"):
					add(at, key)
				case o["$ref"] != nil && key != "$ref" && key != "description":
					add(at, key+" next to a reference")
				case key == "operationId":
					if twice("operation", fmt.Sprint(child)); strings.HasPrefix(fmt.Sprint(child), "func") {
						add(at, "an operation has a name: that of its method")
					}
				case key == "content":
					for media, of := range child.(map[string]any) {
						if of, _ := of.(map[string]any); of["schema"] == nil {
							add(at+"."+media, "content without a schema")
						}
					}
				}
			}
			walk(at+"."+key, child, !names && (key == "properties" || key == "schemas" || key == "responses" || key == "parameters" || key == "examples"))
		}
		if names {
			return
		}
		if _, several := o["type"].([]any); several {
			add(at, "several types")
		}
		if most, bounded := o["maximum"].(uint64); o["type"] == "integer" && o["format"] != "int64" && (!bounded || most > math.MaxInt32) {
			add(at, "an integer has the format int64, or a maximum that 32 bits hold")
		}
		if schema, _ := o["schema"].(map[string]any); o["in"] == "header" && schema["enum"] != nil {
			add(at, "a header is any text")
		}
	}
	walk("", whole, false)
	components, _ := whole["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	for name, v := range schemas {
		twice("schema", name)
		if made, ok := strings.CutPrefix(name, "New"); ok && schemas[made] != nil {
			add(name, "is what makes a "+made+", in Go")
		}
		o := v.(map[string]any)
		words, _ := o["enum"].([]any)
		if constants, ok := o["x-enum-varnames"].([]any); ok {
			if len(constants) != len(words) {
				add(name, fmt.Sprintf("%d names of %d words", len(constants), len(words)))
			}
			words = constants
		}
		for _, word := range words {
			twice("constant", fmt.Sprint(word))
		}
	}
	for name := range answered(whole) {
		if o := schemas[name].(map[string]any); o["additionalProperties"] == false {
			add(name, "answers have it, and a later server may add members")
		}
	}
	return faults
}

// answered returns the names of the schemas that answers have.
func answered(whole map[string]any) map[string]bool {
	found := map[string]bool{}
	var walk func(v any, in bool)
	walk = func(v any, in bool) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok && in {
				at := any(whole)
				for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
					at = at.(map[string]any)[part]
				}
				if name, ok := strings.CutPrefix(ref, "#/components/schemas/"); ok && found[name] {
					return
				} else if ok {
					found[name] = true
				}
				walk(at, true)
			}
			for key, child := range v {
				walk(child, in || key == "responses")
			}
		case []any:
			for _, child := range v {
				walk(child, in)
			}
		}
	}
	walk(whole, false)
	return found
}

// TestCoalescingIsDescribed: a request with debounce or throttle has no schedule, and is as the description
// has it, as TestMain checks of all requests and answers.
func TestCoalescingIsDescribed(t *testing.T) {
	h := handler(newFake())
	want(t, do(h, "POST", timersURL, `{"name":"d","target":"https://example.com/","debounce":{"quiet":"1s"}}`), 201)
	want(t, do(h, "PUT", timersURL+"/t", `{"target":"https://example.com/","throttle":{"every":"1s"}}`), 201)
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
	closed  map[reflect.Type]bool // requests and what they contain: unknown members are refused
	// answered has what answers contain: members that a later server adds are none that a client refuses.
	answered map[reflect.Type]bool
}

func newDescription(t *testing.T) *description {
	d := &description{t: t, docs: map[string]string{}, schemas: map[string]object{}, closed: map[reflect.Type]bool{}, answered: map[reflect.Type]bool{}}
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
		noteStructs(reflect.TypeOf(r.body), d.closed)
		noteStructs(reflect.TypeOf(r.answer), d.answered)
	}
	noteStructs(reflect.TypeFor[api.Timer](), d.answered)                  // the response Timer of the base
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

// noteStructs notes a struct, and those that it contains.
func noteStructs(s reflect.Type, in map[reflect.Type]bool) {
	for s != nil && (s.Kind() == reflect.Pointer || s.Kind() == reflect.Slice || s.Kind() == reflect.Map) {
		s = s.Elem()
	}
	if s == nil || s.Kind() != reflect.Struct || in[s] {
		return
	}
	in[s] = true
	noteMembers(s, in)
}

func noteMembers(s reflect.Type, in map[reflect.Type]bool) {
	for f := range s.Fields() {
		if f.Anonymous { // its members are those of s
			noteMembers(f.Type, in)
		} else {
			noteStructs(f.Type, in)
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
		return of("type", "integer", "format", "int64")
	case reflect.Uint32, reflect.Uint64:
		return of("type", "integer", "format", "int64", "minimum", 0)
	case reflect.Slice:
		return of("type", "array", "items", d.schema(t.Elem()))
	case reflect.Map:
		return of("type", "object", "additionalProperties", d.schema(t.Elem()))
	}
	name := t.Name()
	if t == reflect.TypeFor[api.NewTimer]() {
		name = "BatchTimer" // in a generated Go client, NewTimer makes a Timer
	}
	if _, ok := d.schemas[name]; !ok {
		d.schemas[name] = nil // it may contain itself
		d.schemas[name] = d.structSchema(t)
	}
	return ref("schemas", name)
}

// structSchema returns the schema of a struct, with the members of the structs that it embeds: generators of
// clients differ in what they make of schemas that extend each other.
func (d *description) structSchema(t reflect.Type) object {
	o := of("description", sentence(d.docs[t.Name()]), "type", "object")
	properties, required := d.members(t)
	if required != nil {
		o = merged(o, "required", required)
	}
	o = merged(o, "properties", properties)
	if d.closed[t] && !d.answered[t] {
		o = merged(o, "additionalProperties", false)
	}
	return o
}

// members returns the schemas of a struct's members, and which of them are required.
func (d *description) members(t reflect.Type) (properties object, required []any) {
	properties = object{}
	for f := range t.Fields() {
		if f.Anonymous {
			more, needed := d.members(f.Type)
			properties, required = append(properties, more...), append(required, needed...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if options == "" {
			required = append(required, name)
		}
		p := d.constrained(d.schema(f.Type), f.Tag.Get("schema"))
		if told := d.told(t, f); told != "" {
			p = merged(p, "description", told)
		}
		properties = append(properties, yaml.MapItem{Key: name, Value: p})
	}
	for f := range t.Fields() { // what an embedded struct takes the place of
		if name, ok := strings.CutPrefix(f.Tag.Get("schema"), "replaces="); ok && f.Anonymous {
			required = slices.DeleteFunc(required, func(one any) bool { return one == name })
		}
	}
	return properties, required
}

// told returns the description of a member. A default is told, and is not a keyword: generated clients would
// send it, or demand the member.
func (d *description) told(t reflect.Type, f reflect.StructField) string {
	comment := d.docs[t.Name()+"."+f.Name]
	told := ""
	if comment != "" {
		told = sentence(comment)
	}
	_, value, ok := strings.Cut(f.Tag.Get("schema"), "default=")
	if value, _, _ = strings.Cut(value, ","); ok && !strings.Contains(comment, "default") {
		told = strings.TrimSpace(told + " Default " + value + ".")
	}
	return told
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
		case "default":
			continue
		case "items":
			o = slices.DeleteFunc(o, func(i yaml.MapItem) bool { return i.Key == key })
			value = ref("schemas", text)
		case "enum", "items.enum", "examples":
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
