package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
)

// handler returns the HTTP handler over a fake, without a network.
func handler(f *fake) http.Handler {
	return handlerOf(Options{Timers: f, Version: "test"})
}

func handlerOf(o Options) *httpHandler {
	o = o.withDefaults()
	return newHTTPHandler(newService(&o, context.Background()))
}

// do sends a request with an optional body, which is JSON unless the headers say otherwise.
func do(h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	var from io.Reader
	if body != "" {
		from = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, path, from)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if i > 0 && header[i] == header[i-2] { // sent twice
			r.Header.Add(header[i], header[i+1])
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	traffic.Handler(h).ServeHTTP(w, r)
	return w
}

func decoded[T any](t *testing.T, w *httptest.ResponseRecorder) (v T) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &v, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return v
}

func want(t *testing.T, w *httptest.ResponseRecorder, status int) {
	t.Helper()
	if w.Code != status {
		t.Fatalf("status %d, want %d: %s", w.Code, status, w.Body)
	}
}

const (
	timersURL = "/v1/namespaces/ns/timers"
	good      = `{"schedule":"@every 5m","target":"https://example.com/"}`
	named     = `{"name":"a","schedule":"@every 5m","target":"https://example.com/"}`
)

func TestCreateReadReplaceDelete(t *testing.T) {
	f := newFake()
	h := handler(f)
	w := do(h, "POST", timersURL, `{"name":"a/b:c d","schedule":"@every 5m","timezone":"UTC","target":"https://example.com/","payload": { "n" : 1.0 },
		"labels":{"team":"x"},"retry":{"attempts":3,"interval":"2s","jitter":"0s"},"misfire":"skip","webhook":{"method":"PUT","headers":{"X-A":"b"},"batch":10}}`)
	want(t, w, 201)
	path := timersURL + "/a%2Fb%3Ac%20d"
	if got := w.Header().Get("Location"); got != path {
		t.Errorf("location %q, want %q", got, path)
	}
	if w.Header().Get("ETag") != `"1"` || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", w.Header())
	}
	created := decoded[api.Timer](t, w)
	if created.Name != "a/b:c d" || created.Generation != 1 || created.Revision != 1 || created.Due.String() != "2030-01-01T01:00:00.000Z" || created.State != "scheduled" {
		t.Errorf("created %+v", created)
	}
	stored := f.rows[rouse.Key{Namespace: "ns", Name: "a/b:c d"}].Spec
	if string(stored.Payload) != `{ "n" : 1.0 }` || stored.ContentType != "application/json" {
		t.Errorf("the payload was not kept byte for byte: %q %q", stored.Payload, stored.ContentType)
	}
	if stored.Retry.Jitter >= 0 || stored.Misfire != rouse.MisfireSkip || stored.Webhook.Batch != 10 {
		t.Errorf("stored %+v", stored)
	}
	w = do(h, "GET", path, "")
	want(t, w, 200)
	if read := decoded[api.Timer](t, w); read.Retry.Jitter == nil || *read.Retry.Jitter != 0 || read.Labels["team"] != "x" {
		t.Errorf("read %+v", read)
	}
	want(t, do(h, "HEAD", path, ""), 200)
	w = do(h, "PUT", path, good)
	want(t, w, 200)
	if decoded[api.Timer](t, w).Generation == 1 {
		t.Error("a replacement begins a new generation")
	}
	w = do(h, "DELETE", path, "")
	want(t, w, 200)
	if d := decoded[api.Deleted](t, w); d.Generation != 2 || d.InFlight {
		t.Errorf("deleted %+v", d)
	}
	want(t, do(h, "GET", path, ""), 404)
}

func TestNameIsMadeUp(t *testing.T) {
	h := handler(newFake())
	seen := map[string]bool{}
	for range 100 {
		w := do(h, "POST", timersURL, good)
		want(t, w, 201)
		name := decoded[api.Timer](t, w).Name
		if len(name) != 20 || seen[name] {
			t.Fatalf("made up %q", name)
		}
		seen[name] = true
	}
}

func TestMadeUpNamesAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for last, i := "", 0; i < 100; i++ {
			name := madeUpName()
			if err := rouse.CheckName(name); err != nil || name <= last {
				t.Fatalf("%q after %q, %v", name, last, err)
			}
			last = name
			time.Sleep(time.Millisecond)
		}
	})
}

func TestPutConditions(t *testing.T) {
	revision := func(f *fake, n uint64) string { return fmt.Sprintf(`"%d"`, n) }
	expect := func(n int) string {
		return fmt.Sprintf(`{"expected_revision":%d,"schedule":"@every 5m","target":"https://example.com/"}`, n)
	}
	f := newFake()
	h := handler(f)
	path := timersURL + "/a"
	want(t, do(h, "PUT", path, good, "If-Match", "*"), 412)
	want(t, do(h, "PUT", path, good, "If-Match", revision(f, 9)), 412)
	want(t, do(h, "PUT", path, expect(9)), 404)
	want(t, do(h, "PUT", path, good, "If-None-Match", "*"), 201)
	want(t, do(h, "PUT", path, good, "If-None-Match", "*"), 412)
	want(t, do(h, "PUT", path, good, "If-Match", revision(f, 9)), 412)
	want(t, do(h, "PUT", path, expect(9)), 409)
	if n := f.writes(); n != 1 {
		t.Fatalf("%d writes, want 1", n)
	}
	want(t, do(h, "PUT", path, good, "If-Match", revision(f, 1)), 200)
	want(t, do(h, "PUT", path, expect(2)), 200)
	want(t, do(h, "PUT", path, expect(3), "If-Match", revision(f, 3)), 200)
	want(t, do(h, "PUT", path, good, "If-Match", "*"), 200)
	want(t, do(h, "PUT", path, good), 200)
	want(t, do(h, "PUT", timersURL+"/b", good), 201)
	want(t, do(h, "POST", timersURL, named), 409)
	want(t, do(h, "DELETE", path, "", "If-Match", revision(f, 1)), 412)
	want(t, do(h, "DELETE", path+"?expected_revision=1", ""), 409)
	want(t, do(h, "DELETE", path+"?expected_revision=6", ""), 200)
	want(t, do(h, "DELETE", timersURL+"/b", "", "If-Match", revision(f, 7)), 200)
}

func TestVerbs(t *testing.T) {
	f := newFake()
	h := handler(f)
	want(t, do(h, "POST", timersURL, named), 201)
	w := do(h, "POST", timersURL+"/a:pause", `{"reason":"lunch"}`)
	want(t, w, 200)
	if p := decoded[api.Timer](t, w); p.State != "paused" || p.PauseReason != "lunch" {
		t.Errorf("paused %+v", p)
	}
	want(t, do(h, "POST", timersURL+"/a:pause", ""), 200)
	w = do(h, "POST", timersURL+"/a:resume", "")
	want(t, w, 200)
	if decoded[api.Timer](t, w).State != "scheduled" {
		t.Error("not resumed")
	}
	w = do(h, "POST", timersURL+"/a:run", `{}`)
	want(t, w, 200)
	if r := decoded[api.Ran](t, w); len(r.FireID) != 26 || r.Due.Instant() != f.rows[rouse.Key{Namespace: "ns", Name: "a"}].Runs[0] {
		t.Errorf("ran %+v", r)
	}
	w = do(h, "POST", timersURL+":preview", `{"schedule":"@every 5m","count":2,"from":"2031-01-01T00:00:00+01:00"}`)
	want(t, w, 200)
	if got := w.Body.String(); got != `{"next":["2030-12-31T23:01:00.000Z","2030-12-31T23:02:00.000Z"],"occurrences":[`+
		`{"due":"2030-12-31T23:01:00.000Z","sent_at":"2030-12-31T23:01:01.000Z","local":"2031-01-01T00:01:00+01:00","mark":"odd"},`+
		`{"due":"2030-12-31T23:02:00.000Z","sent_at":"2030-12-31T23:02:01.000Z","local":"2031-01-01T00:02:00+01:00"}],`+
		`"words":"every minute","timezone":"Fake/Zone"}`+"\n" {
		t.Errorf("preview %s", got)
	}
	w = do(h, "GET", "/v1/version", "")
	want(t, w, 200)
	if decoded[api.Version](t, w).Version != "test" {
		t.Errorf("version %s", w.Body)
	}
	w = do(h, "GET", "/openapi.yaml", "")
	want(t, w, 200)
	if !strings.HasPrefix(w.Body.String(), "openapi: 3.1") {
		t.Errorf("openapi %.40s", w.Body)
	}
}

