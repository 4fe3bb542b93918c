package server

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/store/mem"
)

// sender sends requests to a server.
func (s *running) sender(t *testing.T) func(method, path, body string, header ...string) *httptest.ResponseRecorder {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return func(method, path, body string, header ...string) *httptest.ResponseRecorder {
		t.Helper()
		r, err := http.NewRequest(method, "http://"+s.addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		w := httptest.NewRecorder()
		maps.Copy(w.Header(), res.Header)
		w.Code = res.StatusCode
		_, _ = io.Copy(w.Body, res.Body)
		return w
	}
}

func TestARepeatedCreateFindsItsTimer(t *testing.T) {
	send := serveEngine(t, mem.New()).sender(t)
	created := func(w *httptest.ResponseRecorder) api.Timer { t.Helper(); return decoded[api.Timer](t, w) }
	const key = "8e03978e-40d5-43dd-bc93-6894a57f9324"
	first := send("POST", timersURL, good, "Idempotency-Key", key)
	want(t, first, 201)
	for _, key := range []string{key, `"` + key + `"`} {
		again := send("POST", timersURL, good, "Idempotency-Key", key)
		want(t, again, 200)
		if a, b := created(first), created(again); a.Name != b.Name || a.Generation != b.Generation || again.Header().Get("ETag") != first.Header().Get("ETag") {
			t.Errorf("%s: %+v, first %+v", key, b, a)
		}
	}
	if n := decoded[api.Count](t, send("GET", timersURL+":count", "")); n.Count != 1 {
		t.Errorf("%d timers", n.Count)
	}
	for _, other := range []string{strings.Replace(good, "5m", "6m", 1), named} {
		w := send("POST", timersURL, other, "Idempotency-Key", key)
		want(t, w, 422)
		if p := decoded[api.Problem](t, w); p.Code != "invalid" || len(p.Errors) != 1 || p.Errors[0].Field != "Idempotency-Key" {
			t.Errorf("%+v", p)
		}
	}
	want(t, send("POST", timersURL, good, "Idempotency-Key", "another"), 201)
	want(t, send("POST", strings.Replace(timersURL, "ns", "other", 1), good, "Idempotency-Key", "another"), 201)

	first = send("POST", timersURL, named, "Idempotency-Key", "k")
	want(t, first, 201)
	path := timersURL + "/" + created(first).Name
	want(t, send("POST", timersURL, named, "Idempotency-Key", "k"), 200)
	for _, header := range [][]string{nil, {"Idempotency-Key", "l"}} { // another request
		w := send("POST", timersURL, named, header...)
		want(t, w, 409)
		if p := decoded[api.Problem](t, w); p.Code != "already_exists" || !strings.Contains(p.Detail, "(scheduled)") {
			t.Errorf("%v: %+v", header, p)
		}
	}
	want(t, send("POST", timersURL, strings.Replace(named, "5m", "6m", 1), "Idempotency-Key", "k"), 422)
	want(t, send("PUT", path, strings.Replace(good, "5m", "7m", 1)), 200)
	want(t, send("POST", timersURL, named, "Idempotency-Key", "k"), 200) // after an edit
	want(t, send("DELETE", path, ""), 200)
	w := send("POST", timersURL, named, "Idempotency-Key", "k")
	want(t, w, 409)
	if p := decoded[api.Problem](t, w); p.Code != "conflict" || !strings.Contains(p.Detail, "deleted since") {
		t.Errorf("after a delete: %+v", p)
	}
	want(t, send("GET", path, ""), 404)
	want(t, send("POST", timersURL, named, "Idempotency-Key", "l"), 201)
}

// TestAnotherKeyIsAnotherRequest: a create with another key than that of a timer which has ended is refused,
// and tells why; the same create with the same key is answered.
func TestAnotherKeyIsAnotherRequest(t *testing.T) {
	send := serveEngine(t, mem.New()).sender(t)
	body := `{"name":"reminder-18","schedule":"@after 1ms","target":"stream:x"}`
	want(t, send("POST", timersURL, body, "Idempotency-Key", "k1"), 201)
	poll.Until(t, "it has ended", func() bool {
		return decoded[api.Timer](t, send("GET", timersURL+"/reminder-18", "")).State == "ended"
	})
	want(t, send("POST", timersURL, body, "Idempotency-Key", "k1"), 200)
	for _, key := range []string{"k3", "k3", "k4"} {
		w := send("POST", timersURL, body, "Idempotency-Key", key)
		want(t, w, 409)
		if p := decoded[api.Problem](t, w); p.Code != "already_exists" || !strings.Contains(p.Detail, "ended, kept until") {
			t.Errorf("%s: %+v", key, p)
		}
	}
	want(t, send("POST", timersURL, body), 409)
}

// TestANameTwiceInABatchWithAKey: the same timer twice is one request, and another one with its name clashes
// with it, also when the request is repeated.
func TestANameTwiceInABatchWithAKey(t *testing.T) {
	for mode, code := range map[string]string{"create_only": "already_exists", "create_or_replace": "conflict"} {
		t.Run(mode, func(t *testing.T) {
			send := serveEngine(t, mem.New()).sender(t)
			body := `{"mode": "` + mode + `", "timers": [{"name": "a", "schedule": "@after 1h", "target": "stream:x"},
				{"name": "a", "schedule": "@after 2h", "target": "stream:x"}, {"name": "a", "schedule": "@after 1h", "target": "stream:x"}]}`
			for range 2 {
				w := send("POST", timersURL+":batchCreate", body, "Idempotency-Key", "k")
				want(t, w, 200)
				is := decoded[api.BatchCreated](t, w).Created
				if len(is) != 3 || is[0].Problem != nil || is[2].Problem != nil {
					t.Fatalf("%+v", is)
				}
				if p := is[1].Problem; p == nil || p.Code != code || !strings.Contains(p.Detail, "of this request, with another spec") {
					t.Errorf("another timer with the name: %+v", p)
				}
				if got := decoded[api.Timer](t, send("GET", timersURL+"/a", "")); got.Spec.Schedule != "@after 1h" {
					t.Errorf("schedule %s", got.Spec.Schedule)
				}
			}
		})
	}
}

// TestKeysOverGRPC: the metadata is what the header is over HTTP.
func TestKeysOverGRPC(t *testing.T) {
	c := serveEngine(t, mem.New()).timers()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", "k")
	ask := &rousev1.CreateRequest{Namespace: "ns", Spec: goodSpec()}
	first := must[*rousev1.Timer](t)(c.Create(ctx, ask))
	again := must[*rousev1.Timer](t)(c.Create(ctx, ask))
	if !strings.HasPrefix(first.Name, "key-") || again.Name != first.Name || again.Generation != first.Generation {
		t.Errorf("first %v, again %v", first, again)
	}
	other := proto.CloneOf(ask)
	other.Spec.Target = "stream:other"
	if _, err := c.Create(ctx, other); status.Code(err) != codes.InvalidArgument {
		t.Errorf("another body with the same key: %v", err)
	}
	ctx = metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", "b")
	batch := &rousev1.BatchCreateRequest{Namespace: "ns", Timers: []*rousev1.NewTimer{{Spec: goodSpec()}, {Spec: goodSpec()}}}
	firsts := must[*rousev1.BatchCreateResponse](t)(c.BatchCreate(ctx, batch)).Created
	for i, again := range must[*rousev1.BatchCreateResponse](t)(c.BatchCreate(ctx, batch)).Created {
		if again.Problem != nil || !strings.HasSuffix(firsts[i].Name, fmt.Sprint("-", i)) || !proto.Equal(again, firsts[i]) {
			t.Errorf("of a batch: first %v, again %v", firsts[i], again)
		}
	}
	stream := must[rousev1.Timers_CreateStreamClient](t)(c.CreateStream(ctx))
	if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a stream of creates: %v", err)
	}
	if _, err := c.Create(metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", ""), ask); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an empty key: %v", err)
	}
	if _, err := c.Create(metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", "a", "idempotency-key", "b"), ask); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "send the header once") {
		t.Errorf("two keys: %v", err)
	}
}

