package kubelink

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type thing struct {
	Metadata struct{ Name, ResourceVersion string }
}

func (o *thing) Version() string { return o.Metadata.ResourceVersion }

// heard writes down what it receives.
type heard struct{ lines []string }

func (h *heard) add(format string, args ...any) {
	h.lines = append(h.lines, fmt.Sprintf(format, args...))
}

func (h *heard) Listed(list []*thing, version string) {
	var names []string
	for _, o := range list {
		names = append(names, o.Metadata.Name)
	}
	h.add("listed %s at %s", strings.Join(names, ","), version)
}

func (h *heard) Took(event string, o *thing) { h.add("%s %s", event, o.Metadata.Name) }
func (h *heard) Watching()                   { h.add("watching") }
func (h *heard) Failed(err error)            { h.add("failed: %v", err) }

// TestFollow: a list of two pages, a watch that goes on where the last one ended, be it at a bookmark, a new
// list when the history is gone or a page has expired, and errors that are told and survived.
func TestFollow(t *testing.T) {
	object := func(name, version string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":%q}}`, name, version)
	}
	event := func(kind, object string) string { return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, object) }
	list := func(version, next string, items ...string) string {
		return fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"continue":%q},"items":[%s]}`, version, next, strings.Join(items, ","))
	}
	script := []struct {
		request string // its parameters, as far as they matter
		status  int
		body    string
	}{
		{"list", 429, `{"message":"too many requests"}`},
		{"list", 500, `{"message":"etcd is away"}`},
		{"list", 200, list("5", "more", object("a", "1"))},
		{"list more", 410, `{"message":"The provided continue parameter is too old"}`},
		{"list", 200, list("6", "more", object("a", "1"))},
		{"list more", 200, list("6", "", object("b", "2"))},
		{"watch 6", 200, event("ADDED", object("c", "7")) + event("BOOKMARK", object("", "9"))},
		{"watch 9", 200, event("DELETED", object("a", "10")) + event("ERROR", `{"code":500,"message":"broken"}`)},
		{"watch 10", 200, event("MODIFIED", object("b", "11")) + event("ERROR", `{"code":410}`)},
		{"list", 200, list("20", "", object("b", "15"))},
		{"watch 20", 410, `{}`},
		{"list", 200, list("30", "")},
		{"watch 30", 200, `{"type": 7}`},
	}
	after := map[int]http.Header{http.StatusTooManyRequests: {"Retry-After": {"7"}}}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		at, began := 0, time.Now()
		answer := func(r *http.Request) (*http.Response, error) {
			q := r.URL.Query()
			got := strings.TrimSpace("list " + q.Get("continue"))
			if q.Get("watch") == "true" {
				got = "watch " + q.Get("resourceVersion")
				if q.Get("allowWatchBookmarks") != "true" {
					t.Error("a watch without bookmarks")
				}
			}
			if q.Get("labelSelector") != "a=b" {
				t.Errorf("the selector is %q", q.Get("labelSelector"))
			}
			if at == len(script) {
				cancel()
				return nil, ctx.Err()
			}
			step := script[at]
			if at == 1 && time.Since(began) < 7*time.Second {
				t.Errorf("the next request comes after %v, not after the seven seconds that the answer asked for", time.Since(began))
			}
			if at++; got != step.request {
				t.Errorf("request %d is %q, not %q", at, got, step.request)
			}
			return &http.Response{StatusCode: step.status, Header: after[step.status], Body: io.NopCloser(strings.NewReader(step.body))}, nil
		}
		l := &Link{base: &url.URL{Scheme: "https", Host: "api.example"}, client: &http.Client{Transport: transport(answer)}, user: &user{}}
		h := &heard{}
		Follow(ctx, l, l.At("things"), "a=b", h)
		want := []string{"failed: the API server answers 429 Too Many Requests: too many requests", "failed: the API server answers 500 Internal Server Error: etcd is away", "listed a,b at 6", "watching", "ADDED c", "watching", "DELETED a",
			"failed: the API server answers 500 Internal Server Error: broken", "watching", "MODIFIED b", "listed b at 20", "listed  at 30", "watching",
			"failed: json: cannot unmarshal number into Go struct field .Type of type string"}
		if !slices.Equal(h.lines, want) {
			t.Errorf("it received\n%s", strings.Join(h.lines, "\n"))
		}
	})
}

// transport answers requests without a network, so that a bubble's time passes while it is waited.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }
