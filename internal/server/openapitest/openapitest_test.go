package openapitest

import (
	"net/http"
	"strings"
	"testing"
)

// TestWrongAnswersAreFound: each of these differs from the description in one way.
func TestWrongAnswersAreFound(t *testing.T) {
	const deleted = `{"in_flight": false, "generation": 1}`
	json, problem := "application/json", "application/problem+json"
	const timer = `{"namespace": "ns", "name": "a", "schedule": "", "target": "", "generation": 1, "revision": 1, "state": "scheduled", "ended": 0}`
	const list = `{"timers": [` + timer + `]}`
	checker := New()
	wrong := `{"type": "about:blank", "title": "Conflict", "status": 409, "code": "conflict"}`
	for _, c := range []struct {
		what, method, path string
		status             int
		media, body, want  string
		sent               string
	}{
		{"right", "DELETE", "timers/a", 200, json, deleted, "", ""},
		{"a problem", "DELETE", "timers/a%3Ab", 409, problem, wrong, "", ""},
		{"another path", "DELETE", "elsewhere", 299, json, deleted, "", ""},
		{"a status", "DELETE", "timers/a", 202, json, deleted, "not documented", ""},
		{"a type", "DELETE", "timers/a", 200, "text/plain", deleted, "not documented", ""},
		{"a member", "DELETE", "timers/a", 200, json, `{"in_flight": false, "generation": 1, "more": 1}`, "more is not documented", ""},
		{"no member", "DELETE", "timers/a", 200, json, `{"in_flight": false}`, "generation is missing", ""},
		{"a text", "DELETE", "timers/a", 200, json, `{"in_flight": "no", "generation": 1}`, "is no boolean", ""},
		{"less than it may be", "DELETE", "timers/a", 200, json, `{"in_flight": false, "generation": -1}`, "out of bounds", ""},
		{"a fraction", "DELETE", "timers/a", 200, json, `{"in_flight": false, "generation": 1.5}`, "is no integer", ""},
		{"a problem of another type", "DELETE", "timers/a", 409, json, wrong, "not documented", ""},
		{"no value", "GET", "timers", 200, json, `{"timers": null}`, "is no array", ""},
		{"in a list", "GET", "timers", 200, json, `{"timers": [{"name": "a"}]}`, ".timers[0]", ""},
		{"no time", "POST", "timers:preview", 200, json, `{"next": ["soon"], "occurrences": [], "words": "", "timezone": "UTC"}`, "is no date-time", ""},
		{"content of none", "DELETE", "timers/a/dead/0", 204, json, `{}`, "none is documented", ""},
		{"more than 64 bits", "DELETE", "timers/a", 200, json, `{"in_flight": false, "generation": 9223372036854775808}`, "more than 64 bits", ""},
		{"64 bits", "DELETE", "timers/a", 200, json, `{"in_flight": false, "generation": 9223372036854775807}`, "", ""},
		{"not base64", "GET", "timers", 200, json, strings.Replace(list, `"target": ""`, `"target": "", "payload_base64": "?"`, 1), "not in base64", ""},
		{"a list", "GET", "timers", 200, json, list, "", ""},
		{"a request", "POST", "timers/a:skip", 200, json, timer, "", `{"count": 2}`},
		{"no request", "POST", "timers/a:skip", 200, json, timer, "", ""},
		{"a request with another member", "POST", "timers/a:skip", 200, json, timer, "counts is not documented", `{"counts": 2}`},
		{"a refused one", "POST", "timers/a:skip", 409, problem, wrong, "", `{"counts": 2}`},
		{"many requests", "POST", "timers:batchCreate", 200, json, `{"created": [], "failed": 0}`, "", `{"timers": [{}]}`},
		{"a request without a member", "POST", "timers", 201, json, timer, "target is missing", `{"schedule": "@daily"}`},
		{"a debounce has no schedule", "POST", "timers", 201, json, timer, "", `{"target": "stream:", "debounce": {"quiet": "1s"}}`},
	} {
		before := len(checker.Faults())
		checker.Check(Exchange{c.method, "/v1/namespaces/ns/" + c.path, []byte(c.sent), c.status, http.Header{"Content-Type": {c.media}}, []byte(c.body)})
		faults := checker.Faults()[before:]
		switch {
		case c.want == "" && len(faults) > 0:
			t.Errorf("%s: %v", c.what, faults)
		case c.want != "" && (len(faults) != 1 || !strings.Contains(faults[0], c.want)):
			t.Errorf("%s: found %v, want %s", c.what, faults, c.want)
		}
	}
}
