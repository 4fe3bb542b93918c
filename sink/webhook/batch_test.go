package webhook_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest/receiver"
	"github.com/rousehq/rouse/sink/webhook"
)

func (w *wire) batch(n, payload int) []rouse.Fire {
	fires := make([]rouse.Fire, n)
	for i := range fires {
		fires[i] = w.fire()
		fires[i].ID = rouse.FireID("default", fmt.Sprint(i), 7, 1, false)
		fires[i].Spec.Webhook.Batch = 100
		fires[i].Spec.Payload, fires[i].Spec.ContentType = []byte(strings.Repeat("x", payload)), "text/plain"
	}
	return fires
}

func TestBatchRequest(t *testing.T) {
	secret := webhook.NewSecret()
	w := newWire(t, webhook.Options{Signing: signs(secret)}, receiver.Options{Secrets: []string{secret}})
	fires := w.batch(3, 10)
	for i, o := range w.send(fires...) {
		if o.Verdict != rouse.Done {
			t.Errorf("fire %d: %+v", i, o)
		}
	}
	w.send(fires...)
	a, again := w.next(), w.next()
	if got := a.Header.Get("Content-Type"); got != "application/cloudevents-batch+json" || a.Signature != nil || !json.Valid(a.Body) {
		t.Errorf("%s, signature: %v, %s", got, a.Signature, a.Body)
	}
	got, err := a.Fires()
	if err != nil || len(got) != 3 || got[0].ID != fires[0].ID || got[2].ID != fires[2].ID {
		t.Errorf("%v, %v", got, err)
	}
	for k := range a.Header {
		if strings.HasPrefix(k, "Ce-") || strings.HasPrefix(k, "Rouse-") && k != "Rouse-Namespace" {
			t.Errorf("a batch has the header %s of a single fire", k)
		}
	}
	if id := a.Header.Get("Webhook-Id"); id == "" || id == fires[0].ID || id != again.Header.Get("Webhook-Id") {
		t.Errorf("the same fires went out as %q and %q", id, again.Header.Get("Webhook-Id"))
	}
}

func TestBatchStatusCountsForAll(t *testing.T) {
	w := newWire(t, webhook.Options{}, receiver.Options{})
	for code, want := range map[int]rouse.Verdict{200: rouse.Done, 202: rouse.Accepted, 503: rouse.Failed, 400: rouse.Rejected, 410: rouse.Gone} {
		w.r.Script(receiver.Status(code))
		for i, o := range w.send(w.batch(5, 1)...) {
			if o.Verdict != want || o.Code != code {
				t.Errorf("%d, fire %d: %+v", code, i, o)
			}
		}
	}
}

func TestBatchResults(t *testing.T) {
	w := newWire(t, webhook.Options{}, receiver.Options{})
	fires := w.batch(9, 1)
	id := func(i int) string { return `{"id":"` + fires[i].ID + `",` }
	w.r.Script(receiver.Body(200, "application/json", `{"rouse":{"results":[`+strings.Join([]string{
		id(1) + `"status":503,"retry_after":"30s","detail":"busy\u0000"}`,
		id(2) + `"status":422,"detail":"no"}`,
		id(3) + `"status":202}`,
		id(4) + `"retry_after":"1m"}`,
		id(5) + `"status":410,"retry_after":"1m"}`,
		id(6) + `"status":7}`,
		id(7) + `"detail":"fine"}`,
		id(8) + `"status":200}`,
		`{"id":"of another timer","status":500}`,
	}, ",")+`]}}`))
	want := []rouse.Outcome{
		{Verdict: rouse.Done, Code: 200},
		{Verdict: rouse.Failed, Code: 503, After: 30 * time.Second, Detail: `503 Service Unavailable: busy\x00`},
		{Verdict: rouse.Rejected, Code: 422, Detail: "422 Unprocessable Entity: no"},
		{Verdict: rouse.Accepted, Code: 202, After: rouse.DefaultAccept, Detail: "202 Accepted"},
		{Verdict: rouse.Failed, Code: 200, After: time.Minute, Detail: "200 OK: asks for another attempt after 1m"},
		{Verdict: rouse.Gone, Code: 410, Detail: "410 Gone"},
		{Verdict: rouse.Failed, Detail: "the result in the answer to the batch has no valid status: "},
		{Verdict: rouse.Done, Code: 200, Detail: "200 OK: fine"},
		{Verdict: rouse.Done, Code: 200},
	}
	for i, o := range w.send(fires...) {
		if i == 0 {
			o.Detail = "" // the head of the answer
		}
		if o != want[i] {
			t.Errorf("fire %d:\n%+v, want\n%+v", i, o, want[i])
		}
	}
}

