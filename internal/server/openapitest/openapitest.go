// Package openapitest checks real answers of the HTTP API against its description, for tests: the status is
// documented, the body has the documented type and matches its schema, and no member is undocumented.
package openapitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/goccy/go-yaml"

	"github.com/rousehq/rouse/api"
)

// Checker has the description. It is safe for concurrent use.
type Checker struct {
	whole map[string]any
	paths []path

	mu     sync.Mutex
	faults []string
	seen   map[string]bool // operations with an answer that was no problem
}

type path struct {
	matches    *regexp.Regexp
	operations map[string]any
}

var variable = regexp.MustCompile(`\\\{[a-z_]+\\\}`)

// New returns a checker of api/openapi.yaml.
func New() *Checker {
	c := &Checker{seen: map[string]bool{}}
	if err := yaml.Unmarshal(api.OpenAPI, &c.whole); err != nil {
		panic(err)
	}
	for name, operations := range c.whole["paths"].(map[string]any) {
		// A ":" within a variable is escaped: an unescaped one begins a verb.
		c.paths = append(c.paths, path{regexp.MustCompile("^" + variable.ReplaceAllString(regexp.QuoteMeta(name), `[^/:]*`) + "$"), operations.(map[string]any)})
	}
	return c
}

// Faults returns what was wrong with the answers so far, and Seen how many operations were answered.
func (c *Checker) Faults() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.faults)
}

// Seen returns how many operations have had an answer that was no problem.
func (c *Checker) Seen() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

// maxBody bounds the bodies that are kept; those of streams and backups are not.
const maxBody = 16 << 20

// Handler checks the answers of a handler.
func (c *Checker) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kept := &recorder{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(kept, r)
		c.Check(r.Method, r.URL.EscapedPath(), kept.status, w.Header(), kept.body.Bytes())
	})
}

// recorder keeps an answer that is JSON.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (k *recorder) Unwrap() http.ResponseWriter { return k.ResponseWriter }

func (k *recorder) WriteHeader(status int) {
	k.status = status
	k.ResponseWriter.WriteHeader(status)
}

func (k *recorder) Write(b []byte) (int, error) {
	if isJSON(k.Header()) && k.body.Len() < maxBody {
		k.body.Write(b)
	}
	return k.ResponseWriter.Write(b)
}

// Transport checks the answers of a transport.
func (c *Checker) Transport(t http.RoundTripper) http.RoundTripper { return transport{c, t} }

type transport struct {
	checker *Checker
	http.RoundTripper
}

// RoundTrip reads bodies that are JSON, and checks them.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	var body []byte
	if isJSON(answer.Header) {
		if body, err = io.ReadAll(answer.Body); err != nil {
			return nil, err
		}
		answer.Body.Close()
		answer.Body = io.NopCloser(bytes.NewReader(body))
	}
	t.checker.Check(r.Method, r.URL.EscapedPath(), answer.StatusCode, answer.Header, body)
	return answer, nil
}

func mediaType(h http.Header) string {
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return media
}

func isJSON(h http.Header) bool { return strings.HasSuffix(mediaType(h), "json") }

// Check checks one answer. Requests of paths that the description does not have are not its business.
func (c *Checker) Check(method, escaped string, status int, h http.Header, body []byte) {
	read := method
	if method == http.MethodHead {
		read = http.MethodGet
	}
	for _, p := range c.paths {
		operation, ok := p.operations[strings.ToLower(read)].(map[string]any)
		if !ok || !p.matches.MatchString(escaped) {
			continue
		}
		fault := c.answer(operation, method, status, h, body)
		c.mu.Lock()
		defer c.mu.Unlock()
		if fault != "" {
			c.faults = append(c.faults, fmt.Sprintf("%s %s: %d %s: %s", method, escaped, status, shortened(body), fault))
		} else if status < 400 {
			c.seen[fmt.Sprint(operation["operationId"])] = true
		}
		return
	}
}

func shortened(b []byte) string { return string(b[:min(len(b), 300)]) }

// answer returns what is wrong with an answer, or nothing.
func (c *Checker) answer(operation map[string]any, method string, status int, h http.Header, body []byte) string {
	responses := operation["responses"].(map[string]any)
	documented, ok := responses[strconv.Itoa(status)].(map[string]any)
	if !ok {
		documented, ok = responses[fmt.Sprintf("%dXX", status/100)].(map[string]any)
	}
	if !ok && status >= 400 {
		documented, ok = responses["default"].(map[string]any)
	}
	if !ok {
		return "the status is not documented"
	}
	content, _ := c.resolved(documented)["content"].(map[string]any)
	media := mediaType(h)
	if content == nil {
		if media != "" || len(body) > 0 {
			return "it has content, and none is documented"
		}
		return ""
	}
	if _, any := content["*/*"]; any || method == http.MethodHead {
		return ""
	}
	of, ok := content[media].(map[string]any)
	if !ok {
		return fmt.Sprintf("the type %q is not documented", media)
	}
	schema, ok := of["schema"].(map[string]any)
	if !ok || !isJSON(h) {
		return ""
	}
	texts := [][]byte{body}
	if media == "application/x-ndjson" {
		texts = bytes.Split(bytes.TrimSpace(body), []byte("\n"))
	}
	for _, text := range texts {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			return err.Error()
		}
		if fault := c.value(schema, v, ""); fault != "" {
			return fault
		}
	}
	return ""
}