func TestBatchHasAnOutcomeForEach(t *testing.T) {
	f := newFake()
	h := handler(f)
	w := do(h, "POST", timersURL+":batchCreate", `{"timers":[`+named+`,{"name":"b","schedule":"bad","target":"https://example.com/"},`+named+`,
		{"name":"c","schedule":"@every 5m","target":"https://example.com/","misfire":"never"},`+good+`]}`)
	want(t, w, 200)
	out := decoded[api.BatchCreated](t, w)
	var codes []string
	for _, c := range out.Created {
		if c.Problem == nil {
			codes = append(codes, "ok")
			continue
		}
		codes = append(codes, c.Problem.Code)
		if c.Revision != 0 || c.Name == "" {
			t.Errorf("a timer that failed: %+v", c)
		}
	}
	if got := strings.Join(codes, " "); got != "ok invalid already_exists invalid ok" || out.Failed != 3 {
		t.Errorf("%s, %d failed", got, out.Failed)
	}
	if p := out.Created[3].Problem; p.Errors[0].Field != "misfire" || p.Status != 422 {
		t.Errorf("problem %+v", p)
	}
	if len(out.Created[4].Name) != 20 || f.writes() != 2 {
		t.Errorf("last %+v, %d writes", out.Created[4], f.writes())
	}
	w = do(h, "POST", timersURL+":batchCreate", `{"mode":"create_or_replace","timers":[`+named+`]}`)
	if out := decoded[api.BatchCreated](t, w); out.Failed != 0 {
		t.Errorf("replaced %+v", out)
	}
	want(t, do(h, "POST", timersURL+":batchCreate", `{"timers":[]}`), 200)
}

func TestListPagesAndFilters(t *testing.T) {
	f := newFake()
	h := handler(f)
	for i := range 25 {
		body := fmt.Sprintf(`{"name":"t%02d","schedule":"@every 5m","target":"https://example.com/","labels":{"mod":"%d"}}`, i, i%2)
		want(t, do(h, "POST", timersURL, body), 201)
	}
	want(t, do(h, "POST", "/v1/namespaces/other/timers", named), 201)
	var names []string
	token := ""
	for pages := 1; ; pages++ {
		w := do(h, "GET", timersURL+"?page_size=10&label=mod=1&page_token="+token, "")
		want(t, w, 200)
		page := decoded[api.TimerList](t, w)
		for _, timer := range page.Timers {
			names = append(names, timer.Name)
		}
		if token = page.NextPageToken; token == "" {
			if pages != 2 {
				t.Errorf("%d pages, want 2", pages)
			}
			break
		}
	}
	if len(names) != 12 || names[0] != "t01" || names[11] != "t23" {
		t.Errorf("listed %v", names)
	}
	for query, n := range map[string]int64{"": 25, "?prefix=t1": 10, "?name=t07": 1, "?state=paused": 0, "?state=paused&state=scheduled": 25,
		"?due_from=2030-01-01T01:00:00Z": 25, "?due_until=2030-01-01T01:00:00Z": 0, "?label=mod=0&label=mod=0": 13} {
		w := do(h, "GET", timersURL+":count"+query, "")
		want(t, w, 200)
		if got := decoded[api.Count](t, w).Count; got != n {
			t.Errorf("count%s is %d, want %d", query, got, n)
		}
	}
	w := do(h, "GET", "/v1/namespaces/-/timers:count", "")
	if got := decoded[api.Count](t, w).Count; got != 26 {
		t.Errorf("%d timers in all namespaces, want 26", got)
	}
	w = do(h, "GET", "/v1/namespaces/none/timers", "")
	if got := w.Body.String(); got != `{"timers":[]}`+"\n" {
		t.Errorf("an empty list is %s", got)
	}
}

