package webhook_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/webhook"
)

// wrongTargets are refused whatever the options.
var wrongTargets = []string{
	"", "http:", "http://", "https:///path", "HTTP://example.com/", "ftp://example.com", "//example.com/", "stream:x", "https:example.com",
	"https://user@example.com/", "https://user:secret@example.com/", "https://:secret@example.com/", "https://@example.com/",
	"https://example.com/#part", "https://example.com/#", "https://example.com/a b", "https://example.com/\r\nX: y", "https://example.com/\x00",
	"https://exämple.com/", "https://example.com\\@evil.com/", "https://example.com:/", "https://example.com:0/", "https://example.com:65536/",
	"https://example.com:080/", "https://example.com:http/", "https://example.com:-1/", "https://[::1/", "https://::1/", "https://[example.com]/",
	"https://2130706433/", "https://0x7f000001/", "https://0x7f.1/", "https://127.1/", "https://0177.0.0.1/", "https://1.2.3.4.5/", "https://example.0x1f/",
	"https://127.0.0.1./", "https://ex%61mple.com/", "https://%31%32%37.0.0.1/", "https://[fe80::1%25eth0]/", "https://exam..ple.com/", "https://.example.com/",
	"https://" + strings.Repeat("a", 64) + ".com/", "https://example.com/" + strings.Repeat("a", 2048), "https://exa$mple.com/", "https://example.com,evil.com/",
	"https://169.254.169.254/latest/meta-data", "http://[fe80::1]/", "http://[fd00:ec2::254]/", "http://[::ffff:169.254.169.254]/", "http://[64:ff9b::169.254.169.254]/",
	"https://example.com?a=\"b\"", "http://example.com:22/", "https://example.com:25/", "http://example.com:6379/", "http://127.0.0.1:6000/", "http://[::1]:11211/",
}

var privateTargets = []string{
	"http://127.0.0.1:8080/", "http://localhost/", "http://LocalHost:81/", "http://a.localhost/", "http://localhost./", "http://[::1]:8081/", "http://10.0.0.1/", "http://192.168.1.1/",
	"http://0.0.0.0/", "http://[::]/", "http://[::ffff:127.0.0.1]/", "http://[fd12::1]/", "http://224.0.0.1/",
}

var goodTargets = []string{
	"https://example.com", "https://example.com/", "http://example.com:8080/a/b?c=d&e=f%20g", "https://EXAMPLE.com/x", "https://xn--exmple-cua.com/",
	"https://example.com./", "https://1.1.1.1/", "https://[2606:4700:4700::1111]:443/", "https://a_b-c.example/", "https://example.com?x", "https://intranet/",
}

func TestCheckTargets(t *testing.T) {
	open, public := webhook.New(webhook.Options{AllowPrivate: true}), webhook.New(webhook.Options{})
	defer open.Close()
	defer public.Close()
	for _, c := range []struct {
		targets      []string
		open, public bool
	}{{wrongTargets, false, false}, {privateTargets, true, false}, {goodTargets, true, true}} {
		for _, target := range c.targets {
			spec := rouse.Spec{Target: target}
			if err := open.Check(&spec); (err == nil) != c.open {
				t.Errorf("%.80q with AllowPrivate: %v", target, err)
			}
			err := public.Check(&spec)
			if (err == nil) != c.public {
				t.Errorf("%.80q: %v", target, err)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error shows the password: %v", err)
			}
		}
	}
}

// TestCheckOffersASCII: a host of other letters is refused with the form that is accepted.
func TestCheckOffersASCII(t *testing.T) {
	s := webhook.New(webhook.Options{})
	defer s.Close()
	for target, want := range map[string]string{
		"https://bücher.example":            `contains 'ü' at byte 9; write https://xn--bcher-kva.example`,
		"https://Bücher.example:8443/a?b=c": `; write https://xn--bcher-kva.example:8443/a?b=c`,
		"https://例え.テスト/":                   `; write https://xn--r8jz45g.xn--zckzah/`,
		"https://example.com/ü":             "percent-encode it",
		"https://bücher.example/ü":          "percent-encode it",
		"https://bü cher.example/":          "percent-encode it",
	} {
		err := s.Check(&rouse.Spec{Target: target})
		if err == nil || !strings.HasSuffix(err.Error(), want) && !strings.Contains(err.Error(), want+" in a path") {
			t.Errorf("%s: %v", target, err)
			continue
		}
		if _, plain, ok := strings.Cut(err.Error(), "; write "); ok && s.Check(&rouse.Spec{Target: plain}) != nil {
			t.Errorf("%s: the cure is refused: %v", target, s.Check(&rouse.Spec{Target: plain}))
		}
	}
}

func TestCheckNamesEveryProblem(t *testing.T) {
	s := webhook.New(webhook.Options{})
	defer s.Close()
	err := s.Check(&rouse.Spec{Target: "gopher://x", ContentType: "a\nb", Payload: []byte("x"), Webhook: rouse.Webhook{Method: "DELETE", Structured: true}})
	var inv *rouse.Invalid
	if !errors.As(err, &inv) || len(inv.Problems) != 4 {
		t.Errorf("want 4 problems: %v", err)
	}
}

// FuzzCheck demands that what passes Check is what a parser and the lane see alike, and leads where Check
// thinks.
func FuzzCheck(f *testing.F) {
	for _, list := range [][]string{wrongTargets, privateTargets, goodTargets} {
		for _, target := range list {
			f.Add(target)
		}
	}
	s := webhook.New(webhook.Options{})
	f.Cleanup(func() { s.Close() })
	f.Fuzz(func(t *testing.T, target string) {
		spec := rouse.Spec{Target: target}
		if s.Check(&spec) != nil {
			return
		}
		u, err := url.Parse(target)
		if err != nil || u.User != nil || u.Fragment != "" || u.Opaque != "" {
			t.Fatalf("passed: %q (%v)", target, err)
		}
		want := u.Scheme + "://" + strings.ToLower(u.Host)
		if u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80" {
			want = strings.TrimSuffix(want, ":"+u.Port())
		}
		if got := s.Lane("ns", &spec).Name; got != want {
			t.Fatalf("%q has the lane %q, want %q", target, got, want)
		}
	})
}
