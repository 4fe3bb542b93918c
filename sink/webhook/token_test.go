package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/oauth2"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest/receiver"
	"github.com/rousehq/rouse/sink/webhook"
)

// tokenServer gives tokens, "token 1" first, to the client rouse with the secret "s3cret".
type tokenServer struct {
	*httptest.Server
	given  atomic.Int64
	answer atomic.Pointer[http.HandlerFunc] // in place of tokens
}

func newTokenServer(t *testing.T) *tokenServer {
	s := &tokenServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if own := s.answer.Load(); own != nil {
			(*own)(w, r)
			return
		}
		id, secret, _ := r.BasicAuth()
		w.Header().Set("Content-Type", "application/json")
		if id != "rouse" || secret != "s3cret" || r.FormValue("grant_type") != "client_credentials" || r.FormValue("scope") != "jobs read" ||
			r.FormValue("audience") != "api" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprintf(w, `{"error": "invalid_client", "error_description": "the secret %s is wrong"}`, secret)
			return
		}
		_, _ = fmt.Fprintf(w, `{"access_token": "token-%d", "token_type": "Bearer", "expires_in": 3600}`, s.given.Add(1))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *tokenServer) client(secret string, version uint64) *rouse.Credential {
	return &rouse.Credential{Secret: secret, Version: version, OAuth: &rouse.OAuthClient{TokenURL: s.URL + "/token", ClientID: "rouse",
		Scopes: []string{"jobs", "read"}, Audience: "api"}}
}

// TestTokensOfOAuth lets a target ask for tokens: one is requested for many fires, a refused one is renewed
// once, another secret takes effect immediately, and what a client is told has neither secrets nor tokens.
func TestTokensOfOAuth(t *testing.T) {
	server := newTokenServer(t)
	var accepted, held atomic.Value
	accepted.Store("Bearer token-1")
	held.Store(server.client("s3cret", 1))
	w := newWire(t, webhook.Options{Credential: func(ns, name, host string) (*rouse.Credential, error) {
		if ns != "default" || name != "crm" || host != "127.0.0.1" {
			return nil, errors.New("there is no such secret")
		}
		return held.Load().(*rouse.Credential), nil
	}}, receiver.Options{Answer: receiver.Answer(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != accepted.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte("no: " + got))
		}
	})})
	f := w.fire()
	f.Spec.Webhook.Headers = map[string]string{"Authorization": "Bearer {{secret:crm}}"}
	expect := func(what string, verdict rouse.Verdict, tokens, requests int64) {
		t.Helper()
		before, _ := w.r.Count()
		o := w.send(f)[0]
		after, _ := w.r.Count()
		if o.Verdict != verdict || server.given.Load() != tokens || int64(after-before) != requests {
			t.Errorf("%s: %+v, %d tokens, %d requests", what, o, server.given.Load(), after-before)
		}
		if text := fmt.Sprintf("%+v", o); strings.Contains(text, "token-") || strings.Contains(text, "s3cret") {
			t.Errorf("%s shows what it must not: %s", what, text)
		}
	}
	var many sync.WaitGroup
	for range 20 {
		many.Go(func() {
			if o := w.send(f)[0]; o.Verdict != rouse.Done {
				t.Errorf("%+v", o)
			}
		})
	}
	many.Wait()
	expect("the same token", rouse.Done, 1, 1)
	accepted.Store("Bearer token-2")
	expect("a new token that is refused", rouse.Rejected, 1, 1)
	w.sink.Age(time.Minute)
	expect("a token that is refused", rouse.Done, 2, 2)
	accepted.Store("Bearer another")
	w.sink.Age(time.Minute)
	expect("a target that refuses all", rouse.Rejected, 3, 2)
	expect("and again", rouse.Rejected, 3, 1)

	w.sink.Age(2 * time.Hour)
	accepted.Store("Bearer token-4")
	expect("a token that is over", rouse.Done, 4, 1)
	held.Store(server.client("wrong", 2))
	expect("a wrong secret", rouse.Deferred, 4, 0)
	if text := w.sink.Obstacle("default", f.Spec); !strings.Contains(text, "Authorization: the secret crm has no token: 127.0.0.1: it answered 401 Unauthorized: invalid_client") {
		t.Errorf("the obstacle: %q", text)
	}
	accepted.Store("Bearer token-5")
	held.Store(server.client("s3cret", 3))
	expect("another secret", rouse.Done, 5, 1)
	f.Spec.Webhook.Batch = 10
	expect("a batch", rouse.Done, 5, 1)
	f.Spec.Webhook.Batch = 0
	g := f
	g.Namespace = "other"
	if o := w.send(g)[0]; o.Verdict != rouse.Deferred || server.given.Load() != 5 {
		t.Errorf("another namespace: %+v", o)
	}
}