func TestHistory(t *testing.T) {
	f := newFake()
	h := handler(f)
	for i := range 5 {
		f.history = append(f.history, rouse.Record{Namespace: "ns", Name: fmt.Sprint("t", i%2), Ending: rouse.EndFired, Due: epoch, Ended: epoch.Add(1), Attempts: 1})
	}
	w := do(h, "GET", "/v1/namespaces/ns/records?page_size=3", "")
	want(t, w, 200)
	first := decoded[api.RecordList](t, w)
	w = do(h, "GET", "/v1/namespaces/ns/records?page_size=3&page_token="+first.NextPageToken, "")
	want(t, w, 200)
	second := decoded[api.RecordList](t, w)
	if len(first.Records) != 3 || len(second.Records) != 2 || second.NextPageToken != "" || first.Records[0].Name != "t0" || first.Records[0].Ending != "fired" {
		t.Errorf("%+v then %+v", first, second)
	}
	w = do(h, "GET", timersURL+"/t1/records", "")
	want(t, w, 200)
	if got := decoded[api.RecordList](t, w); len(got.Records) != 2 {
		t.Errorf("%+v", got)
	}
}

func TestDeadLetters(t *testing.T) {
	f := newFake()
	h := handler(f)
	id := f.dead("ns", "a")
	want(t, do(h, "POST", timersURL, named), 201)
	w := do(h, "GET", "/v1/namespaces/ns/dead", "")
	want(t, w, 200)
	list := decoded[api.TimerList](t, w)
	if len(list.Timers) != 1 || list.Timers[0].FireID != id || list.Timers[0].State != "dead" {
		t.Fatalf("dead letters %+v", list)
	}
	want(t, do(h, "GET", timersURL+"/a/dead/"+id, ""), 200)
	w = do(h, "POST", timersURL+"/a/dead/"+id+":redrive", "")
	if want(t, w, 200); decoded[api.Redriven](t, w).Target == "" {
		t.Errorf("redriven: %s", w.Body)
	}
	w = do(h, "POST", timersURL+"/a/dead/"+id+":redrive", `{"with_current_spec":true}`)
	if want(t, w, 200); decoded[api.Redriven](t, w).Target != "now:" {
		t.Errorf("redriven with the current spec: %s", w.Body)
	}
	want(t, do(h, "DELETE", timersURL+"/a/dead/"+id, ""), 204)
	want(t, do(h, "DELETE", timersURL+"/a/dead/"+id, ""), 404)
	want(t, do(h, "POST", timersURL+"/a/dead/"+id+":redrive", ""), 404)
}

// TestReportsOfChecks: a report without a body is a success.
func TestReportsOfChecks(t *testing.T) {
	f := newFake()
	h := handler(f)
	want(t, do(h, "POST", timersURL, named), 201)
	const path = "/v1/namespaces/ns/checks/"
	w := do(h, "POST", path+"a", "")
	if want(t, w, 200); decoded[api.Reported](t, w).ExpectedBy.Instant() != epoch.Add(time.Hour) {
		t.Errorf("reported: %s", w.Body)
	}
	want(t, do(h, "POST", path+"a", `{"status":"fail","log":"disk full"}`), 200)
	if got := []rouse.CheckReport{{}, {Status: rouse.ReportFail, Log: "disk full"}}; !slices.Equal(f.noted, got) {
		t.Errorf("reports %+v", f.noted)
	}
	want(t, do(h, "POST", path+"a", `{"status":"well"}`), 422)
	want(t, do(h, "POST", path+"none", ""), 404)
}

