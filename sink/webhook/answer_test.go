package webhook_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest/receiver"
	"github.com/rousehq/rouse/sink/webhook"
)

func TestMeaningOfStatus(t *testing.T) {
	w := newWire(t, webhook.Options{}, receiver.Options{})
	for code, want := range map[int]rouse.Verdict{
		200: rouse.Done, 201: rouse.Done, 204: rouse.Done, 299: rouse.Done, 202: rouse.Accepted,
		300: rouse.Rejected, 301: rouse.Rejected, 302: rouse.Rejected, 304: rouse.Rejected, 307: rouse.Rejected, 308: rouse.Rejected,
		400: rouse.Rejected, 401: rouse.Rejected, 403: rouse.Rejected, 404: rouse.Rejected, 409: rouse.Rejected, 422: rouse.Rejected, 451: rouse.Rejected,
		408: rouse.Failed, 425: rouse.Failed, 429: rouse.Failed, 410: rouse.Gone,
		500: rouse.Failed, 502: rouse.Failed, 503: rouse.Failed, 599: rouse.Failed, 600: rouse.Failed, 999: rouse.Failed,
	} {
		w.r.Script(receiver.Status(code))
		o := w.send(w.fire())[0]
		if o.Verdict != want || o.Code != code {
			t.Errorf("%d means %v, want %v (code %d)", code, o.Verdict, want, o.Code)
		}
		if want == rouse.Failed && o.After != 0 {
			t.Errorf("%d: waits %v instead of the timer's backoff", code, o.After)
		}
		if code/100 == 3 && !strings.Contains(o.Detail, "redirects are not followed") {
			t.Errorf("%d: %s", code, o.Detail)
		}
	}
}

func TestStatusesToRetry(t *testing.T) {
	for _, c := range []struct {
		code  int
		retry []string
		want  rouse.Verdict
	}{
		{404, []string{"401", "404"}, rouse.Failed}, {403, []string{"401", "404"}, rouse.Rejected},
		{302, []string{"3xx"}, rouse.Failed}, {302, []string{"4xx"}, rouse.Rejected}, {422, []string{"4xx"}, rouse.Failed},
		{410, []string{"4xx"}, rouse.Gone}, {204, []string{"3xx", "4xx"}, rouse.Done}, {503, []string{"404"}, rouse.Failed},
	} {
		w := newWire(t, webhook.Options{}, receiver.Options{Answer: receiver.Status(c.code)})
		f := w.fire()
		f.Spec.Webhook.RetryOn = c.retry
		o := w.send(f)[0]
		if o.Verdict != c.want || (c.code/100 == 3) != strings.Contains(o.Detail, "redirects are not followed") {
			t.Errorf("%d with %q: %v, want %v: %s", c.code, c.retry, o.Verdict, c.want, o.Detail)
		}
	}
}

func TestAccepted(t *testing.T) {
	w := newWire(t, webhook.Options{}, receiver.Options{Answer: receiver.Status(202)})
	f := w.fire()
	if o := w.send(f)[0]; o.Verdict != rouse.Accepted || o.After != rouse.DefaultAccept {
		t.Errorf("%+v", o)
	}
	f.Spec.Webhook.Accept = time.Hour
	if o := w.send(f)[0]; o.Verdict != rouse.Accepted || o.After != time.Hour {
		t.Errorf("%+v", o)
	}
}

// about reports whether d is what a receiver requested, minus what a slow machine may have lost since.
func about(d, want time.Duration) bool { return d <= want && d > want-30*time.Second }