// resolved returns what a reference refers to, with the members that are next to it.
func (c *Checker) resolved(schema map[string]any) map[string]any {
	ref, ok := schema["$ref"].(string)
	if !ok {
		return schema
	}
	at := c.whole
	for segment := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		at = at[segment].(map[string]any)
	}
	out := map[string]any{}
	for k, v := range c.resolved(at) {
		out[k] = v
	}
	for k, v := range schema {
		if k != "$ref" {
			out[k] = v
		}
	}
	return out
}

// keywords are those of JSON Schema that the description may use: others would not be checked.
var keywords = map[string]bool{"type": true, "properties": true, "required": true, "items": true, "additionalProperties": true, "unevaluatedProperties": true,
	"allOf": true, "enum": true, "const": true, "minimum": true, "maximum": true, "minLength": true, "maxLength": true, "minItems": true, "maxItems": true,
	"maxProperties": true, "pattern": true, "format": true, "contentEncoding": true, "description": true, "default": true, "examples": true}

// value returns what is wrong with a value, or nothing.
func (c *Checker) value(schema map[string]any, v any, at string) string {
	schema = c.resolved(schema)
	for k := range schema {
		if !keywords[k] {
			return fmt.Sprintf("%s: the checker does not know the keyword %s", at, k)
		}
	}
	if t, ok := schema["type"].(string); ok && !typed(t, v) {
		return fmt.Sprintf("%s: %v is no %s", at, v, t)
	}
	if list, ok := schema["enum"].([]any); ok && !slices.ContainsFunc(list, func(one any) bool { return fmt.Sprint(one) == fmt.Sprint(v) }) {
		return fmt.Sprintf("%s: %v is none of %v", at, v, list)
	}
	switch v := v.(type) {
	case json.Number:
		n, _ := v.Float64() // infinite if it is larger than the largest one
		if n < number(schema, "minimum", math.Inf(-1)) || n > number(schema, "maximum", math.Inf(1)) {
			return fmt.Sprintf("%s: %v is out of bounds", at, v)
		}
	case string:
		return text(schema, v, at)
	case []any:
		if n := float64(len(v)); n < number(schema, "minItems", 0) || n > number(schema, "maxItems", math.Inf(1)) {
			return fmt.Sprintf("%s: %v elements are out of bounds", at, n)
		}
		if items, ok := schema["items"].(map[string]any); ok {
			for i, one := range v {
				if fault := c.value(items, one, fmt.Sprintf("%s[%d]", at, i)); fault != "" {
					return fault
				}
			}
		}
	case map[string]any:
		members, required, rest := c.members(schema)
		for _, name := range required {
			if _, ok := v[name]; !ok {
				return fmt.Sprintf("%s: %s is missing", at, name)
			}
		}
		if n := float64(len(v)); n > number(schema, "maxProperties", math.Inf(1)) {
			return fmt.Sprintf("%s: %v members are too many", at, n)
		}
		for name, one := range v {
			of, ok := members[name].(map[string]any)
			switch {
			case ok:
			case rest != nil:
				of = rest
			case len(members) == 0 && schema["type"] == nil: // anything
				continue
			default:
				return fmt.Sprintf("%s: %s is not documented", at, name)
			}
			if fault := c.value(of, one, at+"."+name); fault != "" {
				return fault
			}
		}
	}
	return ""
}

// members returns the schemas of an object's members, those that are required, and the schema of all others.
func (c *Checker) members(schema map[string]any) (members map[string]any, required []string, rest map[string]any) {
	members = map[string]any{}
	all, _ := schema["allOf"].([]any)
	for _, part := range all {
		more, and, other := c.members(c.resolved(part.(map[string]any)))
		for name, of := range more {
			members[name] = of
		}
		if required = append(required, and...); other != nil {
			rest = other
		}
	}
	own, _ := schema["properties"].(map[string]any)
	for name, of := range own {
		members[name] = of
	}
	names, _ := schema["required"].([]any)
	for _, name := range names {
		required = append(required, name.(string))
	}
	if other, ok := schema["additionalProperties"].(map[string]any); ok {
		rest = other
	}
	return members, required, rest
}

func typed(t string, v any) bool {
	switch v := v.(type) {
	case nil:
		return t == "null"
	case bool:
		return t == "boolean"
	case string:
		return t == "string"
	case json.Number:
		return t == "number" || t == "integer" && !strings.ContainsAny(v.String(), ".eE")
	case []any:
		return t == "array"
	case map[string]any:
		return t == "object"
	}
	return false
}

func text(schema map[string]any, v, at string) string {
	if n := float64(utf8.RuneCountInString(v)); n < number(schema, "minLength", 0) || n > number(schema, "maxLength", math.Inf(1)) {
		return fmt.Sprintf("%s: %v characters are out of bounds", at, n)
	}
	if p, ok := schema["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(v) {
		return fmt.Sprintf("%s: %q does not match %s", at, v, p)
	}
	if schema["format"] == "date-time" {
		if new(api.Time).UnmarshalText([]byte(v)) != nil {
			return fmt.Sprintf("%s: %q is no time", at, v)
		}
	}
	return ""
}

// number returns a bound of a schema, or a default.
func number(schema map[string]any, name string, or float64) float64 {
	switch n := schema[name].(type) {
	case uint64:
		return float64(n)
	case int64:
		return float64(n)
	case int:
		return float64(n)
	case float64:
		return n
	}
	return or
}
