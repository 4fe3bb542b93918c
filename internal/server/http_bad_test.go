package server

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
)

// with returns a spec with additional members.
func with(members string) string {
	return `{"schedule":"@every 5m","target":"https://example.com/",` + members + `}`
}

// TestBadInput sends every kind of invalid request: each response has the status and names the field, and
// nothing changes.
func TestBadInput(t *testing.T) {
	f := newFake()
	h := handlerOf(Options{Timers: f, ParseCalendar: parse})
	want(t, do(h, "POST", timersURL, named), 201)
	dead := f.dead("ns", "d")
	fire := timersURL + "/a/fires/" + dead
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	pageToken := decoded[api.TimerList](t, do(h, "GET", "/v1/namespaces/-/timers?page_size=1&state=dead&state=scheduled", "")).NextPageToken
	if pageToken == "" {
		t.Fatal("no page token")
	}
	before := f.writes()
	for _, c := range []struct {
		what, method, path, body string
		header                   []string
		status                   int
		field                    string // of the first problem; empty: there is none
	}{
		// paths and methods
		{"unknown path", "GET", "/v2/timers", "", nil, 404, ""},
		{"root", "GET", "/", "", nil, 404, ""},
		{"path without end", "GET", "/v1/namespaces/ns", "", nil, 404, ""},
		{"no name", "GET", timersURL + "/", "", nil, 404, ""},
		{"unclean path", "GET", "/v1//namespaces/ns/timers", "", nil, 404, ""},
		{"wrong method", "POST", timersURL + "/a", "", nil, 405, ""},
		{"wrong method of a verb", "GET", timersURL + "/a:pause", "", nil, 405, ""},
		{"method of its own", "BREW", timersURL, "", nil, 405, ""},
		{"unknown verb", "POST", timersURL + "/a:stop", "", nil, 404, ""},
		{"unknown verb of all", "POST", timersURL + ":delete", "", nil, 404, ""},
		{"wrong method of a verb", "POST", timersURL + "/a:explain", "", nil, 405, ""},
		{"verb on records", "GET", timersURL + "/a/records:follow", "", nil, 404, ""},
		{"empty verb is no verb", "POST", timersURL + "/a:", "", nil, 405, ""},
		{"namespace with capitals", "GET", "/v1/namespaces/NS/timers", "", nil, 422, "namespace"},
		{"namespace to preview in", "POST", "/v1/namespaces/NS/timers:preview", `{"schedule":"@every 5m"}`, nil, 422, "namespace"},
		{"all namespaces to create in", "POST", "/v1/namespaces/-/timers", good, nil, 422, "namespace"},
		{"control character in a name", "GET", timersURL + "/a%00b", "", nil, 422, "name"},
		{"line end in a name", "PUT", timersURL + "/a%0Ab", good, nil, 422, "name"},
		{"bad UTF-8 in a name", "PUT", timersURL + "/a%FFb", good, nil, 422, "name"},
		{"direction mark in a name", "PUT", timersURL + "/a%E2%80%AEb", good, nil, 422, "name"},
		{"space at a name's end", "DELETE", timersURL + "/a%20", "", nil, 422, "name"},
		{"long name", "GET", timersURL + "/" + strings.Repeat("x", 257), "", nil, 422, "name"},
		{"fire id", "GET", timersURL + "/d/dead/xyz", "", nil, 422, "fire_id"},
		{"fire id", "POST", timersURL + "/d/dead/XYZ:redrive", "", nil, 422, "fire_id"},
		{"fire id", "POST", timersURL + "/d/fires/%20:complete", `{"token":1}`, nil, 422, "fire_id"},

		// media types
		{"no content type", "POST", timersURL, good, []string{"Content-Type", ""}, 415, "Content-Type"},
		{"form", "POST", timersURL, good, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "Content-Type"},
		{"text", "POST", timersURL + "/a:pause", `{}`, []string{"Content-Type", "text/plain"}, 415, "Content-Type"},
		{"charset", "POST", timersURL, good, []string{"Content-Type", "application/json; charset=latin1"}, 415, "Content-Type"},
		{"broken content type", "POST", timersURL, good, []string{"Content-Type", "application/json; ="}, 415, "Content-Type"},
		{"compressed", "POST", timersURL, good, []string{"Content-Encoding", "gzip"}, 415, "Content-Encoding"},

		// JSON
		{"no body", "POST", timersURL, "", []string{"Content-Type", "application/json"}, 400, "body"},
		{"white space only", "POST", timersURL, "  \n", nil, 400, "body"},
		{"no JSON", "POST", timersURL, "schedule: x", nil, 400, "body"},
		{"cut short", "POST", timersURL, `{"schedule":"@every 5m"`, nil, 400, "body"},
		{"trailing data", "POST", timersURL, good + good, nil, 400, "body"},
		{"trailing comma", "POST", timersURL, `{"schedule":"@every 5m",}`, nil, 400, "body"},
		{"comment", "POST", timersURL, `{/* */}`, nil, 400, "body"},
		{"byte order mark", "POST", timersURL, "\ufeff" + good, nil, 400, "body"},
		{"not an object", "POST", timersURL, `[1]`, nil, 400, "body"},
		{"unknown member", "POST", timersURL, with(`"when":"now"`), nil, 400, "when"},
		{"member in capitals", "POST", timersURL, with(`"Payload":1`), nil, 400, "Payload"},
		{"unknown member within", "POST", timersURL, with(`"retry":{"tries":1}`), nil, 400, "retry.tries"},
		{"member twice", "POST", timersURL, with(`"misfire":"all","misfire":"skip"`), nil, 400, "misfire"},
		{"label twice", "POST", timersURL, with(`"labels":{"a":"1","a":"2"}`), nil, 400, "labels.a"},
		{"bad UTF-8", "POST", timersURL, with(`"timezone":"` + "\xff" + `"`), nil, 400, "timezone"},
		{"half a surrogate pair", "POST", timersURL, with(`"timezone":"\ud800"`), nil, 400, "timezone"},
		{"wrong type", "POST", timersURL, `{"schedule":5}`, nil, 400, "schedule"},
		{"wrong type", "POST", timersURL, with(`"labels":["a"]`), nil, 400, "labels"},
		{"number as text", "POST", timersURL, with(`"retry":{"attempts":"3"}`), nil, 400, "retry.attempts"},
		{"negative number", "POST", timersURL, with(`"retry":{"attempts":-1}`), nil, 400, "retry.attempts"},
		{"broken number", "POST", timersURL, with(`"webhook":{"batch":1.5}`), nil, 400, "webhook.batch"},
		{"large number", "PUT", timersURL + "/a", with(`"expected_revision":18446744073709551616`), nil, 400, "expected_revision"},
		{"duration without a unit", "POST", timersURL, with(`"retry":{"interval":"90"}`), nil, 400, "retry.interval"},
		{"negative duration", "POST", timersURL, with(`"retry":{"timeout":"-1s"}`), nil, 400, "retry.timeout"},
		{"duration as a number", "POST", timersURL, with(`"webhook":{"accept":60}`), nil, 400, "webhook.accept"},
		{"no base64", "POST", timersURL, with(`"payload_base64":"%%%"`), nil, 400, "payload_base64"},
		{"year 0", "POST", timersURL + ":preview", `{"schedule":"@every 5m","from":"0000-01-01T00:00:00Z"}`, nil, 400, "from"},
		{"year 12000", "POST", timersURL + ":preview", `{"schedule":"@every 5m","from":"12000-01-01T00:00:00Z"}`, nil, 400, "from"},
		{"deep payload", "POST", timersURL, with(`"payload":` + deep), nil, 400, "body"},
		{"deep nonsense", "POST", timersURL, strings.Repeat("[", 1<<19), nil, 400, "body"},
		{"wrong in a batch", "POST", timersURL + ":batchCreate", `{"timers":[` + good + `,{"schedule":1}]}`, nil, 400, "timers[1].schedule"},

		// sizes
		{"large body", "POST", timersURL, with(`"payload":"` + strings.Repeat("x", 1<<20) + `"`), nil, 413, ""},
		{"large body for no body", "POST", timersURL + "/a:run", strings.Repeat(" ", 1<<20+1), nil, 413, ""},
		{"large batch", "POST", timersURL + ":batchCreate", strings.Repeat(" ", 16<<20+1), nil, 413, ""},
		{"batch of 5,001", "POST", timersURL + ":batchCreate", `{"timers":[` + strings.Repeat("{},", 5000) + `{}]}`, nil, 422, "timers"},
		{"large payload", "POST", timersURL, with(`"payload_base64":"` + strings.Repeat("AAAA", rouse.MaxPayload/3+1) + `"`), nil, 422, "payload"},

		// values
		{"no schedule", "POST", timersURL, `{"target":"https://example.com/"}`, nil, 422, "schedule"},
		{"no target", "POST", timersURL, `{"schedule":"@every 5m"}`, nil, 422, "target"},
		{"name null is no name", "POST", timersURL, with(`"name":" x"`), nil, 422, "name"},
		{"schedule", "POST", timersURL, `{"schedule":"bad","target":"https://example.com/"}`, nil, 422, "schedule"},
		{"control character", "POST", timersURL, with(`"timezone":"U\u0000TC"`), nil, 422, "timezone"},
		{"target", "POST", timersURL, `{"schedule":"@every 5m","target":"gopher://x"}`, nil, 422, "target"},
		{"misfire", "POST", timersURL, with(`"misfire":"never"`), nil, 422, "misfire"},
		{"both payloads", "POST", timersURL, with(`"payload":1,"payload_base64":""`), nil, 422, "payload_base64"},
		{"attempts", "POST", timersURL, with(`"retry":{"attempts":1001}`), nil, 422, "retry.attempts"},
		{"method", "POST", timersURL, with(`"webhook":{"method":"BREW"}`), nil, 422, "webhook.method"},
		{"other name", "PUT", timersURL + "/a", with(`"name":"b"`), nil, 422, "name"},
		{"revision that means any", "PUT", timersURL + "/a", with(`"expected_revision":18446744073709551615`), nil, 422, "expected_revision"},
		{"revision that means any", "DELETE", timersURL + "/a?expected_revision=18446744073709551615", "", nil, 422, "expected_revision"},
		{"revisions that differ", "PUT", timersURL + "/a", with(`"expected_revision":2`), []string{"If-Match", `"1"`}, 422, "expected_revision"},
		{"revisions that differ", "DELETE", timersURL + "/a?expected_revision=2", "", []string{"If-Match", `"1"`}, 400, "If-Match"},
		{"revision of none", "PUT", timersURL + "/a", with(`"expected_revision":1`), []string{"If-None-Match", "*"}, 422, "expected_revision"},
		{"weak tag", "PUT", timersURL + "/a", good, []string{"If-Match", `W/"1"`}, 400, "If-Match"},
		{"bare tag", "PUT", timersURL + "/a", good, []string{"If-Match", `1`}, 400, "If-Match"},
		{"tags", "PUT", timersURL + "/a", good, []string{"If-Match", `"1", "2"`}, 400, "If-Match"},
		{"two tags", "PUT", timersURL + "/a", good, []string{"If-Match", `"1"`, "If-Match", `"1"`}, 400, "If-Match"},
		{"a tag with one quote", "PUT", timersURL + "/a", good, []string{"If-Match", `1"`}, 400, "If-Match"},
		{"a tag with one quote", "PUT", timersURL + "/a", good, []string{"If-Match", `"1`}, 400, "If-Match"},
		{"a tag of no revision", "PUT", timersURL + "/a", good, []string{"If-Match", `"x"`}, 400, "If-Match"},
		{"the tag of revision 0", "PUT", timersURL + "/a", good, []string{"If-Match", `"0"`}, 400, "If-Match"},
		{"two of none", "PUT", timersURL + "/a", good, []string{"If-None-Match", "*", "If-None-Match", "*"}, 400, "If-None-Match"},
		{"a contradiction with a tag", "PUT", timersURL + "/a", good, []string{"If-None-Match", `*`, "If-Match", `"1"`}, 400, "If-Match"},
		{"another charset", "PUT", timersURL + "/a", good, []string{"Content-Type", "application/json; charset=latin1"}, 415, "Content-Type"},
		{"tag of none", "PUT", timersURL + "/a", good, []string{"If-None-Match", `"1"`}, 400, "If-None-Match"},
		{"contradiction", "PUT", timersURL + "/a", good, []string{"If-None-Match", `*`, "If-Match", "*"}, 400, "If-Match"},
		{"batch mode", "POST", timersURL + ":batchCreate", `{"mode":"x","timers":[]}`, nil, 422, "mode"},
		{"reason", "POST", timersURL + "/a:pause", `{"reason":"` + strings.Repeat("x", 257) + `"}`, nil, 422, "reason"},
		{"reason", "POST", timersURL + "/a:pause", `{"reason":"\u0007"}`, nil, 422, "reason"},
		{"preview", "POST", timersURL + ":preview", `{"schedule":"bad"}`, nil, 422, "schedule"},
		{"preview zone", "POST", timersURL + ":preview", `{"schedule":"@every 5m","timezone":"Nowhere"}`, nil, 422, "timezone"},
		{"preview count", "POST", timersURL + ":preview", `{"schedule":"@every 5m","count":1001}`, nil, 422, "count"},
		{"no token", "POST", fire + ":complete", `{}`, nil, 422, "token"},
		{"no extension", "POST", fire + ":heartbeat", `{"token":1}`, nil, 422, "extend"},
		{"long extension", "POST", fire + ":heartbeat", `{"token":1,"extend":"169h"}`, nil, 422, "extend"},
		{"long retry", "POST", fire + ":fail", `{"token":1,"retry_after":"1000h"}`, nil, 422, "retry_after"},

		{"overlap", "POST", timersURL, with(`"overlap":"never"`), nil, 422, "overlap"},
		{"priority", "POST", timersURL, with(`"priority":"urgent"`), nil, 422, "priority"},
		{"shift", "POST", timersURL, with(`"calendar":{"off":["weekends"],"shift":"up"}`), nil, 422, "calendar.shift"},
		{"misfire without a span", "POST", timersURL, with(`"misfire":"within"`), nil, 422, "misfire"},
		{"factor", "POST", timersURL, with(`"retry":{"factor":0.5}`), nil, 422, "retry.factor"},
		{"occurrences", "POST", timersURL, with(`"max_occurrences":1000001`), nil, 422, "max_occurrences"},
		{"end before start", "POST", timersURL, with(`"start":"2031-01-01T00:00:00Z","end":"2030-01-01T00:00:00Z"`), nil, 422, "end"},
		{"debounce with a schedule", "POST", timersURL, with(`"name":"c","debounce":{"quiet":"1s"}`), nil, 422, "schedule"},
		{"debounce without a name", "POST", timersURL, `{"target":"https://example.com/","debounce":{"quiet":"1s"}}`, nil, 422, "name"},
		{"debounce without a time", "POST", timersURL, `{"name":"c","target":"https://example.com/","debounce":{}}`, nil, 422, "debounce.quiet"},
		{"throttle without a time", "PUT", timersURL + "/c", `{"target":"https://example.com/","throttle":{}}`, nil, 422, "throttle.every"},
		{"debounce and throttle", "POST", timersURL, `{"name":"c","target":"https://example.com/","debounce":{"quiet":"1s"},"throttle":{"every":"1s"}}`, nil, 422, "debounce"},
		{"short max_wait", "POST", timersURL, `{"name":"c","target":"https://example.com/","debounce":{"quiet":"2s","max_wait":"1s"}}`, nil, 422, "debounce.max_wait"},
		{"debounce of a revision", "PUT", timersURL + "/a", `{"target":"https://example.com/","debounce":{"quiet":"1s"},"expected_revision":1}`, nil, 422, "expected_revision"},
		{"debounce of a tag", "PUT", timersURL + "/a", `{"target":"https://example.com/","debounce":{"quiet":"1s"}}`, []string{"If-Match", "*"}, 400, "If-Match"},
		{"debounce of what is new", "PUT", timersURL + "/a", `{"target":"https://example.com/","debounce":{"quiet":"1s"}}`, []string{"If-None-Match", "*"}, 400, "If-Match"},
		{"pause until the past", "POST", timersURL + "/a:pause", `{"until":"2029-01-01T00:00:00Z"}`, nil, 422, "until"},
		{"skip with a long reason", "POST", timersURL + "/a:skip", `{"reason":"` + strings.Repeat("x", 257) + `"}`, nil, 422, "reason"},
		{"reschedule to nothing", "POST", timersURL + "/a:reschedule", `{}`, nil, 422, "schedule"},
		{"reschedule a target", "POST", timersURL + "/a:reschedule", good, nil, 400, "target"},
		{"reschedule any revision", "POST", timersURL + "/a:reschedule", `{"schedule":"@every 1h","expected_revision":18446744073709551615}`, nil, 422, "expected_revision"},
		{"reschedule two revisions", "POST", timersURL + "/a:reschedule", `{"schedule":"@every 1h","expected_revision":2}`, []string{"If-Match", `"1"`}, 422, "expected_revision"},
		{"reschedule none", "POST", timersURL + "/a:reschedule", `{"schedule":"@every 1h"}`, []string{"If-None-Match", "*"}, 422, "expected_revision"},
		{"reschedule a shift", "POST", timersURL + "/a:reschedule", `{"schedule":"@every 1h","calendar":{"shift":"up"}}`, nil, 422, "calendar.shift"},
		{"patch of nothing", "PATCH", timersURL + "/a", `null`, nil, 400, "body"},
		{"patch of an unknown member", "PATCH", timersURL + "/a", `{"colour":"red"}`, nil, 422, "colour"},
		{"patch in pieces", "PATCH", timersURL + "/a", `{"retry":{"attempts":"many"}}`, nil, 422, "retry.attempts"},
		{"patch to no target", "PATCH", timersURL + "/a", `{"schedule":null}`, nil, 422, "schedule"},
		{"patch of what is not there", "PATCH", timersURL + "/a", `{}`, []string{"If-None-Match", "*"}, 400, "If-None-Match"},
		{"backfill from nowhere", "POST", timersURL + "/a:backfill", `{"until":"2029-01-01T00:00:00Z"}`, nil, 422, "from"},
		{"backfill without end", "POST", timersURL + "/a:backfill", `{"from":"2029-01-01T00:00:00Z"}`, nil, 422, "until"},
		{"backfill the wrong way round", "POST", timersURL + "/a:backfill", `{"from":"2029-01-01T00:00:00Z","until":"2029-01-01T00:00:00Z"}`, nil, 422, "until"},
		{"explain at no time", "GET", timersURL + "/a:explain?at=noon", "", nil, 400, "at"},
		{"explain a bad name", "GET", timersURL + "/a%01:explain", "", nil, 422, "name"},
		{"preview a bad name", "POST", timersURL + ":preview", `{"schedule":"@every 5m","name":" "}`, nil, 422, "name"},
		{"simulate without end", "POST", timersURL + ":simulate", `{}`, nil, 422, "until"},
		{"simulate the past of now", "POST", timersURL + ":simulate", `{"until":"2029-01-01T00:00:00Z"}`, nil, 422, "until"},
		{"simulate too much", "POST", timersURL + ":simulate", `{"until":"2031-01-01T00:00:00Z","limit":10001}`, nil, 422, "limit"},
		{"forecast without end", "POST", timersURL + ":forecast", `{}`, nil, 422, "until"},
		{"forecast by the second", "POST", timersURL + ":forecast", `{"until":"2030-01-02T00:00:00Z","step":"1s"}`, nil, 422, "step"},
		{"forecast a prefix", "POST", timersURL + ":forecast", `{"until":"2031-01-01T00:00:00Z","filter":{"prefix":"\u0001calendar/"}}`, nil, 422, "filter.prefix"},
		{"simulate a state", "POST", timersURL + ":simulate", `{"until":"2031-01-01T00:00:00Z","filter":{"states":["note"]}}`, nil, 422, "filter.states[0]"},
		{"simulate a prefix", "POST", timersURL + ":simulate", `{"until":"2031-01-01T00:00:00Z","filter":{"prefix":"\u0001calendar/"}}`, nil, 422, "filter.prefix"},
		{"simulate in a bad namespace", "POST", "/v1/namespaces/NS/timers:simulate", `{"until":"2031-01-01T00:00:00Z"}`, nil, 422, "namespace"},
		{"bulk without a filter", "POST", timersURL + ":bulk", `{"action":"delete"}`, nil, 422, "filter"},
		{"bulk without an action", "POST", timersURL + ":bulk", `{"filter":{}}`, nil, 422, "action"},
		{"bulk with a reason that is lost", "POST", timersURL + ":bulk", `{"filter":{},"action":"delete","reason":"x"}`, nil, 422, "reason"},
		{"bulk with a bad when", "POST", timersURL + ":bulk", `{"filter":{},"action":"reschedule","when":{"calendar":{"shift":"up"}}}`, nil, 422, "when.calendar.shift"},
		{"bulk with a misspelt filter", "POST", timersURL + ":bulk", `{"filter":{"perfix":"x"},"action":"delete"}`, nil, 400, "filter.perfix"},
		{"bulk with a bad label", "POST", timersURL + ":bulk", `{"filter":{"labels":{"":"x"}},"action":"delete"}`, nil, 422, "filter.labels"},
		{"bulk with a long error", "POST", timersURL + ":bulk", `{"filter":{},"action":"purge","error_contains":"` + strings.Repeat("x", 257) + `"}`, nil, 422, "error_contains"},
		{"import too much", "POST", timersURL + ":import", `{"timers":[` + strings.Repeat("{},", 1000) + `{}]}`, nil, 422, "timers"},
		{"import too many calendars", "POST", timersURL + ":import", `{"calendars":[` + strings.Repeat("{},", 100) + `{}]}`, nil, 422, "calendars"},
		{"import mode", "POST", timersURL + ":import", `{"mode":"x"}`, nil, 422, "mode"},
		{"import a calendar twice a day", "POST", timersURL + ":import", `{"calendars":[{"name":"c","days":[{"date":"2030-01-01"},{"date":"2030-01-01"}]}]}`, nil, 422, "calendars[0].days[1].date"},
		{"import a calendar of no day", "POST", timersURL + ":import", `{"calendars":[{"name":"c","days":[{"date":"x"}]}]}`, nil, 422, "calendars[0].days[0].date"},
		{"import a calendar from elsewhere", "POST", timersURL + ":import", `{"calendars":[{"name":"c","namespace":"x"}]}`, nil, 422, "calendars[0].namespace"},
		{"calendar without days", "PUT", calendars + "/c", `{}`, nil, 422, "days"},
		{"calendar of no days", "PUT", calendars + "/c", `{"days":[{"date":"2030-02-30"}]}`, nil, 422, "days[0].date"},
		{"calendar with a day twice", "PUT", calendars + "/c", `{"days":[{"date":"2030-01-02"},{"date":"2030-01-01"},{"date":"2030-01-02"}]}`, nil, 422, "days[2].date"},
		{"calendar with a bad name", "PUT", calendars + "/a%2Cb", `{"days":[]}`, nil, 422, "name"},
		{"calendar of every namespace", "PUT", calendars + "/weekends", `{"days":[]}`, nil, 422, "name"},
		{"calendar with a bad text", "PUT", calendars + "/c", `{"days":[{"date":"2030-01-02","text":"\u0007"}]}`, nil, 422, "days[0].text"},
		{"calendar in all namespaces", "PUT", "/v1/namespaces/-/calendars/c", `{"days":[]}`, nil, 422, "namespace"},
		{"calendars of all namespaces", "GET", "/v1/namespaces/-/calendars", "", nil, 422, "namespace"},
		{"calendar of no name", "DELETE", calendars + "/%20", "", nil, 422, "name"},
		{"broken iCalendar", "PUT", calendars + "/c", "BEGIN", []string{"Content-Type", "text/calendar"}, 422, "icalendar"},
		{"large iCalendar", "PUT", calendars + "/c", strings.Repeat("x", maxCalendar+1), []string{"Content-Type", "text/calendar"}, 413, ""},
		{"backup with a parameter", "GET", "/v1/backup?gzip=1", "", nil, 400, "gzip"},
		{"clock by a minus", "POST", "/v1/clock:advance", `{"by":"-1s"}`, nil, 400, "by"},

		// queries
		{"unknown parameter", "GET", timersURL + "?limit=5", "", nil, 400, "limit"},
		{"parameter of another request", "POST", timersURL + "?page_size=1", good, nil, 400, "page_size"},
		{"parameter twice", "GET", timersURL + "?page_size=1&page_size=2", "", nil, 400, "page_size"},
		{"escape", "GET", timersURL + "?prefix=%zz", "", nil, 400, "query"},
		{"semicolon", "GET", timersURL + "?prefix=a;b", "", nil, 400, "query"},
		{"bad UTF-8", "GET", timersURL + "?prefix=%ff", "", nil, 400, "prefix"},
		{"page size", "GET", timersURL + "?page_size=-1", "", nil, 400, "page_size"},
		{"page size", "GET", timersURL + "?page_size=1001", "", nil, 422, "page_size"},
		{"page size", "GET", timersURL + "/a/records?page_size=1001", "", nil, 422, "page_size"},
		{"page token", "GET", timersURL + "?page_token=xyz", "", nil, 422, "page_token"},
		{"page token", "GET", "/v1/namespaces/ns/records?page_token=AAAAAAAAAAAAAAAA", "", nil, 422, "page_token"},
		{"page token of another query", "GET", timersURL + "?page_token=" + pageToken, "", nil, 422, "page_token"},
		{"label", "GET", timersURL + "?label=team", "", nil, 400, "label"},
		{"labels that contradict", "GET", timersURL + "?label=a=1&label=a=2", "", nil, 400, "label"},
		{"label without a name", "GET", timersURL + "?label=%3D1", "", nil, 422, "label"},
		{"state", "GET", timersURL + "?state=done", "", nil, 400, "state"},
		{"due", "GET", timersURL + "?due_from=tomorrow", "", nil, 400, "due_from"},
		{"absurd due", "GET", timersURL + "?due_until=12000-01-01T00:00:00Z", "", nil, 400, "due_until"},
		{"due the wrong way round", "GET", timersURL + "?due_from=2031-01-01T00:00:00Z&due_until=2030-01-01T00:00:00Z", "", nil, 422, "due_until"},
		{"prefix", "GET", timersURL + "?prefix=" + strings.Repeat("x", 257), "", nil, 422, "prefix"},
		{"state of dead letters", "GET", "/v1/namespaces/ns/dead?state=paused", "", nil, 400, "state"},
		{"follow a bad name", "GET", "/v1/namespaces/ns/records:follow?name=%01", "", nil, 422, "name"},
	} {
		w := do(h, c.method, c.path, c.body, c.header...)
		if w.Code != c.status {
			t.Errorf("%s: %s %.80s: status %d, want %d: %s", c.what, c.method, c.path, w.Code, c.status, w.Body)
			continue
		}
		if w.Header().Get("Content-Type") != api.ProblemType {
			t.Errorf("%s: content type %q", c.what, w.Header().Get("Content-Type"))
		}
		p := decoded[api.Problem](t, w)
		if p.Status != c.status || p.Code == "" || p.Title == "" || p.Detail == "" || !strings.HasSuffix(p.Type, "#"+p.Code) {
			t.Errorf("%s: %+v", c.what, p)
		}
		switch {
		case c.field == "":
			if len(p.Errors) != 0 {
				t.Errorf("%s: %+v", c.what, p.Errors)
			}
		case len(p.Errors) == 0 || p.Errors[0].Field != c.field || p.Errors[0].Detail == "" || p.Errors[0].Cure == "":
			t.Errorf("%s: errors %+v, want field %q with a cure", c.what, p.Errors, c.field)
		}
		if w.Body.Len() > 4<<10 {
			t.Errorf("%s: an answer of %d bytes", c.what, w.Body.Len())
		}
		if n := f.writes(); n != before {
			t.Fatalf("%s: something changed", c.what)
		}
	}
}