func TestRetryAfter(t *testing.T) {
	w := newWire(t, webhook.Options{}, receiver.Options{})
	date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for _, c := range []struct {
		code  int
		value string
		want  time.Duration
		cut   bool
	}{
		{429, "120", 2 * time.Minute, false}, {503, "1", time.Second, false}, {425, "86400", 24 * time.Hour, false},
		{503, "86401", 24 * time.Hour, true}, {503, "99999999999999", 24 * time.Hour, true}, {503, "99999999999999999999999", 0, false},
		{500, date(time.Hour), time.Hour, false}, {408, date(100 * time.Hour), 24 * time.Hour, true},
		{503, date(-time.Hour), 0, false}, {503, "0", 0, false}, {503, "-5", 0, false}, {503, "soon", 0, false}, {503, "1.5", 0, false},
	} {
		w.r.Script(receiver.RetryAfter(c.code, c.value))
		o := w.send(w.fire())[0]
		if o.Verdict != rouse.Failed || !(o.After == c.want || c.want >= time.Hour && about(o.After, c.want)) {
			t.Errorf("%d with Retry-After %s: %v after %v, want %v", c.code, c.value, o.Verdict, o.After, c.want)
		}
		if strings.Contains(o.Detail, "cut to 24h") != c.cut {
			t.Errorf("Retry-After %s: %s", c.value, o.Detail)
		}
	}
	w.r.Script(receiver.RetryAfter(404, "5"), receiver.RetryAfter(200, "5"))
	if o := w.send(w.fire())[0]; o.Verdict != rouse.Rejected || o.After != 0 {
		t.Errorf("404 with Retry-After: %+v", o)
	}
	if o := w.send(w.fire())[0]; o.Verdict != rouse.Done || o.After != 0 {
		t.Errorf("200 with Retry-After: %+v", o)
	}
}

func TestBodyAsksForAnotherAttempt(t *testing.T) {
	w := newWire(t, webhook.Options{}, receiver.Options{})
	in := func(d time.Duration) string { return time.Now().Add(d).Format(time.RFC3339) }
	for _, c := range []struct {
		kind, body string
		verdict    rouse.Verdict
		want       time.Duration
	}{
		{"application/json", `{"rouse":{"retry_after":"30s"}}`, rouse.Failed, 30 * time.Second},
		{"application/problem+json; charset=utf-8", `{"x":1,"rouse":{"retry_after":"2m"}}`, rouse.Failed, 2 * time.Minute},
		{"application/json", `{"rouse":{"retry_at":"` + in(2*time.Hour) + `"}}`, rouse.Failed, 2 * time.Hour},
		{"application/json", `{"rouse":{"retry_at":"` + in(-time.Hour) + `"}}`, rouse.Failed, rouse.AtOnce},
		{"application/json", `{"rouse":{"retry_after":"-1s"}}`, rouse.Failed, rouse.AtOnce},
		{"application/json", `{"rouse":{"retry_after":"48h"}}`, rouse.Failed, webhook.MaxRetryAfter},
		{"application/json", `{"rouse":{"retry_after":"later"}}`, rouse.Failed, 0},
		{"application/json", `{"rouse":{"retry_after":"+30s"}}`, rouse.Failed, 0},
		{"application/json", `{"rouse":{"retry_at":"2027-13-01"}}`, rouse.Failed, 0},
		{"application/json", `{"rouse":{"retry_at":"2027-01-31T9:00:00Z"}}`, rouse.Failed, 0},
		{"application/json", `{"rouse":{"retry_after":30}}`, rouse.Failed, 0},
		{"application/json", `{"rouse":{"retry_after":"30s"}`, rouse.Failed, 0},
		{"application/json", `{"rouse":"hello"}`, rouse.Failed, 0},
		{"application/json", `{"rouse":{"retry_after":"30s"},"big":"` + strings.Repeat("x", 64<<10) + `"}`, rouse.Failed, 0},

		{"application/json", `{"rouse":{}}`, rouse.Done, 0},
		{"application/json", `{"rouse":null}`, rouse.Done, 0},
		{"application/json", `{"retry_after":"30s"}`, rouse.Done, 0},
		{"application/json", `{"broken`, rouse.Done, 0},
		{"application/json", strings.Repeat("[", 60<<10), rouse.Done, 0},
		{"application/json", strings.Repeat("x", 100<<10), rouse.Done, 0},
		{"text/plain", `{"rouse":{"retry_after":"30s"}}`, rouse.Done, 0},
	} {
		w.r.Script(receiver.Body(200, c.kind, c.body))
		o := w.send(w.fire())[0]
		if o.Verdict != c.verdict || !(o.After == c.want || c.want >= time.Hour && about(o.After, c.want)) {
			t.Errorf("%.60s: %v after %v, want %v after %v", c.body, o.Verdict, o.After, c.verdict, c.want)
		}
		if o.Code != 200 || len(o.Detail) > rouse.MaxDetail {
			t.Errorf("%.60s: %+v", c.body, o)
		}
	}
	w.r.Script(receiver.Body(202, "application/json", `{"rouse":{"retry_after":"30s"}}`), receiver.Body(410, "application/json", `{"rouse":{"retry_after":"30s"}}`))
	if o := w.send(w.fire())[0]; o.Verdict != rouse.Failed || o.After != 30*time.Second {
		t.Errorf("202: %+v", o)
	}
	if o := w.send(w.fire())[0]; o.Verdict != rouse.Gone {
		t.Errorf("410: %+v", o)
	}
}

