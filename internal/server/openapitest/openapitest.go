// Package openapitest checks real answers of the HTTP API against its description, for tests: the status is
// documented, the body has the documented type and matches its schema and its formats, and no member is
// undocumented. The same of the bodies of requests that were served.
package openapitest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
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
}

type path struct {
	matches    *regexp.Regexp
	operations map[string]any
}

var variable = regexp.MustCompile(`\\\{[a-z_]+\\\}`)

// New returns a checker of api/openapi.yaml.
func New() *Checker {
	c := &Checker{}
	if err := yaml.Unmarshal(api.OpenAPI, &c.whole); err != nil {
		panic(err)
	}
	for name, operations := range c.whole["paths"].(map[string]any) {
		// A ":" within a variable is escaped: an unescaped one begins a verb.
		c.paths = append(c.paths, path{regexp.MustCompile("^" + variable.ReplaceAllString(regexp.QuoteMeta(name), `[^/:]*`) +
			"$"), operations.(map[string]any)})
	}
	return c
}

// Faults returns the faults so far.
func (c *Checker) Faults() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.faults)
}

// maxBody bounds the bodies that are kept; those of streams and backups are not.
const maxBody = 16 << 20

// maxSent bounds the bodies of requests that are kept: tests measure the allocations of the server for large
// ones.
const maxSent = 64 << 10

// Handler checks the requests and answers of a handler.
func (c *Checker) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kept := &recorder{ResponseWriter: w, status: http.StatusOK}
		sent := &tee{ReadCloser: r.Body}
		if isJSON(r.Header) {
			r.Body = sent
		}
		h.ServeHTTP(kept, r)
		sent.mu.Lock()
		defer sent.mu.Unlock()
		c.Check(Exchange{r.Method, r.URL.EscapedPath(), sent.body.Bytes(), kept.status, w.Header(), kept.body.Bytes()})
	})
}

// tee keeps the bytes that are read of a body: by the handler, and by the server after it.
type tee struct {
	io.ReadCloser
	mu   sync.Mutex
	body bytes.Buffer
	long bool // it is not kept
}

func (b *tee) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.long = b.long || b.body.Len()+n > maxSent; b.long {
		b.body.Reset()
	} else {
		b.body.Write(to[:n])
	}
	return n, err
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

// Transport checks the requests and answers of a transport.
func (c *Checker) Transport(t http.RoundTripper) http.RoundTripper { return transport{c, t} }

type transport struct {
	checker *Checker
	http.RoundTripper
}

// RoundTrip reads bodies that are JSON, and checks them.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent []byte
	if r.GetBody != nil && isJSON(r.Header) {
		again, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		if sent, err = io.ReadAll(io.LimitReader(again, maxSent)); err != nil || len(sent) == maxSent {
			sent = nil
		}
		if err != nil {
			return nil, err
		}
	}
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
	t.checker.Check(Exchange{r.Method, r.URL.EscapedPath(), sent, answer.StatusCode, answer.Header, body})
	return answer, nil
}

func mediaType(h http.Header) string {
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return media
}

func isJSON(h http.Header) bool { return strings.HasSuffix(mediaType(h), "json") }

// Exchange is a request and its answer. Bodies are there if they are JSON.
type Exchange struct {
	Method, Path string // as it was sent, escaped
	Sent         []byte
	Status       int
	Header       http.Header
	Body         []byte
}

// Check checks one exchange. Requests of paths that the description does not have are not its business.
func (c *Checker) Check(e Exchange) {
	read := e.Method
	if e.Method == http.MethodHead {
		read = http.MethodGet
	}
	for _, p := range c.paths {
		operation, ok := p.operations[strings.ToLower(read)].(map[string]any)
		if !ok || !p.matches.MatchString(e.Path) {
			continue
		}
		var faults []string
		if fault := c.checkAnswer(operation, e.Method, e.Status, e.Header, e.Body); fault != "" {
			faults = append(faults, fmt.Sprintf("%s %s: %d %s: %s", e.Method, e.Path, e.Status, shortenBody(e.Body), fault))
		}
		if fault := c.checkRequest(operation, e.Sent); fault != "" && e.Status < 300 {
			faults = append(faults, fmt.Sprintf("%s %s with %s, which was served: %s", e.Method, e.Path,
				shortenBody(e.Sent), fault))
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.faults = append(c.faults, faults...)
		return
	}
}

func shortenBody(b []byte) string { return string(b[:min(len(b), 300)]) }

// checkAnswer returns the fault of an answer, or an empty text.
func (c *Checker) checkAnswer(operation map[string]any, method string, status int, h http.Header, body []byte) string {
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
	content, _ := c.resolveRef(documented)["content"].(map[string]any)
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
		if fault := c.checkJSON(schema, text); fault != "" {
			return fault
		}
	}
	return ""
}

// checkRequest returns the fault of the body of a request, or an empty text.
func (c *Checker) checkRequest(operation map[string]any, body []byte) string {
	if text := string(bytes.TrimSpace(body)); text == "" || text == "{}" {
		return ""
	}
	if id := operation["operationId"]; id == "batchCreate" || id == "importTimers" {
		return "" // the error of one of many is in an answer of 200
	}
	described, _ := operation["requestBody"].(map[string]any)
	content, _ := described["content"].(map[string]any)
	of, ok := content["application/json"].(map[string]any)
	if !ok {
		return "no body is documented"
	}
	schema, _ := of["schema"].(map[string]any)
	return c.checkJSON(schema, body)
}

// checkJSON returns the fault of a value in JSON, or an empty text.
func (c *Checker) checkJSON(schema map[string]any, text []byte) string {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return err.Error()
	}
	return c.checkValue(schema, v, "")
}

