package rouse

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func fieldOf(err error) string {
	var inv *Invalid
	if !errors.As(err, &inv) || len(inv.Problems) == 0 {
		return ""
	}
	return inv.Problems[0].Field
}

func TestSpecsThatAreRefused(t *testing.T) {
	many := map[string]string{}
	for i := range MaxLabels + 1 {
		many[strings.Repeat("k", i+1)] = ""
	}
	for _, c := range []struct {
		field string
		edit  func(*Spec)
	}{
		{"schedule", func(s *Spec) { s.Schedule = "" }},
		{"schedule", func(s *Spec) { s.Schedule = strings.Repeat("*", MaxSchedule+1) }},
		{"schedule", func(s *Spec) { s.Schedule = "* * * * *\x00" }},
		{"timezone", func(s *Spec) { s.Timezone = "Europe/\xff" }},
		{"target", func(s *Spec) { s.Target = "" }},
		{"target", func(s *Spec) { s.Target = "https://x/" + strings.Repeat("a", MaxTarget) }},
		{"target", func(s *Spec) { s.Target = "https://x/a/../b" }},
		{"payload", func(s *Spec) { s.Payload = make([]byte, MaxPayload+1) }},
		{"payload", func(s *Spec) { s.Target, s.Payload = "dapr:job/a", make([]byte, MaxJob+1) }},
		{"content_type", func(s *Spec) { s.ContentType = "json" }},
		{"content_type", func(s *Spec) { s.ContentType = "a/b\r\nx: y" }},
		{"labels", func(s *Spec) { s.Labels = many }},
		{"labels", func(s *Spec) { s.Labels = map[string]string{"a=b": ""} }},
		{"labels.a", func(s *Spec) { s.Labels = map[string]string{"a": strings.Repeat("v", MaxLabelValue+1)} }},
		{"retry.attempts", func(s *Spec) { s.Retry.Attempts = MaxAttempts + 1 }},
		{"retry.interval", func(s *Spec) { s.Retry.Interval = -1 }},
		{"retry.interval", func(s *Spec) { s.Retry.Interval = time.Microsecond }},
		{"retry.max_interval", func(s *Spec) { s.Retry.Interval, s.Retry.Max = time.Minute, time.Second }},
		{"retry.timeout", func(s *Spec) { s.Retry.Timeout = 2 * time.Hour }},
		{"webhook.method", func(s *Spec) { s.Webhook.Method = "TRACE" }},
		{"webhook.headers.x", func(s *Spec) { s.Webhook.Headers = map[string]string{"x": "a\r\nb: c"} }},
		{"webhook.batch", func(s *Spec) { s.Webhook.Batch = 1001 }},
		{"webhook.batch", func(s *Spec) { s.Webhook.Batch, s.Webhook.Method = 2, "GET" }},
		{"criticality", func(s *Spec) { s.Criticality = MaxCriticality + 1 }},
		{"limit", func(s *Spec) { s.Limit = "Payments" }},
		{"limit", func(s *Spec) { s.Limit = strings.Repeat("l", MaxNamespace+1) }},
		{"limit_key", func(s *Spec) { s.LimitKey = "acme" }},
		{"limit_key", func(s *Spec) { s.Limit, s.LimitKey = "payments", "a\x01b" }},
		{"limit_key", func(s *Spec) { s.Limit, s.LimitKey = "payments", "{{customer}}" }},
		{"limit_key", func(s *Spec) { s.Limit, s.LimitKey = "payments", strings.Repeat("k", MaxLimitKey+1) }},
		{"webhook.accept", func(s *Spec) { s.Webhook.Accept = time.Millisecond }},
		{"webhook.retry_on[1]", func(s *Spec) { s.Webhook.RetryOn = []string{"404", "410"} }},
		{"webhook.retry_on[0]", func(s *Spec) { s.Webhook.RetryOn = []string{"5xx"} }},
		{"webhook.retry_on[1]", func(s *Spec) { s.Webhook.RetryOn = []string{"4xx", "+404"} }},
		{"webhook.retry_on[0]", func(s *Spec) { s.Webhook.RetryOn = []string{""} }},
		{"webhook.retry_on[0]", func(s *Spec) { s.Webhook.RetryOn = []string{"408"} }},
		{"webhook.retry_on[1]", func(s *Spec) { s.Webhook.RetryOn = []string{"3xx", "429"} }},
		{"webhook.retry_on", func(s *Spec) { s.Webhook.RetryOn = slices.Repeat([]string{"404"}, MaxRetryOn+1) }},
	} {
		s := Spec{Schedule: "* * * * *", Target: "https://example.com/"}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		c.edit(&s)
		if err := s.Check(); fieldOf(err) != c.field {
			t.Errorf("%s: %v", c.field, err)
		}
	}
}