// Results that did not come whole must not pass for successes.
func TestBatchResultsCutShort(t *testing.T) {
	w := newWire(t, webhook.Options{}, receiver.Options{})
	w.r.Script(receiver.HalfReply(200, "application/json", `{"rouse":{"results":[`), receiver.Body(200, "application/json", `{"rouse":{"results":[{]}}`),
		receiver.Body(200, "application/json", `{"rouse":{"results":[],"pad":"`+strings.Repeat("x", 64<<10)+`"}}`))
	for range 3 {
		for i, o := range w.send(w.batch(2, 1)...) {
			if o.Verdict != rouse.Failed {
				t.Errorf("fire %d: %+v", i, o)
			}
		}
	}
}

// A batch that is too large goes out in parts; when one fails, the rest waits without an attempt.
func TestBatchParts(t *testing.T) {
	w := newWire(t, webhook.Options{BatchBytes: 3000}, receiver.Options{MaxBody: 64 << 10})
	count := func(os []rouse.Outcome) map[rouse.Verdict]int {
		n := map[rouse.Verdict]int{}
		for _, o := range os {
			n[o.Verdict]++
		}
		return n
	}
	if n := count(w.send(w.batch(10, 1000)...)); n[rouse.Done] != 10 {
		t.Errorf("%v", n)
	}
	seen := 0
	for seen < 10 {
		a := w.next()
		fires, err := a.Fires()
		if err != nil || len(a.Body) > 3000 && len(fires) > 1 {
			t.Fatalf("%d fires in %d bytes, %v", len(fires), len(a.Body), err)
		}
		seen += len(fires)
	}
	if n := count(w.send(w.batch(1, 10_000)...)); n[rouse.Done] != 1 {
		t.Errorf("an event larger than a batch: %v", n)
	}
	for _, bad := range []receiver.Answer{receiver.Cut(), receiver.Status(503), receiver.Status(429)} {
		w.sink.Rest() // over a connection that was used before, the first request that is cut would be sent once more
		before, _ := w.r.Count()
		w.r.Script(bad)
		n := count(w.send(w.batch(10, 1000)...))
		if after, _ := w.r.Count(); n[rouse.Failed] == 0 || n[rouse.Failed]+n[rouse.Deferred] != 10 || n[rouse.Deferred] == 0 || after != before+1 {
			t.Errorf("%v with %d requests", n, after-before)
		}
	}
}

// A node that stops sends the part that is under way, and no other.
func TestDrainEndsABatchAfterAPart(t *testing.T) {
	w := newWire(t, webhook.Options{BatchBytes: 3000}, receiver.Options{MaxBody: 64 << 10})
	w.sink.Drain()
	before, _ := w.r.Count()
	done := 0
	for _, o := range w.send(w.batch(10, 1000)...) {
		switch o.Verdict {
		case rouse.Done:
			done++
		case rouse.Deferred:
		default:
			t.Errorf("%+v", o)
		}
	}
	if after, _ := w.r.Count(); after != before+1 || done == 0 || done == 10 {
		t.Errorf("%d requests, %d done", after-before, done)
	}
}