// TestARepeatedCreateFindsATimerThatFired: a create is repeated after its response was lost and the timer
// ended.
func TestARepeatedCreateFindsATimerThatFired(t *testing.T) {
	s := serveEngine(t, mem.New())
	body := `{"schedule":"@after 1ms","target":"stream:x","payload":{"a":[1,{"b":"c"}]},"labels":{"a":"b"},"retry":{"attempts":3}}`
	ask := s.sender(t)
	send := func(method, path, body string) *httptest.ResponseRecorder {
		t.Helper()
		return ask(method, path, body, "Idempotency-Key", "k")
	}
	names := map[string]bool{}
	for _, status := range []int{201, 200, 200} {
		w := send("POST", timersURL, body)
		want(t, w, status)
		timer := decoded[api.Timer](t, w)
		names[timer.Name] = true
		for timer.State != "ended" { // until it has fired
			w := send("GET", timersURL+"/"+timer.Name, "")
			want(t, w, 200)
			timer = decoded[api.Timer](t, w)
		}
	}
	if len(names) != 1 {
		t.Errorf("timers %v", names)
	}
}

func TestIdempotencyKeysThatAreRefused(t *testing.T) {
	f := newFake()
	h := handler(f)
	for _, key := range []string{`""`, strings.Repeat("x", 257), "a\x01", "\u00e9"} {
		want(t, do(h, "POST", timersURL, good, "Idempotency-Key", key), 400)
	}
	for _, second := range []string{"b", "a", ""} {
		w := do(h, "POST", timersURL, good, "Idempotency-Key", "a", "Idempotency-Key", second)
		want(t, w, 400)
		if p := decoded[api.Problem](t, w); !strings.Contains(p.Detail, "Idempotency-Key") || !strings.Contains(p.Detail, "is one of 2 in one request; send the header once") {
			t.Errorf("two headers: %+v", p)
		}
	}
	want(t, do(h, "POST", "/v1/namespaces/ns/fires:poll", `{"channel":"x"}`, "Idempotency-Key", "k"), 400)
	want(t, do(h, "PUT", timersURL+"/a", good, "Idempotency-Key", "k"), 201) // a PUT can be repeated anyway
	want(t, do(h, "GET", timersURL+"/a", "", "Idempotency-Key", "k"), 200)
}