func TestRefusalsNameWhatIsOffered(t *testing.T) {
	h := handler(newFake())
	w := do(h, "POST", timersURL+"/a:stop", "")
	if d := decoded[api.Problem](t, w).Detail; !strings.Contains(d, ":backfill, :badge, :explain, :pause, :reschedule, :resume, :run, :skip") || !strings.Contains(d, "%3A") {
		t.Errorf("detail %q", d)
	}
	w = do(h, "POST", timersURL+"/a", "")
	if got := w.Header().Get("Allow"); got != "DELETE, GET, HEAD, PATCH, PUT" {
		t.Errorf("Allow: %q", got)
	}
}

// broken is a body whose read fails.
type broken struct{ err error }

func (b broken) Read(p []byte) (int, error) { return copy(p, `{"sche`), b.err }

func TestBodiesThatFail(t *testing.T) {
	f := newFake()
	h := handler(f)
	for _, c := range []struct {
		err    error
		status int
	}{{os.ErrDeadlineExceeded, 408}, {io.ErrUnexpectedEOF, 400}, {errors.New("malformed chunk"), 400}, {context.Canceled, 499}} {
		r := httptest.NewRequest("POST", timersURL, broken{c.err})
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		want(t, w, c.status)
	}
	if f.writes() != 0 {
		t.Error("something changed")
	}
}

// endless is a body without an end.
type endless struct{ sent int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.sent += len(p)
	return len(p), nil
}

func TestEndlessBodyIsCut(t *testing.T) {
	h := handler(newFake())
	body := &endless{}
	r := httptest.NewRequest("POST", timersURL, body)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	want(t, w, 413)
	if body.sent > 2*maxBody {
		t.Errorf("read %d bytes", body.sent)
	}
}

func TestBodiesShareABudget(t *testing.T) {
	f := newFake()
	h := handlerOf(Options{Timers: f, MaxInFlight: 10})
	full := h.memory.Most() - 4000
	h.memory.TakeBytes(nil, full)
	w := do(h, "POST", timersURL, with(`"payload":"`+strings.Repeat("x", 2000)+`"`))
	want(t, w, 429)
	if w.Header().Get("Retry-After") != "1" {
		t.Errorf("headers %v", w.Header())
	}
	want(t, do(h, "POST", timersURL, good), 201)
	if n := h.memory.Used(); n != full {
		t.Errorf("the budget is off by %d", n-full)
	}
}
