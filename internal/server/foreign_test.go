package server

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
)

// TestForeignContentIsApart: what a worker answers, of any type, is downloaded by a browser, and has neither
// scripts nor the origin of the console if a browser shows it all the same.
func TestForeignContentIsApart(t *testing.T) {
	f := newFake()
	s := serve(t, Options{Timers: f, Calls: NewCalls(aTarget)})
	key := rouse.Key{Namespace: "default", Name: "call~x"}
	f.history = append(f.history, rouse.Record{Namespace: "default", Name: "call~x", Ending: rouse.EndFired, Attempts: 1})
	const octets = "application/octet-stream"
	for _, c := range []struct{ given, want string }{
		{"text/html", "text/html"},
		{"text/html; charset=utf-7", "text/html; charset=utf-7"},
		{"image/svg+xml", "image/svg+xml"},
		{"application/xhtml+xml", "application/xhtml+xml"},
		{"text/xml", "text/xml"},
		{"multipart/x-mixed-replace; boundary=b", "multipart/x-mixed-replace; boundary=b"},
		{"text/javascript", "text/javascript"},
		{"application/json", "application/json"}, {"", octets}, {"text/html\r\nX-More: 1", octets}, {"text/ü", octets},
	} {
		answer := &rouse.Answer{ContentType: c.given, Payload: []byte("<script></script>")}
		f.set(func() { f.rows[key] = rouse.Timer{Key: key, Due: rouse.Never, Answer: answer} })
		resp, err := http.Get("http://" + s.addr + "/v1/namespaces/default/calls/x")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		h := resp.Header
		if resp.StatusCode != http.StatusOK || h.Get("Content-Type") != c.want || h.Get("X-More") != "" {
			t.Errorf("%q: %d, %v", c.given, resp.StatusCode, h)
		}
		if h.Get("Content-Disposition") != "attachment" || !sandboxed(h) {
			t.Errorf("%q is served as %v", c.given, h)
		}
	}
}

// sandboxed reports whether a browser gives an answer no origin, no scripts, and no other type than it has.
func sandboxed(h http.Header) bool {
	policy := h.Values("Content-Security-Policy")
	return len(policy) == 1 && strings.HasPrefix(policy[0], "default-src 'none'; ") && strings.HasSuffix(policy[0], "; sandbox") &&
		h.Get("X-Content-Type-Options") == "nosniff"
}

// TestEveryAnswerIsApart asks for every path of the API: all answers are sandboxed, those of errors, too, but
// for the pages of the login, which are ours and load nothing.
func TestEveryAnswerIsApart(t *testing.T) {
	s := serve(t, Options{Timers: newFake(), Calls: NewCalls(aTarget)})
	vars, pages := regexp.MustCompile(`\{[^}]+\}`), 0
	for _, r := range routes {
		if strings.HasSuffix(r.path, ":follow") {
			continue // its answer does not end; it has the headers of all
		}
		url := "http://" + s.addr + vars.ReplaceAllString(r.path, "x")
		if strings.HasSuffix(url, ":call") {
			url += "?wait=0s"
		}
		req, err := http.NewRequestWithContext(t.Context(), r.method, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			pages++
		} else if !sandboxed(resp.Header) {
			t.Errorf("%s %s is served as %v", r.method, r.path, resp.Header)
		}
	}
	if pages > 3 {
		t.Errorf("%d paths answer with a page", pages)
	}
}

// TestAnAnswerThatIsNotKeptIsNotFound: a request that was answered, and whose row is gone, has no empty
// answer.
func TestAnAnswerThatIsNotKeptIsNotFound(t *testing.T) {
	f := newFake()
	s := serve(t, Options{Timers: f, Calls: NewCalls(aTarget)})
	f.history = append(f.history, rouse.Record{Namespace: "default", Name: "call~x", Ending: rouse.EndFired, Attempts: 1})
	resp, err := http.Get("http://" + s.addr + "/v1/namespaces/default/calls/x")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("it is answered %s", resp.Status)
	}
}
