package webhook_test

import (
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/webhook"
)

func TestLanesOfHosts(t *testing.T) {
	s := webhook.New(webhook.Options{HostConcurrency: 7})
	defer s.Close()
	for target, want := range map[string]string{
		"https://example.com":              "https://example.com",
		"https://example.com/a?b=c":        "https://example.com",
		"https://example.com?b=/c":         "https://example.com",
		"https://EXAMPLE.com:443/a":        "https://example.com",
		"http://example.com:443/a":         "http://example.com:443",
		"http://example.com:80/a":          "http://example.com",
		"http://[2606:4700::1]:8080/a@b:1": "http://[2606:4700::1]:8080",
	} {
		if got, want := s.Lane("ns", &rouse.Spec{Target: target}), (rouse.Lane{Name: want, Limit: 7, Batch: 1}); got != want {
			t.Errorf("%s: %+v, want %+v", target, got, want)
		}
	}
	spec := rouse.Spec{Target: "https://example.com/a/b?c"}
	if n := testing.AllocsPerRun(100, func() { s.Lane("ns", &spec) }); n > 0 {
		t.Errorf("a lane costs %v allocations", n)
	}
}

// An address is a target without its query, however its host is written.
func TestAddresses(t *testing.T) {
	s := webhook.New(webhook.Options{})
	defer s.Close()
	for target, want := range map[string][2]string{
		"https://example.com":              {"https://example.com", "https://example.com/"},
		"https://example.com/":             {"https://example.com", "https://example.com/"},
		"https://example.com?b=/c":         {"https://example.com", "https://example.com/"},
		"https://example.com/a/b?c=/d?e":   {"https://example.com", "https://example.com/a/b"},
		"https://example.com/a/":           {"https://example.com", "https://example.com/a/"},
		"https://EXAMPLE.com:443/A":        {"https://example.com", "https://example.com/A"},
		"http://example.com:80?x":          {"http://example.com", "http://example.com/"},
		"http://[2606:4700::1]:8080/a@b:1": {"http://[2606:4700::1]:8080", "http://[2606:4700::1]:8080/a@b:1"},
	} {
		if host, address := s.Address(&rouse.Spec{Target: target, Webhook: rouse.Webhook{Batch: 10}}); host != want[0] || address != want[1] {
			t.Errorf("%s: %s and %s, want %s", target, host, address, want)
		}
	}
	spec := rouse.Spec{Target: "https://example.com/a/b?c"}
	if n := testing.AllocsPerRun(100, func() { s.Address(&spec) }); n > 0 {
		t.Errorf("an address costs %v allocations", n)
	}
}

// Fires share a request, and so a batch lane, only if everything about their requests but the event is the
// same.
func TestLanesOfBatches(t *testing.T) {
	s := webhook.New(webhook.Options{})
	defer s.Close()
	base := func() rouse.Spec {
		return rouse.Spec{Target: "https://example.com/a", Webhook: rouse.Webhook{Batch: 10, Headers: map[string]string{"A": "1", "B": "2"}}}
	}
	spec := base()
	first := s.Lane("ns", &spec)
	if first.Batch != 10 || first.Limit != 80 {
		t.Errorf("%+v", first)
	}
	spec.Payload, spec.ContentType, spec.Webhook.Method, spec.Webhook.Accept, spec.Webhook.Structured = []byte("x"), "a/b", "POST", time.Hour, true
	if got := s.Lane("ns", &spec); got != first {
		t.Errorf("what is the event's own parts lanes: %+v", got)
	}
	for name, change := range map[string]func(s *rouse.Spec){
		"path":    func(s *rouse.Spec) { s.Target += "b" },
		"query":   func(s *rouse.Spec) { s.Target += "?a" },
		"method":  func(s *rouse.Spec) { s.Webhook.Method = "PUT" },
		"size":    func(s *rouse.Spec) { s.Webhook.Batch = 11 },
		"timeout": func(s *rouse.Spec) { s.Retry.Timeout = time.Minute },
		"value":   func(s *rouse.Spec) { s.Webhook.Headers["A"] = "2" },
		"name":    func(s *rouse.Spec) { s.Webhook.Headers = map[string]string{"A": "1", "C": "2"} },
		"fewer":   func(s *rouse.Spec) { s.Webhook.Headers = map[string]string{"A": `1"B"2`} },
		"none":    func(s *rouse.Spec) { s.Webhook.Headers = nil },
		"single":  func(s *rouse.Spec) { s.Webhook.Batch = 0 },
	} {
		spec := base()
		change(&spec)
		if got := s.Lane("ns", &spec); got.Name == first.Name {
			t.Errorf("another %s, the same lane %s", name, got.Name)
		}
	}
	spec = base()
	if s.Lane("other", &spec).Name == first.Name {
		t.Error("two namespaces, which have their own secrets, share a batch lane")
	}
}
