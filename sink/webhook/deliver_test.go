package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/rousetest/receiver"
	"github.com/rousehq/rouse/sink/webhook"
)

func TestMain(m *testing.M) {
	// net/http reads these once, so they are set before anything else: no request may go to a proxy.
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"} {
		os.Setenv(name, "http://127.0.0.1:9")
	}
	os.Setenv("NO_PROXY", "")
	goleak.VerifyTestMain(m)
}

// wire is a sink and a receiver.
type wire struct {
	t    *testing.T
	r    *receiver.Receiver
	sink *webhook.Sink
}

func newWire(t *testing.T, o webhook.Options, ro receiver.Options) *wire {
	o.AllowPrivate = true
	w := &wire{t, receiver.New(ro), webhook.New(o)}
	t.Cleanup(func() {
		w.r.Close()
		w.sink.Close()
	})
	return w
}

// fire returns a fire for the wire's receiver.
func (w *wire) fire() rouse.Fire { return fireTo(w.r.URL() + "/hook?x=1") }

func fireTo(target string) rouse.Fire {
	const due = 1801386000123
	return rouse.Fire{ID: rouse.FireID("default", "a timer", 7, due, false), Namespace: "default", Name: "a timer", Generation: 7, Due: due,
		Attempt: 2, Token: 1<<63 + 1, Last: true, Spec: &rouse.Spec{Target: target, Payload: []byte(`{"a":1}`), ContentType: "application/json"}}
}

