package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/store/mem"
)

// TestTargetsThatAskForTokens fires a timer whose target takes tokens of an OAuth server only, over the doors
// of a node. Neither the secret nor a token is in what clients get. The rights are those of secrets.
func TestTargetsThatAskForTokens(t *testing.T) {
	const first, second = "canary-one", "canary-two"
	var valid atomic.Value
	valid.Store(first)
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id, secret, _ := r.BasicAuth(); id != "rouse" || secret != valid.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token": "token-of-%s", "token_type": "Bearer", "expires_in": 300}`, valid.Load())
	}))
	defer tokens.Close()
	came := make(chan string, 16)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("you sent " + r.Header.Get("Authorization")))
		came <- r.Header.Get("Authorization")
	}))
	defer target.Close()

	g := serveGuarded(t, mem.New(), func(c *node.Config) { c.AllowPrivate = true })
	bearer := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	oauth := rouse.OAuthClient{TokenURL: tokens.URL, ClientID: "rouse", Scopes: []string{"jobs"}}
	if _, err := g.client(g.key("operator", own)).Secrets().PutOAuth(t.Context(), own, "crm", first, oauth); err == nil || !strings.Contains(err.Error(), "secrets.write") {
		t.Errorf("an editor set it: %v", err)
	}
	admin := g.client(g.admin)
	kept, err := admin.Secrets().PutOAuth(t.Context(), own, "crm", first, oauth, "127.0.0.1")
	if err != nil || kept.OAuth == nil || kept.OAuth.TokenURL != tokens.URL || kept.OAuth.Scopes[0] != "jobs" {
		t.Fatalf("%+v, %v", kept, err)
	}
	path := "/v1/namespaces/" + own + "/secrets"
	for body, want := range map[string]string{
		`{"value": "x", "oauth": {"token_url": "http://169.254.169.254/token", "client_id": "c"}}`:  "oauth.token_url",
		`{"value": "x", "oauth": {"token_url": "https://login.example/token", "client_id": ""}}`:    "oauth.client_id",
		`{"value": "x", "aws": {"access_key": "A", "region": "eu west", "service": "lambda"}}`:      "aws.region",
		`{"value": "x", "oauth": {"token_url": "https://u:pass@login.example/", "client_id": "c"}}`: "contains a user or password",
	} {
		if code, answer := g.http("PUT", path+"/bad", body, bearer(g.admin)...); code != 422 || !strings.Contains(answer, want) || strings.Contains(answer, "pass@") {
			t.Errorf("%s: %d %s", body, code, answer)
		}
	}
	spec := rouse.Spec{Schedule: "2099-01-01T00:00:00Z", Target: target.URL, KeepAnswer: 256,
		Webhook: rouse.Webhook{Headers: map[string]string{"Authorization": "Bearer {{secret:crm}}"}}}
	if _, err := admin.Create(t.Context(), own, "sync", spec); err != nil {
		t.Fatal(err)
	}
	fire := func(want string) {
		t.Helper()
		if _, _, err := admin.Run(t.Context(), own, "sync"); err != nil {
			t.Fatal(err)
		}
		poll.Until(t, "a request of the target", func() bool {
			select {
			case got := <-came:
				if got != "Bearer token-of-"+want {
					t.Errorf("sent %q", got)
				}
				return true
			default:
				return false
			}
		})
	}
	fire(first)
	valid.Store(second)
	if code, answer := g.http("PUT", path+"/crm", `{"value": "`+second+`"}`, bearer(g.admin)...); code != 200 || !strings.Contains(answer, `"client_id":"rouse"`) || !strings.Contains(answer, `"version":2`) {
		t.Errorf("%d %s", code, answer)
	}
	fire(second)
	timer := "/v1/namespaces/" + own + "/timers/sync"
	for _, at := range []string{path, timer, timer + "/records", timer + ":explain", "/v1/namespaces/" + own + "/timers"} {
		code, answer := g.http("GET", at, "", bearer(g.admin)...)
		if code != 200 || strings.Contains(answer, "canary") {
			t.Errorf("%s: %d %s", at, code, answer)
		}
	}
}
