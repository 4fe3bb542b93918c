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

// with returns a spec with more members.
func with(members string) string {
	return `{"schedule":"@every 5m","target":"https://example.com/",` + members + `}`
}

// TestBadInput sends every kind of request that is refused: each answer has the status, names the field, and nothing changes.
func TestBadInput(t *testing.T) {
	f := newFake()
	h := faceOf(Options{Timers: f, ParseCalendar: parse})
	want(t, do(h, "POST", timers, named), 201)
	dead := f.dead("ns", "d")
	fire := timers + "/a/fires/" + dead
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
		field                    string // of the first problem; empty: no field is at fault
	}{
		// paths and methods
		{"unknown path", "GET", "/v2/timers", "", nil, 404, ""},
		{"root", "GET", "/", "", nil, 404, ""},
		{"path without end", "GET", "/v1/namespaces/ns", "", nil, 404, ""},
		{"no name", "GET", timers + "/", "", nil, 404, ""},
		{"unclean path", "GET", "/v1//namespaces/ns/timers", "", nil, 404, ""},
		{"wrong method", "PATCH", timers + "/a", "", nil, 405, ""},
		{"wrong method of a verb", "GET", timers + "/a:pause", "", nil, 405, ""},
		{"method of its own", "BREW", timers, "", nil, 405, ""},
		{"unknown verb", "POST", timers + "/a:stop", "", nil, 404, ""},
		{"unknown verb of all", "POST", timers + ":delete", "", nil, 404, ""},
		{"wrong method of a verb", "POST", timers + "/a:explain", "", nil, 405, ""},
		{"verb on records", "GET", timers + "/a/records:follow", "", nil, 404, ""},
		{"empty verb is no verb", "POST", timers + "/a:", "", nil, 405, ""},
		{"namespace with capitals", "GET", "/v1/namespaces/NS/timers", "", nil, 422, "namespace"},
		{"namespace to preview in", "POST", "/v1/namespaces/NS/timers:preview", `{"schedule":"@every 5m"}`, nil, 422, "namespace"},
		{"all namespaces to create in", "POST", "/v1/namespaces/-/timers", good, nil, 422, "namespace"},
		{"control character in a name", "GET", timers + "/a%00b", "", nil, 422, "name"},
		{"line end in a name", "PUT", timers + "/a%0Ab", good, nil, 422, "name"},
		{"bad UTF-8 in a name", "PUT", timers + "/a%FFb", good, nil, 422, "name"},
		{"direction mark in a name", "PUT", timers + "/a%E2%80%AEb", good, nil, 422, "name"},
		{"space at a name's end", "DELETE", timers + "/a%20", "", nil, 422, "name"},
		{"long name", "GET", timers + "/" + strings.Repeat("x", 257), "", nil, 422, "name"},
		{"fire id", "GET", timers + "/d/dead/xyz", "", nil, 422, "fire_id"},
		{"fire id", "POST", timers + "/d/dead/XYZ:redrive", "", nil, 422, "fire_id"},
		{"fire id", "POST", timers + "/d/fires/%20:complete", `{"token":1}`, nil, 422, "fire_id"},

		// media types
		{"no content type", "POST", timers, good, []string{"Content-Type", ""}, 415, "Content-Type"},
		{"form", "POST", timers, good, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "Content-Type"},
		{"text", "POST", timers + "/a:pause", `{}`, []string{"Content-Type", "text/plain"}, 415, "Content-Type"},
		{"charset", "POST", timers, good, []string{"Content-Type", "application/json; charset=latin1"}, 415, "Content-Type"},
		{"broken content type", "POST", timers, good, []string{"Content-Type", "application/json; ="}, 415, "Content-Type"},
		{"compressed", "POST", timers, good, []string{"Content-Encoding", "gzip"}, 415, "Content-Encoding"},

		// JSON
		{"no body", "POST", timers, "", []string{"Content-Type", "application/json"}, 400, "body"},
		{"white space only", "POST", timers, "  \n", nil, 400, "body"},
		{"no JSON", "POST", timers, "schedule: x", nil, 400, "body"},
		{"cut short", "POST", timers, `{"schedule":"@every 5m"`, nil, 400, "body"},
		{"trailing data", "POST", timers, good + good, nil, 400, "body"},
		{"trailing comma", "POST", timers, `{"schedule":"@every 5m",}`, nil, 400, "body"},
		{"comment", "POST", timers, `{/* */}`, nil, 400, "body"},
		{"byte order mark", "POST", timers, "\ufeff" + good, nil, 400, "body"},
		{"not an object", "POST", timers, `[1]`, nil, 400, "body"},
		{"unknown member", "POST", timers, with(`"when":"now"`), nil, 400, "when"},
		{"member in capitals", "POST", timers, with(`"Payload":1`), nil, 400, "Payload"},
		{"unknown member within", "POST", timers, with(`"retry":{"tries":1}`), nil, 400, "retry.tries"},
		{"member twice", "POST", timers, with(`"misfire":"all","misfire":"skip"`), nil, 400, "misfire"},
		{"label twice", "POST", timers, with(`"labels":{"a":"1","a":"2"}`), nil, 400, "labels.a"},
		{"bad UTF-8", "POST", timers, with(`"timezone":"` + "\xff" + `"`), nil, 400, "timezone"},
		{"half a surrogate pair", "POST", timers, with(`"timezone":"\ud800"`), nil, 400, "timezone"},
		{"wrong type", "POST", timers, `{"schedule":5}`, nil, 400, "schedule"},
		{"wrong type", "POST", timers, with(`"labels":["a"]`), nil, 400, "labels"},
		{"number as text", "POST", timers, with(`"retry":{"attempts":"3"}`), nil, 400, "retry.attempts"},
		{"negative number", "POST", timers, with(`"retry":{"attempts":-1}`), nil, 400, "retry.attempts"},
		{"broken number", "POST", timers, with(`"webhook":{"batch":1.5}`), nil, 400, "webhook.batch"},
		{"large number", "PUT", timers + "/a", with(`"expected_revision":18446744073709551616`), nil, 400, "expected_revision"},
		{"duration without a unit", "POST", timers, with(`"retry":{"interval":"90"}`), nil, 400, "retry.interval"},
		{"negative duration", "POST", timers, with(`"retry":{"timeout":"-1s"}`), nil, 400, "retry.timeout"},
		{"duration as a number", "POST", timers, with(`"webhook":{"accept":60}`), nil, 400, "webhook.accept"},
		{"no base64", "POST", timers, with(`"payload_base64":"%%%"`), nil, 400, "payload_base64"},
		{"year 0", "POST", timers + ":preview", `{"schedule":"@every 5m","from":"0000-01-01T00:00:00Z"}`, nil, 400, "from"},
		{"year 12000", "POST", timers + ":preview", `{"schedule":"@every 5m","from":"12000-01-01T00:00:00Z"}`, nil, 400, "from"},
		{"deep payload", "POST", timers, with(`"payload":` + deep), nil, 400, "body"},
		{"deep nonsense", "POST", timers, strings.Repeat("[", 1<<19), nil, 400, "body"},
		{"wrong in a batch", "POST", timers + ":batchCreate", `{"timers":[` + good + `,{"schedule":1}]}`, nil, 400, "timers[1].schedule"},

		// sizes
		{"large body", "POST", timers, with(`"payload":"` + strings.Repeat("x", 1<<20) + `"`), nil, 413, ""},
		{"large body for no body", "POST", timers + "/a:run", strings.Repeat(" ", 1<<20+1), nil, 413, ""},
		{"large batch", "POST", timers + ":batchCreate", strings.Repeat(" ", 16<<20+1), nil, 413, ""},
		{"batch of 5,001", "POST", timers + ":batchCreate", `{"timers":[` + strings.Repeat("{},", 5000) + `{}]}`, nil, 422, "timers"},
		{"large payload", "POST", timers, with(`"payload_base64":"` + strings.Repeat("AAAA", rouse.MaxPayload/3+1) + `"`), nil, 422, "payload"},

		// values
		{"no schedule", "POST", timers, `{"target":"https://example.com/"}`, nil, 422, "schedule"},
		{"no target", "POST", timers, `{"schedule":"@every 5m"}`, nil, 422, "target"},
		{"name null is no name", "POST", timers, with(`"name":" x"`), nil, 422, "name"},
		{"schedule", "POST", timers, `{"schedule":"bad","target":"https://example.com/"}`, nil, 422, "schedule"},
		{"control character", "POST", timers, with(`"timezone":"U\u0000TC"`), nil, 422, "timezone"},
		{"target", "POST", timers, `{"schedule":"@every 5m","target":"gopher://x"}`, nil, 422, "target"},
		{"misfire", "POST", timers, with(`"misfire":"never"`), nil, 422, "misfire"},
		{"both payloads", "POST", timers, with(`"payload":1,"payload_base64":""`), nil, 422, "payload_base64"},
		{"attempts", "POST", timers, with(`"retry":{"attempts":1001}`), nil, 422, "retry.attempts"},
		{"method", "POST", timers, with(`"webhook":{"method":"BREW"}`), nil, 422, "webhook.method"},
		{"other name", "PUT", timers + "/a", with(`"name":"b"`), nil, 422, "name"},
		{"revision that means any", "PUT", timers + "/a", with(`"expected_revision":18446744073709551615`), nil, 422, "expected_revision"},
		{"revision that means any", "DELETE", timers + "/a?expected_revision=18446744073709551615", "", nil, 422, "expected_revision"},
		{"revisions that differ", "PUT", timers + "/a", with(`"expected_revision":2`), []string{"If-Match", `"1"`}, 422, "expected_revision"},
		{"revisions that differ", "DELETE", timers + "/a?expected_revision=2", "", []string{"If-Match", `"1"`}, 400, "If-Match"},
		{"revision of none", "PUT", timers + "/a", with(`"expected_revision":1`), []string{"If-None-Match", "*"}, 422, "expected_revision"},
		{"weak tag", "PUT", timers + "/a", good, []string{"If-Match", `W/"1"`}, 400, "If-Match"},
		{"bare tag", "PUT", timers + "/a", good, []string{"If-Match", `1`}, 400, "If-Match"},
		{"tags", "PUT", timers + "/a", good, []string{"If-Match", `"1", "2"`}, 400, "If-Match"},
		{"tag of none", "PUT", timers + "/a", good, []string{"If-None-Match", `"1"`}, 400, "If-None-Match"},
		{"contradiction", "PUT", timers + "/a", good, []string{"If-None-Match", `*`, "If-Match", "*"}, 400, "If-Match"},
		{"batch mode", "POST", timers + ":batchCreate", `{"mode":"x","timers":[]}`, nil, 422, "mode"},
		{"reason", "POST", timers + "/a:pause", `{"reason":"` + strings.Repeat("x", 257) + `"}`, nil, 422, "reason"},
		{"reason", "POST", timers + "/a:pause", `{"reason":"\u0007"}`, nil, 422, "reason"},
		{"preview", "POST", timers + ":preview", `{"schedule":"bad"}`, nil, 422, "schedule"},
		{"preview zone", "POST", timers + ":preview", `{"schedule":"@every 5m","timezone":"Nowhere"}`, nil, 422, "timezone"},
		{"preview count", "POST", timers + ":preview", `{"schedule":"@every 5m","count":1001}`, nil, 422, "count"},
		{"no token", "POST", fire + ":complete", `{}`, nil, 422, "token"},
		{"no extension", "POST", fire + ":heartbeat", `{"token":1}`, nil, 422, "extend"},
		{"long extension", "POST", fire + ":heartbeat", `{"token":1,"extend":"169h"}`, nil, 422, "extend"},
		{"long retry", "POST", fire + ":fail", `{"token":1,"retry_after":"1000h"}`, nil, 422, "retry_after"},

		{"overlap", "POST", timers, with(`"overlap":"never"`), nil, 422, "overlap"},
		{"priority", "POST", timers, with(`"priority":"urgent"`), nil, 422, "priority"},
		{"shift", "POST", timers, with(`"calendar":{"off":["weekends"],"shift":"up"}`), nil, 422, "calendar.shift"},
		{"misfire without a span", "POST", timers, with(`"misfire":"within"`), nil, 422, "misfire"},
		{"factor", "POST", timers, with(`"retry":{"factor":0.5}`), nil, 422, "retry.factor"},
		{"occurrences", "POST", timers, with(`"max_occurrences":1000001`), nil, 422, "max_occurrences"},
		{"end before start", "POST", timers, with(`"start":"2031-01-01T00:00:00Z","end":"2030-01-01T00:00:00Z"`), nil, 422, "end"},
		{"debounce with a schedule", "POST", timers, with(`"name":"c","debounce":{"quiet":"1s"}`), nil, 422, "schedule"},
		{"debounce without a name", "POST", timers, `{"target":"https://example.com/","debounce":{"quiet":"1s"}}`, nil, 422, "name"},
		{"debounce without a time", "POST", timers, `{"name":"c","target":"https://example.com/","debounce":{}}`, nil, 422, "debounce.quiet"},
		{"throttle without a time", "PUT", timers + "/c", `{"target":"https://example.com/","throttle":{}}`, nil, 422, "throttle.every"},
		{"debounce and throttle", "POST", timers, `{"name":"c","target":"https://example.com/","debounce":{"quiet":"1s"},"throttle":{"every":"1s"}}`, nil, 422, "debounce"},
		{"short max_wait", "POST", timers, `{"name":"c","target":"https://example.com/","debounce":{"quiet":"2s","max_wait":"1s"}}`, nil, 422, "debounce.max_wait"},
		{"debounce of a revision", "PUT", timers + "/a", `{"target":"https://example.com/","debounce":{"quiet":"1s"},"expected_revision":1}`, nil, 422, "expected_revision"},
		{"debounce of a tag", "PUT", timers + "/a", `{"target":"https://example.com/","debounce":{"quiet":"1s"}}`, []string{"If-Match", "*"}, 400, "If-Match"},
		{"debounce of what is new", "PUT", timers + "/a", `{"target":"https://example.com/","debounce":{"quiet":"1s"}}`, []string{"If-None-Match", "*"}, 400, "If-Match"},
		{"pause until the past", "POST", timers + "/a:pause", `{"until":"2029-01-01T00:00:00Z"}`, nil, 422, "until"},
		{"skip with a long reason", "POST", timers + "/a:skip", `{"reason":"` + strings.Repeat("x", 257) + `"}`, nil, 422, "reason"},
		{"reschedule to nothing", "POST", timers + "/a:reschedule", `{}`, nil, 422, "schedule"},
		{"reschedule a target", "POST", timers + "/a:reschedule", good, nil, 400, "target"},
		{"reschedule any revision", "POST", timers + "/a:reschedule", `{"schedule":"@every 1h","expected_revision":18446744073709551615}`, nil, 422, "expected_revision"},
		{"reschedule two revisions", "POST", timers + "/a:reschedule", `{"schedule":"@every 1h","expected_revision":2}`, []string{"If-Match", `"1"`}, 422, "expected_revision"},
		{"reschedule none", "POST", timers + "/a:reschedule", `{"schedule":"@every 1h"}`, []string{"If-None-Match", "*"}, 422, "expected_revision"},
		{"reschedule a shift", "POST", timers + "/a:reschedule", `{"schedule":"@every 1h","calendar":{"shift":"up"}}`, nil, 422, "calendar.shift"},
		{"backfill from nowhere", "POST", timers + "/a:backfill", `{"until":"2029-01-01T00:00:00Z"}`, nil, 422, "from"},
		{"backfill without end", "POST", timers + "/a:backfill", `{"from":"2029-01-01T00:00:00Z"}`, nil, 422, "until"},
		{"backfill the wrong way round", "POST", timers + "/a:backfill", `{"from":"2029-01-01T00:00:00Z","until":"2029-01-01T00:00:00Z"}`, nil, 422, "until"},
		{"explain at no time", "GET", timers + "/a:explain?at=noon", "", nil, 400, "at"},
		{"explain a bad name", "GET", timers + "/a%01:explain", "", nil, 422, "name"},
		{"preview a bad name", "POST", timers + ":preview", `{"schedule":"@every 5m","name":" "}`, nil, 422, "name"},
		{"simulate without end", "POST", timers + ":simulate", `{}`, nil, 422, "until"},
		{"simulate the past of now", "POST", timers + ":simulate", `{"until":"2029-01-01T00:00:00Z"}`, nil, 422, "until"},
		{"simulate too much", "POST", timers + ":simulate", `{"until":"2031-01-01T00:00:00Z","limit":10001}`, nil, 422, "limit"},
		{"simulate a state", "POST", timers + ":simulate", `{"until":"2031-01-01T00:00:00Z","filter":{"states":["note"]}}`, nil, 422, "filter.states[0]"},
		{"simulate a prefix", "POST", timers + ":simulate", `{"until":"2031-01-01T00:00:00Z","filter":{"prefix":"\u0001calendar/"}}`, nil, 422, "filter.prefix"},
		{"simulate in a bad namespace", "POST", "/v1/namespaces/NS/timers:simulate", `{"until":"2031-01-01T00:00:00Z"}`, nil, 422, "namespace"},
		{"bulk without a filter", "POST", timers + ":bulk", `{"action":"delete"}`, nil, 422, "filter"},
		{"bulk without an action", "POST", timers + ":bulk", `{"filter":{}}`, nil, 422, "action"},
		{"bulk with a reason that is lost", "POST", timers + ":bulk", `{"filter":{},"action":"delete","reason":"x"}`, nil, 422, "reason"},
		{"bulk with a bad when", "POST", timers + ":bulk", `{"filter":{},"action":"reschedule","when":{"calendar":{"shift":"up"}}}`, nil, 422, "when.calendar.shift"},
		{"bulk with a misspelt filter", "POST", timers + ":bulk", `{"filter":{"perfix":"x"},"action":"delete"}`, nil, 400, "filter.perfix"},
		{"bulk with a bad label", "POST", timers + ":bulk", `{"filter":{"labels":{"":"x"}},"action":"delete"}`, nil, 422, "filter.labels"},
		{"bulk with a long error", "POST", timers + ":bulk", `{"filter":{},"action":"purge","error_contains":"` + strings.Repeat("x", 257) + `"}`, nil, 422, "error_contains"},
		{"import too much", "POST", timers + ":import", `{"timers":[` + strings.Repeat("{},", 1000) + `{}]}`, nil, 422, "timers"},
		{"import too many calendars", "POST", timers + ":import", `{"calendars":[` + strings.Repeat("{},", 100) + `{}]}`, nil, 422, "calendars"},
		{"import mode", "POST", timers + ":import", `{"mode":"x"}`, nil, 422, "mode"},
		{"import a calendar twice a day", "POST", timers + ":import", `{"calendars":[{"name":"c","days":[{"date":"2030-01-01"},{"date":"2030-01-01"}]}]}`, nil, 422, "calendars[0].days[1].date"},
		{"import a calendar of no day", "POST", timers + ":import", `{"calendars":[{"name":"c","days":[{"date":"x"}]}]}`, nil, 422, "calendars[0].days[0].date"},
		{"import a calendar from elsewhere", "POST", timers + ":import", `{"calendars":[{"name":"c","namespace":"x"}]}`, nil, 422, "calendars[0].namespace"},
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
		{"unknown parameter", "GET", timers + "?limit=5", "", nil, 400, "limit"},
		{"parameter of another request", "POST", timers + "?page_size=1", good, nil, 400, "page_size"},
		{"parameter twice", "GET", timers + "?page_size=1&page_size=2", "", nil, 400, "page_size"},
		{"escape", "GET", timers + "?prefix=%zz", "", nil, 400, "query"},
		{"semicolon", "GET", timers + "?prefix=a;b", "", nil, 400, "query"},
		{"bad UTF-8", "GET", timers + "?prefix=%ff", "", nil, 400, "prefix"},
		{"page size", "GET", timers + "?page_size=-1", "", nil, 400, "page_size"},
		{"page size", "GET", timers + "?page_size=1001", "", nil, 422, "page_size"},
		{"page size", "GET", timers + "/a/records?page_size=1001", "", nil, 422, "page_size"},
		{"page token", "GET", timers + "?page_token=xyz", "", nil, 422, "page_token"},
		{"page token", "GET", "/v1/namespaces/ns/records?page_token=AAAAAAAAAAAAAAAA", "", nil, 422, "page_token"},
		{"page token of another query", "GET", timers + "?page_token=" + pageToken, "", nil, 422, "page_token"},
		{"label", "GET", timers + "?label=team", "", nil, 400, "label"},
		{"labels that contradict", "GET", timers + "?label=a=1&label=a=2", "", nil, 400, "label"},
		{"label without a name", "GET", timers + "?label=%3D1", "", nil, 422, "label"},
		{"state", "GET", timers + "?state=done", "", nil, 400, "state"},
		{"due", "GET", timers + "?due_from=tomorrow", "", nil, 400, "due_from"},
		{"absurd due", "GET", timers + "?due_until=12000-01-01T00:00:00Z", "", nil, 400, "due_until"},
		{"due the wrong way round", "GET", timers + "?due_from=2031-01-01T00:00:00Z&due_until=2030-01-01T00:00:00Z", "", nil, 422, "due_until"},
		{"prefix", "GET", timers + "?prefix=" + strings.Repeat("x", 257), "", nil, 422, "prefix"},
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
	h := face(newFake())
	w := do(h, "POST", timers+"/a:stop", "")
	if d := decoded[api.Problem](t, w).Detail; !strings.Contains(d, ":backfill, :explain, :pause, :reschedule, :resume, :run, :skip") || !strings.Contains(d, "%3A") {
		t.Errorf("detail %q", d)
	}
	w = do(h, "PATCH", timers+"/a", "")
	if got := w.Header().Get("Allow"); got != "DELETE, GET, HEAD, PUT" {
		t.Errorf("Allow: %q", got)
	}
}

