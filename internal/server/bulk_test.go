package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"google.golang.org/grpc/codes"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// some puts timers into a fake; one of them cannot be changed.
func some(t *testing.T, f *fake) {
	t.Helper()
	for _, name := range []string{"a", "b", "stuck"} {
		want(t, do(handler(f), "PUT", timersURL+"/"+name, good), 201)
	}
}

// reports reads lines of progress.
func reports(t *testing.T, body string) (list []api.BulkProgress) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSuffix(body, "\n"), "\n") {
		var p api.BulkProgress
		if err := json.Unmarshal([]byte(line), &p, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		list = append(list, p)
	}
	return list
}

func TestBulk(t *testing.T) {
	f := newFake()
	h := handler(f)
	some(t, f)
	w := do(h, "POST", timersURL+":bulk", `{"filter":{"prefix":"","labels":{}},"action":"pause","reason":"move","until":"2030-02-01T00:00:00Z","limit":9}`)
	want(t, w, 200)
	list := reports(t, w.Body.String())
	if last := list[len(list)-1]; len(list) != 4 || w.Header().Get("Content-Type") != linesType || !last.Done || last.Matched != 3 || last.Changed != 2 || last.Failed != 1 {
		t.Errorf("%s: %+v", w.Header().Get("Content-Type"), list)
	}
	if failure := list[2].Failures; len(failure) != 1 || failure[0].Name != "stuck" || failure[0].Problem.Code != "invalid" {
		t.Errorf("failures %+v", failure)
	}
	if f.bulk.Query.Namespace != "ns" || f.bulk.Reason != "move" || f.bulk.Until.String() != "2030-02-01T00:00:00.000Z" || f.bulk.Limit != 9 {
		t.Errorf("asked for %+v", f.bulk)
	}
	before := f.writes()
	w = do(h, "POST", timersURL+":bulk", `{"filter":{},"action":"reschedule","when":{"schedule":"@every 1h"},"dry_run":true}`, "Accept", "application/json, */*")
	want(t, w, 200)
	if p := decoded[api.BulkProgress](t, w); !p.Done || p.Matched != 3 || fmt.Sprint(p.Names) != "[a b stuck]" || f.writes() != before || f.bulk.When.Schedule != "@every 1h" {
		t.Errorf("dry run %+v", p)
	}
	f.dead("ns", "d")
	w = do(h, "POST", "/v1/namespaces/-/timers:bulk", `{"filter":{"name":"d"},"action":"redrive","error_contains":"503"}`, "Accept", "application/json")
	if p := decoded[api.BulkProgress](t, w); p.Changed != 1 || f.bulk.Query.Namespace != "" {
		t.Errorf("redriven %+v", p)
	}

	c := serve(t, Options{Timers: f}).timers()
	stream, err := c.Bulk(t.Context(), &rousev1.BulkRequest{Filter: &rousev1.Filter{Namespace: "ns", Name: "stuck"}, Action: "delete"})
	if err != nil {
		t.Fatal(err)
	}
	first := must[*rousev1.BulkProgress](t)(stream.Recv())
	last := must[*rousev1.BulkProgress](t)(stream.Recv())
	if first.Failed != 1 || first.Failures[0].Name != "stuck" || first.Failures[0].Problem.Code != "invalid" || !last.Done || last.Matched != 1 {
		t.Errorf("%v then %v", first, last)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

func TestWhoTakesLines(t *testing.T) {
	for accept, want := range map[string]bool{"": true, "*/*": true, "application/*": true, "application/x-ndjson": true, "application/json": false,
		"application/json, text/plain, */*": false, "application/json, application/x-ndjson": true, "application/x-ndjson;q=0, */*": true,
		"text/html": false, "Application/JSON": false} {
		var header []string
		if accept != "" {
			header = []string{accept}
		}
		if got := takesLines(header); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
}

// TestBulkThatFails: an error is the response if there was no report before it; otherwise it is in the last
// line.
func TestBulkThatFails(t *testing.T) {
	f := newFake()
	h := handler(f)
	some(t, f)
	f.set(func() { f.err = rouse.ErrUnavailable })
	want(t, do(h, "POST", timersURL+":bulk", `{"filter":{},"action":"delete"}`), 503)
	want(t, do(h, "POST", timersURL+":bulk", `{"filter":{},"action":"delete"}`, "Accept", "application/json"), 503)
}

// holding serves a fake whose bulk requests wait after the first row.
func holding(t *testing.T) (*fake, *running) {
	f := newFake()
	some(t, f)
	f.hold, f.entered = make(chan struct{}), make(chan struct{}, 100)
	return f, serve(t, Options{Timers: f, Grace: time.Minute})
}

// post sends a request and returns its response when it has begun.
func post(t *testing.T, url, body, accept string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", accept)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return client.Do(r)
}

func TestBulkEndsWhenTheServerStops(t *testing.T) {
	f, s := holding(t)
	stream, err := s.timers().Bulk(t.Context(), &rousev1.BulkRequest{Filter: &rousev1.Filter{}, Action: "delete"})
	if err != nil {
		t.Fatal(err)
	}
	must[*rousev1.BulkProgress](t)(stream.Recv())
	answer, err := post(t, "http://"+s.addr+timersURL+":bulk", `{"filter":{},"action":"delete"}`, linesType)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	if first, err := lines.ReadString('\n'); err != nil || !strings.Contains(first, `"changed":1`) { // before the end of the request
		t.Fatalf("%q %v", first, err)
	}
	whole := make(chan string, 1)
	go func() {
		answer, err := post(t, "http://"+s.addr+timersURL+":bulk", `{"filter":{},"action":"delete"}`, "application/json")
		if err != nil {
			whole <- err.Error()
			return
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body) // a body that ends early is detected below
		whole <- string(body)
	}()
	for range 3 {
		<-f.entered
	}
	s.stop()
	_, err = stream.Recv()
	wantCode(t, err, codes.Unavailable)
	rest, err := io.ReadAll(lines)
	if err != nil {
		t.Fatal(err)
	}
	if p := reports(t, string(rest)); len(p) != 1 || p[0].Problem == nil || p[0].Problem.Code != "closed" {
		t.Errorf("the last line %s", rest)
	}
	object := <-whole
	if p := reports(t, object); len(p) != 1 || p[0].Problem == nil || p[0].Changed != 1 || p[0].Done {
		t.Errorf("as one object %s", object)
	}
	if err := s.wait(); err != nil {
		t.Error(err)
	}
}

func TestBulksAtATime(t *testing.T) {
	f, s := holding(t)
	c := s.timers()
	var streams []interface {
		Recv() (*rousev1.BulkProgress, error)
	}
	for range maxBulks * 3 / 4 { // as many as one address may have
		stream, err := c.Bulk(t.Context(), &rousev1.BulkRequest{Filter: &rousev1.Filter{}, Action: "delete"})
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, stream)
		<-f.entered
	}
	stream, err := c.Bulk(t.Context(), &rousev1.BulkRequest{Filter: &rousev1.Filter{}, Action: "delete"})
	if err == nil {
		_, err = stream.Recv()
	}
	wantCode(t, err, codes.ResourceExhausted)
	other := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext, DisableKeepAlives: true}}
	r, err := other.Post("http://"+s.addr+"/v1/namespaces/ns/timers/a:backfill", jsonType, strings.NewReader(`{"from":"2030-01-01T00:00:00Z","until":"2030-01-01T00:00:01Z"}`))
	if err != nil {
		t.Fatal(err)
	}
	if r.Body.Close(); r.StatusCode != http.StatusOK {
		t.Errorf("another address: %s", r.Status)
	}
	_, err = c.Backfill(t.Context(), &rousev1.BackfillRequest{Name: "a", FromMs: int64(epoch), UntilMs: int64(epoch) + 1})
	wantCode(t, err, codes.ResourceExhausted)
	close(f.hold)
	for _, stream := range streams {
		for err = nil; err == nil; {
			_, err = stream.Recv()
		}
		if !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	}
	if _, err = c.Backfill(t.Context(), &rousev1.BackfillRequest{Namespace: "ns", Name: "a", FromMs: int64(epoch), UntilMs: int64(epoch) + 1}); err != nil {
		t.Error(err)
	}
}