func TestNames(t *testing.T) {
	for _, ok := range []string{"a", "a/b:c", "späßchen", "||app||1", "日本", "...", "a..b", "é", strings.Repeat("x", MaxName)} {
		if err := CheckName(ok); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
	for _, bad := range []string{"", " a", "a\n", "a\x00b", "a\u202eb", "\xff", strings.Repeat("x", MaxName+1), ".", "..", "a/../b", "./a", "a/.", "a\u200bb", "\ufeffa", "a\u00ad",
		"a\ufe0f", "a\ufdd0", "\U0001fffe", "e\u0301", "\u212b"} {
		if fieldOf(CheckName(bad)) != "name" {
			t.Errorf("%q was accepted", bad)
		}
	}
	for _, ok := range []string{"default", "a.b-c_9"} {
		if err := CheckNamespace(ok); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
	for _, bad := range []string{"", "A", "-a", "a/b", "ä", strings.Repeat("x", MaxNamespace+1)} {
		if fieldOf(CheckNamespace(bad)) != "namespace" {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestInstantsRoundUp(t *testing.T) {
	base := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	if got := At(base.Add(time.Nanosecond)); got != At(base)+1 {
		t.Errorf("one nanosecond past is %v", got)
	}
	if got := Reached(base.Add(999 * time.Microsecond)); got != At(base) {
		t.Errorf("reached %v", got)
	}
	if Never.Add(time.Hour) != Never || (Never-1).Add(time.Hour) != Never {
		t.Error("Never is not the end of time")
	}
	for _, bad := range []string{"0000-01-01T00:00:00Z", "12000-01-01T00:00:00Z", "1999-12-31T23:59:59Z", "9999-01-01T00:00:00Z", "2027-01-01", "2027-02-30T00:00:00Z"} {
		if _, err := ParseInstant(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if got, err := ParseInstant("2027-01-01T01:00:00.0001+01:00"); err != nil || got != At(base)+1 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestBackoffIsTheDocumentedShape(t *testing.T) {
	r := Retry{Attempts: 3, Interval: 200 * time.Millisecond, Jitter: 500 * time.Millisecond, Max: time.Hour}
	var worst time.Duration
	for n, want := range []time.Duration{200, 400, 800} {
		want *= time.Millisecond
		for seed := range uint64(1000) {
			d := r.Backoff(uint32(n+1), seed*7919)
			if d < want || d > want+r.Jitter {
				t.Fatalf("retry %d: %v", n+1, d)
			}
		}
		worst += want + r.Jitter
	}
	if worst != 2900*time.Millisecond {
		t.Errorf("worst case %v, want 2.9 s", worst)
	}
	if d := r.Backoff(1000, 0); d != time.Hour {
		t.Errorf("capped at %v", d)
	}
}

// TestDotSegments: however they are written, a path is not left by them; other dots stay.
func TestDotSegments(t *testing.T) {
	for _, target := range []string{"https://h/a/..", "https://h/a/../b", "https://h/a/./b", "https://h/..", "https://h:1/a/%2e%2e/b", "https://h/a/%2E./b", "https://h/a/.%2e",
		"https://h/a/..%2fb", "https://h/a%2F..%2Fb", "https://h/a%5c..%5Cb", `https://h/a\..\b`, `https://h\..\b`, "https://h/a/%252e%252e/b", "https://h/a/%25252e%25252E/b",
		"https://h/a/..;x=1/b", "https://h/a/..%3bx/b", "http://h/a/../b?c", "http://h/a/..?c", "http://h/a/..#c", "HTTPS://h/a/../b", "nats://h/a/../b"} {
		s := Spec{Schedule: "* * * * *", Target: target}
		err := s.Check()
		if fieldOf(err) != "target" {
			t.Errorf("%s is taken: %v", target, err)
		} else if p := err.(*Invalid).Problems[0]; p.Value != target || !strings.Contains(p.Wrong, "segment") || p.Cure == "" {
			t.Errorf("%s: %+v", target, p)
		}
	}
	for _, target := range []string{"https://h", "https://h/", "https://h.example/a.b/c..d/...", "https://h/.well-known/x", "https://h/a?to=/../b", "https://h?x=/../b", "https://h#/../b",
		"https://h/%2e%2ex", "https://h/%zz..", "https://../a", "stream:a/../b", "pool:core/..", "func:..", "reminder:.."} {
		s := Spec{Schedule: "* * * * *", Target: target}
		if err := s.Check(); err != nil {
			t.Errorf("%s is refused: %v", target, err)
		}
	}
}