// broken is a body that fails.
type broken struct{ err error }

func (b broken) Read(p []byte) (int, error) { return copy(p, `{"sche`), b.err }

func TestBodiesThatFail(t *testing.T) {
	f := newFake()
	h := face(f)
	for _, c := range []struct {
		err    error
		status int
	}{{os.ErrDeadlineExceeded, 408}, {io.ErrUnexpectedEOF, 400}, {errors.New("malformed chunk"), 400}, {context.Canceled, 499}} {
		r := httptest.NewRequest("POST", timers, broken{c.err})
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		want(t, w, c.status)
	}
	if f.writes() != 0 {
		t.Error("something changed")
	}
}

// endless is a body without end.
type endless struct{ sent int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.sent += len(p)
	return len(p), nil
}

func TestEndlessBodyIsCut(t *testing.T) {
	h := face(newFake())
	body := &endless{}
	r := httptest.NewRequest("POST", timers, body)
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
	h := faceOf(Options{Timers: f, MaxInFlight: 10})
	full := h.memory.most - 4000
	h.memory.used.Store(full)
	w := do(h, "POST", timers, with(`"payload":"`+strings.Repeat("x", 2000)+`"`))
	want(t, w, 429)
	if w.Header().Get("Retry-After") != "1" {
		t.Errorf("headers %v", w.Header())
	}
	want(t, do(h, "POST", timers, good), 201)
	if n := h.memory.used.Load(); n != full {
		t.Errorf("the budget is off by %d", n-full)
	}
}