// resolveRef returns the schema of a reference, with the members that are next to it.
func (c *Checker) resolveRef(schema map[string]any) map[string]any {
	ref, ok := schema["$ref"].(string)
	if !ok {
		return schema
	}
	at := c.whole
	for segment := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		at = at[segment].(map[string]any)
	}
	out := map[string]any{}
	maps.Copy(out, c.resolveRef(at))
	for k, v := range schema {
		if k != "$ref" {
			out[k] = v
		}
	}
	return out
}

// keywords are those of JSON Schema that the description may use: others would not be checked, and generators
// of clients fail at them.
var keywords = map[string]bool{"type": true, "properties": true, "required": true, "items": true,
	"additionalProperties": true, "enum": true, "x-enum-varnames": true,
	"minimum": true, "maximum": true, "minLength": true, "maxLength": true, "minItems": true, "maxItems": true,
	"maxProperties": true, "pattern": true, "format": true,
	"contentEncoding": true, "description": true, "examples": true}

// checkValue returns the fault of a value, or an empty text.
func (c *Checker) checkValue(schema map[string]any, v any, at string) string {
	schema = c.resolveRef(schema)
	for k := range schema {
		if !keywords[k] {
			return fmt.Sprintf("%s: the checker does not know the keyword %s", at, k)
		}
	}
	if t, ok := schema["type"].(string); ok && !hasType(t, v) {
		return fmt.Sprintf("%s: %v is no %s", at, v, t)
	}
	if list, ok := schema["enum"].([]any); ok && !slices.ContainsFunc(list,
		func(one any) bool { return fmt.Sprint(one) == fmt.Sprint(v) }) {
		return fmt.Sprintf("%s: %v is none of %v", at, v, list)
	}
	switch v := v.(type) {
	case json.Number:
		if fault := checkInteger(schema, v); fault != "" {
			return at + ": " + fault
		}
		n, _ := v.Float64() // infinite if it is larger than the largest one
		if n < schemaBound(schema, "minimum", math.Inf(-1)) || n > schemaBound(schema, "maximum", math.Inf(1)) {
			return fmt.Sprintf("%s: %v is out of bounds", at, v)
		}
	case string:
		return checkString(schema, v, at)
	case []any:
		if n := float64(len(v)); n < schemaBound(schema, "minItems", 0) || n > schemaBound(schema, "maxItems", math.Inf(1)) {
			return fmt.Sprintf("%s: %v elements are out of bounds", at, n)
		}
		if items, ok := schema["items"].(map[string]any); ok {
			for i, one := range v {
				if fault := c.checkValue(items, one, fmt.Sprintf("%s[%d]", at, i)); fault != "" {
					return fault
				}
			}
		}
	case map[string]any:
		members, required, rest := objectMembers(schema)
		for _, name := range required {
			if _, ok := v[name]; !ok {
				return fmt.Sprintf("%s: %s is missing", at, name)
			}
		}
		if n := float64(len(v)); n > schemaBound(schema, "maxProperties", math.Inf(1)) {
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
			if fault := c.checkValue(of, one, at+"."+name); fault != "" {
				return fault
			}
		}
	}
	return ""
}

// objectMembers returns the schemas of an object's members, those that are required, and the schema of all
// others.
func objectMembers(schema map[string]any) (members map[string]any, required []string, rest map[string]any) {
	members, _ = schema["properties"].(map[string]any)
	names, _ := schema["required"].([]any)
	for _, name := range names {
		required = append(required, name.(string))
	}
	rest, _ = schema["additionalProperties"].(map[string]any)
	return members, required, rest
}

// checkInteger returns the fault of a number that is to be whole: a client reads 64 bits with the format
// int64, and 32 without one.
func checkInteger(schema map[string]any, n json.Number) string {
	bits := 32
	switch schema["format"] {
	case "int64":
		bits = 64
	case nil:
	default:
		return fmt.Sprintf("the checker does not know the format %v of numbers", schema["format"])
	}
	if _, err := strconv.ParseInt(n.String(), 10, bits); err != nil && schema["type"] == "integer" {
		return fmt.Sprintf("%v has more than %d bits", n, bits)
	}
	return ""
}

func hasType(t string, v any) bool {
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

func checkString(schema map[string]any, v, at string) string {
	if n := float64(utf8.RuneCountInString(v)); n < schemaBound(schema, "minLength", 0) ||
		n > schemaBound(schema, "maxLength", math.Inf(1)) {
		return fmt.Sprintf("%s: %v characters are out of bounds", at, n)
	}
	if p, ok := schema["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(v) {
		return fmt.Sprintf("%s: %q does not match %s", at, v, p)
	}
	var err error
	switch schema["format"] {
	case nil, "binary":
	case "date-time":
		err = new(api.Time).UnmarshalText([]byte(v))
	case "date":
		_, err = time.Parse(time.DateOnly, v)
	case "uri":
		_, err = url.Parse(v)
	default:
		return fmt.Sprintf("%s: the checker does not know the format %v of texts", at, schema["format"])
	}
	if err != nil {
		return fmt.Sprintf("%s: %q is no %v", at, v, schema["format"])
	}
	if encoding := schema["contentEncoding"]; encoding == "base64" {
		if _, err := base64.StdEncoding.DecodeString(v); err != nil {
			return fmt.Sprintf("%s: %q is not in base64", at, v)
		}
	} else if encoding != nil {
		return fmt.Sprintf("%s: the checker does not know the encoding %v", at, encoding)
	}
	return ""
}

// schemaBound returns a bound of a schema, or a default.
func schemaBound(schema map[string]any, name string, or float64) float64 {
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