// TestTokenServersThatLie lets fires wait, with a reason, while a token server gives no token, and lets those
// that need none of it go.
func TestTokenServersThatLie(t *testing.T) {
	server := newTokenServer(t)
	stop := make(chan struct{})
	for _, c := range []struct {
		name, want string
		answer     http.HandlerFunc
	}{
		{"HTML", "its answer is no token of at most 65536 bytes", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<html>s3cret: please sign in"))
		}},
		{"huge", "its answer is no token of at most 65536 bytes", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"access_token": "t", "more": "` + strings.Repeat("x", 1<<17) + `"}`))
		}},
		{"long", "it gave a token that cannot be sent in a header", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"access_token": "` + strings.Repeat("x", 60_000) + `"}`))
		}},
		{"lines", "it gave a token that cannot be sent in a header", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"access_token": "a\r\nX-Injected: 1"}`))
		}},
		{"empty", "its answer is no token", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) }},
		{"redirect", "it answered 307 Temporary Redirect", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/token" {
				t.Error("the redirect was followed")
			}
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}},
		{"error", "it answered 500 Internal Server Error: look at", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			_, _ = w.Write([]byte(`{"error": "s3cret"}`))
		}},
		{"cut", "EOF", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"slow", "127.0.0.1 has not answered within 2s", func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		}},
	} {
		server.answer.Store(&c.answer)
		w := newWire(t, webhook.Options{Credential: func(_, name, _ string) (*rouse.Credential, error) {
			return server.client("s3cret", 1), nil
		}}, receiver.Options{})
		f := w.fire()
		f.Spec.Webhook.Headers = map[string]string{"Authorization": "Bearer {{secret:crm}}"}
		for range 2 { // the second one does not ask again
			o := w.send(f)[0]
			if o.Verdict != rouse.Deferred || o.Cause != rouse.CauseNoSecret || !strings.Contains(o.Detail, c.want) || strings.Contains(o.Detail, "s3cret") {
				t.Errorf("%s: %+v", c.name, o)
			}
		}
		if o := w.send(w.fire())[0]; o.Verdict != rouse.Done {
			t.Errorf("%s: a fire without it: %+v", c.name, o)
		}
	}
	close(stop)
}

// TestTokenURLsAreGuarded refuses token servers where targets are refused, also behind names.
func TestTokenURLsAreGuarded(t *testing.T) {
	server := newTokenServer(t)
	deny, err := webhook.ParseRules("deny namespace=default port=" + server.URL[strings.LastIndex(server.URL, ":")+1:])
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		o         webhook.Options
		url, want string
	}{
		"an address":  {url: server.URL, want: "leads to 127.0.0.1"},
		"a name":      {url: strings.Replace(server.URL, "127.0.0.1", "localhost", 1), want: "leads to this machine"},
		"a rule":      {o: webhook.Options{AllowPrivate: true, Egress: deny}, url: server.URL, want: "rule 1 of egress"},
		"a port":      {o: webhook.Options{AllowPrivate: true}, url: "http://127.0.0.1:6379/", want: "has the port 6379"},
		"no web page": {url: "ftp://login.example.com", want: "is no web address"},
	} {
		c.o.Credential = func(string, string, string) (*rouse.Credential, error) {
			of := server.client("s3cret", 1)
			of.OAuth.TokenURL = c.url
			return of, nil
		}
		sink := webhook.New(c.o)
		err := sink.CheckTokenURL("default", c.url)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "oauth.token_url") {
			t.Errorf("%s: %v", name, err)
		}
		f := fireTo("https://198.51.100.7/")
		f.Spec.Webhook.Headers = map[string]string{"Authorization": "Bearer {{secret:crm}}"}
		if o := send(t.Context(), sink, f)[0]; o.Verdict != rouse.Deferred || !strings.Contains(o.Detail, c.want) {
			t.Errorf("%s: %+v", name, o)
		}
		sink.Close()
	}
	if server.given.Load() != 0 {
		t.Error("a token was requested")
	}
}

// TestTokensOverTheirLife keeps tokens until shortly before they end, errors for five seconds, and as many as
// there may be. A request that hangs lets its own fires wait for two seconds, and no others.
func TestTokensOverTheirLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int64
		var fails atomic.Bool
		tokens := webhook.NewTokens(func(ctx context.Context, _ string, c *rouse.Credential) (*oauth2.Token, error) {
			n := requests.Add(1)
			if c.Secret == "hangs" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			if fails.Load() {
				return nil, errors.New("it is away")
			}
			one := &oauth2.Token{AccessToken: fmt.Sprint(n)}
			if c.Secret != "endless" {
				one.Expiry = time.Now().Add(time.Hour)
			}
			return one, nil
		})
		defer tokens.Close()
		expect := func(name, secret, want string) {
			t.Helper()
			got, err := tokens.Token(t.Context(), name, &rouse.Credential{Secret: secret, OAuth: &rouse.OAuthClient{TokenURL: "https://a.example/"}})
			if got != want && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %q, %v, want %q", name, got, err, want)
			}
		}
		expect("crm", "", "1")
		time.Sleep(time.Hour - 31*time.Second)
		expect("crm", "", "1")
		time.Sleep(2 * time.Second)
		expect("crm", "", "2")
		expect("endless", "endless", "3")
		time.Sleep(4 * time.Minute)
		expect("endless", "endless", "3")
		time.Sleep(time.Minute)
		expect("endless", "endless", "4")

		fails.Store(true)
		expect("away", "", "it is away")
		fails.Store(false)
		time.Sleep(4 * time.Second)
		expect("away", "", "it is away")
		time.Sleep(2 * time.Second)
		expect("away", "", "6")

		began := time.Now()
		expect("hangs", "hangs", "has not answered within 2s")
		expect("crm", "", "2")
		expect("hangs", "hangs", "has not answered within 2s")
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %v", took)
		}
		time.Sleep(9 * time.Second)
		expect("hangs", "hangs", "context deadline exceeded")
		if requests.Load() != 7 {
			t.Errorf("%d requests", requests.Load())
		}
		for i := range webhook.MaxTokens + 10 {
			tokens.Token(t.Context(), fmt.Sprint(i), &rouse.Credential{OAuth: &rouse.OAuthClient{}})
		}
		if tokens.Kept() != webhook.MaxTokens {
			t.Errorf("%d tokens are kept", tokens.Kept())
		}
	})
}