func (w *wire) next() *receiver.Arrival {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), poll.Patience)
	defer cancel()
	a, err := w.r.Next(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// send delivers fires and returns their outcomes.
func send(ctx context.Context, s rouse.Sink, fires ...rouse.Fire) []rouse.Outcome {
	out := make([]rouse.Outcome, len(fires))
	s.Deliver(ctx, fires, func(i int, o rouse.Outcome) { out[i] = o })
	return out
}

func (w *wire) send(fires ...rouse.Fire) []rouse.Outcome {
	return send(w.t.Context(), w.sink, fires...)
}

func TestBinaryRequest(t *testing.T) {
	secrets := []string{webhook.NewSecret(), webhook.NewSecret()}
	w := newWire(t, webhook.Options{Signing: func(ns string) (*webhook.Signing, error) {
		if ns != "default" {
			return nil, nil
		}
		return webhook.ParseSigning(secrets...)
	}}, receiver.Options{Secrets: secrets[1:]})
	f := w.fire()
	f.Spec.Webhook = rouse.Webhook{Method: "PUT", Headers: map[string]string{"authorization": "Bearer x"}}
	w.send(f)
	a := w.next()
	if a.Method != "PUT" || a.URL != "/hook?x=1" || string(a.Body) != `{"a":1}` || a.Signature != nil {
		t.Errorf("arrived as %s %s %q, signature: %v", a.Method, a.URL, a.Body, a.Signature)
	}
	if n := len(strings.Fields(a.Header.Get("Webhook-Signature"))); n != 2 {
		t.Errorf("%d signatures with two secrets", n)
	}
	h := a.Header.Clone()
	h.Del("Webhook-Signature")
	h.Del("Webhook-Timestamp")
	h.Del("Rouse-Signature")
	want := map[string]string{
		"Authorization": "Bearer x", "Content-Length": "7", "Content-Type": "application/json", "User-Agent": "rouse",
		"Ce-Id": f.ID, "Ce-Source": "/namespaces/default/timers/a%2520timer", "Ce-Type": "dev.rouse.fire.v1", "Ce-Specversion": "1.0",
		"Ce-Time": "2027-01-31T09:00:00.123Z", "Ce-Subject": "a%20timer", "Ce-Attempt": "2", "Ce-Token": "9223372036854775809", "Ce-Generation": "7",
		"Rouse-Fire-Id": f.ID, "Rouse-Namespace": "default", "Rouse-Timer": "a%20timer", "Rouse-Due": "2027-01-31T09:00:00.123Z",
		"Rouse-Attempt": "2", "Rouse-Token": "9223372036854775809", "Rouse-Generation": "7", "Rouse-Manual": "false", "Rouse-Last": "true",
		"Webhook-Id": f.ID,
	}
	got := map[string]string{}
	for k, v := range h {
		got[k] = strings.Join(v, "|")
	}
	if !maps.Equal(got, want) {
		for _, k := range slices.Sorted(maps.Keys(got)) {
			if got[k] != want[k] {
				t.Errorf("%s: %q, want %q", k, got[k], want[k])
			}
		}
		for k := range want {
			if _, ok := got[k]; !ok {
				t.Errorf("no %s", k)
			}
		}
	}
}

// A namespace without keys is not signed, and one whose keys cannot be used is not sent unsigned, but waits.
func TestUnsignedAndUnusable(t *testing.T) {
	w := newWire(t, webhook.Options{Signing: func(ns string) (*webhook.Signing, error) {
		if ns == "broken" {
			return nil, errors.New("the signing keys cannot be used")
		}
		return nil, nil
	}}, receiver.Options{})
	f := w.fire()
	w.send(f)
	if a := w.next(); a.Header.Get("Webhook-Signature") != "" || a.Header.Get("Webhook-Id") != f.ID {
		t.Errorf("unsigned request: %v", a.Header)
	}
	f.Namespace = "broken"
	if o := w.send(f)[0]; o.Verdict != rouse.Deferred || o.Cause != rouse.CauseNoSecret || !strings.Contains(o.Detail, "cannot be used") {
		t.Errorf("with unusable keys: %+v", o)
	}
	if n, _ := w.r.Count(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestStructuredRequest(t *testing.T) {
	w := newWire(t, webhook.Options{}, receiver.Options{})
	f := w.fire()
	f.Spec.Webhook.Structured = true
	w.send(f)
	a := w.next()
	if got := a.Header.Get("Content-Type"); got != "application/cloudevents+json" {
		t.Error(got)
	}
	want := `{"specversion":"1.0","id":"` + f.ID + `","source":"/namespaces/default/timers/a%20timer","type":"dev.rouse.fire.v1","time":"2027-01-31T09:00:00.123Z",` +
		`"subject":"a timer","attempt":2,"token":"9223372036854775809","generation":"7","manual":false,"last":true,"datacontenttype":"application/json","data":{"a":1}}`
	if string(a.Body) != want {
		t.Errorf("the event is\n%s, want\n%s", a.Body, want)
	}
	if a.Header.Get("Ce-Id") != "" || a.Header.Get("Rouse-Fire-Id") != f.ID {
		t.Errorf("headers: %v", a.Header)
	}
}

// Whatever the payload claims to be, the event is JSON.
func TestStructuredPayloads(t *testing.T) {
	w := newWire(t, webhook.Options{}, receiver.Options{})
	for _, c := range []struct{ kind, payload, want string }{
		{"application/json", `[1, 2]`, `"data":[1, 2]}`},
		{"application/vnd.x+json; charset=utf-8", `"x"`, `"data":"x"}`},
		{"application/json", `{"a":1},"id":"other"`, `"data_base64":"eyJhIjoxfSwiaWQiOiJvdGhlciI="}`},
		{"application/json", "\"\xff\"", `"data_base64":"Iv8i"}`},
		{"text/plain", "hello", `"data_base64":"aGVsbG8="}`},
		{"", "hello", `"datacontenttype":"application/octet-stream","data_base64":"aGVsbG8="}`},
		{"", "", `"last":true}`},
	} {
		f := w.fire()
		f.Spec.Webhook.Structured = true
		f.Spec.Payload, f.Spec.ContentType = []byte(c.payload), c.kind
		w.send(f)
		if a := w.next(); !json.Valid(a.Body) || !utf8.Valid(a.Body) || !strings.HasSuffix(string(a.Body), c.want) {
			t.Errorf("%s %q: %s, want …%s", c.kind, c.payload, a.Body, c.want)
		}
	}
}

func TestPayloadless(t *testing.T) {
	w := newWire(t, webhook.Options{}, receiver.Options{})
	for _, method := range []string{"GET", "DELETE", "POST"} {
		f := w.fire()
		f.Spec.Payload, f.Spec.ContentType, f.Spec.Webhook.Method = nil, "", method
		w.send(f)
		if a := w.next(); a.Method != method || len(a.Body) != 0 || a.Header.Get("Content-Type") != "" {
			t.Errorf("%s: %q, %v", method, a.Body, a.Header)
		}
	}
}

// Connections are used again: an answer is read to its end.
func TestKeepsConnections(t *testing.T) {
	w := newWire(t, webhook.Options{}, receiver.Options{})
	body := strings.Repeat("x", 60<<10)
	w.r.Script(receiver.Status(204), receiver.Body(200, "text/plain", body), receiver.Body(500, "text/plain", body), receiver.Body(200, "application/json", "{}"))
	var from []string
	for range 5 {
		w.send(w.fire())
		from = append(from, w.next().From)
	}
	if len(slices.Compact(from)) != 1 {
		t.Errorf("five requests in a row came from %v", from)
	}
}