func TestDetail(t *testing.T) {
	w := newWire(t, webhook.Options{}, receiver.Options{})
	for body, want := range map[string]string{
		"":                        "500 Internal Server Error",
		"no room\n":               "500 Internal Server Error: no room",
		"\ta\r\n\t b\n\nc":        "500 Internal Server Error: a b c", // one line
		"\x1b[31mred\x1b[0m\x00":  `500 Internal Server Error: \x1b[31mred\x1b[0m\x00`,
		"\xff\xfeü":               `500 Internal Server Error: \xff\xfeü`,
		"a\u202eb\u2028c\u200bd":  `500 Internal Server Error: a\u202eb\u2028c\u200bd`,
		"\ufffd":                  `500 Internal Server Error: \ufffd`,
		strings.Repeat("é", 1000): "500 Internal Server Error: " + strings.Repeat("é", 113) + "…",
	} {
		w.r.Script(receiver.Body(500, "text/plain", body))
		if got := w.send(w.fire())[0].Detail; got != want {
			t.Errorf("%.40q:\n%s, want\n%s", body, got, want)
		}
	}
	w.r.Script(receiver.Body(200, "text/plain", "thanks"), receiver.Status(204))
	for _, want := range []string{"200 OK: thanks", ""} {
		if got := w.send(w.fire())[0].Detail; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestAnswersForCallbacks: the body of an answer is kept for timers with a callback, whatever its status, up
// to the size that is read, without the secrets of the request; and for no others.
func TestAnswersForCallbacks(t *testing.T) {
	for _, code := range []int{200, 400, 503} {
		w := newWire(t, webhook.Options{MaxAnswer: 1000}, receiver.Options{})
		f := w.fire()
		body := `{"n": 1, "text": "` + strings.Repeat("x", 500) + `"}`
		w.r.Script(receiver.Body(code, "application/json", body))
		if o := w.send(f)[0]; o.Answer != nil || o.Code != code {
			t.Errorf("%d: without a callback: %+v", code, o)
		}
		if f.Spec.OnFailure = "x:y"; code == 400 {
			f.Spec.OnFailure, f.Spec.KeepAnswer = "", 10
		}
		w.r.Script(receiver.Body(code, "application/json", body))
		if o := w.send(f)[0]; o.Code != code || o.Answer == nil || string(o.Answer.Payload) != body || o.Answer.ContentType != "application/json" {
			t.Errorf("%d: %+v", code, o.Answer)
		}
		body = strings.Repeat("y", 5000)
		w.r.Script(receiver.Body(code, "application/json", body))
		if o := w.send(f)[0]; o.Answer == nil || string(o.Answer.Payload) != body[:1000] {
			t.Errorf("%d: a long answer: %+v", code, o)
		}
	}
}
