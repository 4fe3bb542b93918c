package rouse

import (
	"strings"
	"testing"
)

func TestHeadersOfCallbacks(t *testing.T) {
	check := func(headers map[string]string) error {
		s := Spec{Schedule: "@hourly", Target: "https://example.com", Webhook: Webhook{Headers: headers}}
		return s.Check()
	}
	for _, c := range []struct {
		name, value string
		ok          bool
	}{
		{"Authorization", "Bearer x", true}, {"x-team", "a b", true}, {"User-Agent", "mine", true}, {"X-Empty", "", true}, {"X-Aws-Account", "1", true},
		{"", "x", false}, {"X Y", "x", false}, {"X:Y", "x", false}, {"X\r\nY", "x", false}, {"Ünï", "x", false}, {strings.Repeat("x", 65), "x", false},
		{"X-A", "a\r\nb", false}, {"X-A", "a\x00b", false}, {"X-A", " a", false}, {"X-A", "a\t", false}, {"X-A", "ü", false}, {"X-A", "\x7f", false},
		{"X-A", strings.Repeat("x", MaxHeaderValue+1), false},
		{"host", "x", false}, {"Content-Length", "1", false}, {"content-type", "x", false}, {"Connection", "x", false}, {"Transfer-Encoding", "x", false},
		{"webhook-id", "x", false}, {"Webhook-Other", "x", false}, {"CE-ID", "x", false}, {"rouse-x", "x", false}, {"Expect", "100-continue", false},
		{"Upgrade", "h2c", false}, {"TE", "x", false}, {"Trailer", "x", false}, {"Proxy-Authorization", "x", false},
		{"x-forwarded-for", "10.0.0.1", false}, {"X-Forwarded", "x", false}, {"forwarded", "for=10.0.0.1", false}, {"Metadata", "true", false},
		{"metadata-flavor", "Google", false}, {"X-aws-ec2-metadata-token", "x", false}, {"X-aws-ec2-metadata-token-ttl-seconds", "60", false},
		{"X-HTTP-Method-Override", "DELETE", false}, {"x-real-ip", "10.0.0.1", false}, {"X-Original-URL", "/admin", false},
	} {
		if err := check(map[string]string{c.name: c.value}); (err == nil) != c.ok {
			t.Errorf("%q: %q: %v", c.name, c.value, err)
		}
	}
	if err := check(map[string]string{"X-A": "1", "x-a": "2"}); err == nil || !strings.Contains(err.Error(), "X-A") {
		t.Errorf("one header by two names: %v", err)
	}
}