func TestReports(t *testing.T) {
	f := newFake()
	h := handler(f)
	key := rouse.Key{Namespace: "ns", Name: "a"}
	f.store(rouse.Timer{Key: key, Token: 5, Attempts: 1, Spec: rouse.Spec{Target: "https://x"}}, true)
	fire := timersURL + "/a/fires/" + rouse.FireID("ns", "a", 1, epoch, false)
	want(t, do(h, "POST", fire+":complete", `{"token":4}`), 409)
	want(t, do(h, "POST", fire+":complete", `{"token":5}`), 200)
	want(t, do(h, "POST", fire+":fail", `{"token":5,"detail":"no","permanent":true}`), 200)
	want(t, do(h, "POST", fire+":fail", `{"token":5,"retry_after":"0s"}`), 200)
	w := do(h, "POST", fire+":heartbeat", `{"token":5,"extend":"1m"}`)
	want(t, w, 200)
	if got := decoded[api.Deadline](t, w).Deadline.String(); got != "2030-01-01T00:01:00.000Z" {
		t.Errorf("deadline %s", got)
	}
	var got []rouse.Verdict
	for _, r := range f.reports {
		got = append(got, r.Outcome.Verdict)
	}
	if fmt.Sprint(got) != "[done rejected failed unknown]" || f.reports[2].Outcome.After != rouse.AtOnce {
		t.Errorf("reports %v", f.reports)
	}
}

func TestPayloadForms(t *testing.T) {
	f := newFake()
	h := handler(f)
	for name, c := range map[string]struct{ in, payload, contentType, out string }{
		"null":   {`"payload":null`, `null`, "application/json", `"payload":null`},
		"number": {`"payload":1e400`, `1e400`, "application/json", `"payload":1e400`},
		"base64": {`"payload_base64":"AP8="`, "\x00\xff", "", `"payload_base64":"AP8="`},
		"typed":  {`"payload_base64":"aGk=","content_type":"text/plain"`, "hi", "text/plain", `"payload_base64":"aGk="`},
		"json":   {`"payload_base64":"e30=","content_type":"application/cloudevents+json"`, "{}", "application/cloudevents+json", `"payload":{}`},
		"liar":   {`"payload_base64":"ew==","content_type":"application/json"`, "{", "application/json", `"payload_base64":"ew=="`},
		"none":   {`"labels":{}`, "", "", `"target"`},
	} {
		w := do(h, "PUT", timersURL+"/"+name, `{"schedule":"@every 5m","target":"https://example.com/",`+c.in+`}`)
		want(t, w, 201)
		spec := f.rows[rouse.Key{Namespace: "ns", Name: name}].Spec
		if string(spec.Payload) != c.payload || spec.ContentType != c.contentType {
			t.Errorf("%s: stored %q %q", name, spec.Payload, spec.ContentType)
		}
		if !strings.Contains(w.Body.String(), c.out) || !jsontext.Value(w.Body.Bytes()).IsValid() {
			t.Errorf("%s: answered %s", name, w.Body)
		}
	}
}

func TestErrorsHaveStatuses(t *testing.T) {
	f := newFake()
	h := handler(f)
	for _, c := range []struct {
		err    error
		status int
		code   string
		after  string
	}{
		{rouse.ErrFull, 507, "full", ""},
		{&rouse.RetryAfter{Err: rouse.ErrOverloaded, After: 2500e6}, 429, "overloaded", "3"},
		{rouse.ErrUnavailable, 503, "unavailable", "1"},
		{fmt.Errorf("put: %w", rouse.ErrClosed), 503, "closed", "1"},
		{context.DeadlineExceeded, 504, "deadline_exceeded", ""},
		{fmt.Errorf("secret"), 500, "internal", ""},
	} {
		f.set(func() { f.err = c.err })
		w := do(h, "POST", timersURL, good)
		want(t, w, c.status)
		p := decoded[api.Problem](t, w)
		if p.Code != c.code || p.Status != c.status || w.Header().Get("Retry-After") != c.after || w.Header().Get("Content-Type") != api.ProblemType {
			t.Errorf("%v: %+v, headers %v", c.err, p, w.Header())
		}
		if strings.Contains(w.Body.String(), "secret") {
			t.Errorf("an unforeseen error is shown: %s", w.Body)
		}
	}
	f.set(func() { f.panics, f.err = true, nil })
	want(t, do(h, "GET", timersURL, ""), 500)
}