// TestEveryPostTakesAKeyOrNeedsNone: a POST that changes something takes the header, so that its operation
// has the key; those that do not are listed with why.
func TestEveryPostTakesAKeyOrNeedsNone(t *testing.T) {
	without := map[string]string{
		":outcomes": "reads", ":preview": "reads", ":simulate": "reads", ":forecast": "reads", ":reveal": "reads",
		"/sessions:end": "ends what is there", "/jobs/{id}:cancel": "ends what is there", "/limits/{name}:pause": "what is paused stays paused", "/limits/{name}:resume": "what goes on goes on", "/limits/{name}:reset": "has the whole burst either way", "/session": "is a login", "/fires:poll": "what a lost answer had comes again",
	}
	for _, r := range routes {
		if r.method != http.MethodPost {
			if (r.repeats != anyhow) != (r.path == timerPath && (r.method == http.MethodPut || r.method == http.MethodPatch)) { // which begin a generation
				t.Errorf("%s %s can be repeated without a key", r.method, r.path)
			}
			continue
		}
		listed := false
		for end := range without {
			listed = listed || strings.HasSuffix(r.path, end)
		}
		if listed == (r.repeats == withKey) {
			t.Errorf("%s: repeats is %d, and it is listed: %t", r.path, r.repeats, listed)
		}
	}
	for _, door := range []string{"http", "grpc"} {
		f := newFake()
		if door == "http" {
			want(t, do(handler(f), "POST", timersURL+"/a:pause", `{}`, "Idempotency-Key", "k"), 404)
		} else if _, err := serve(t, Options{Timers: f}).timers().Pause(metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", "k"), &rousev1.PauseRequest{Namespace: "ns", Name: "a"}); status.Code(err) != codes.NotFound {
			t.Error(err)
		}
		if f.key != "k" {
			t.Errorf("%s: the operation has the key %q", door, f.key)
		}
	}
}
