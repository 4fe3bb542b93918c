package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/rousehq/rouse"
)

// Bounds of access tokens and of the requests for them.
const (
	maxTokens    = 1000             // kept at a time; each may have as many bytes as a header
	maxTokenBody = 64 << 10         // bytes of a token server's answer
	tokenTimeout = 10 * time.Second // of the requests for a token
	tokenWait    = 2 * time.Second  // of fires for a request: it holds their places, which other fires need
	tokenPause   = 5 * time.Second  // after a request that failed
	tokenRenewal = 10 * time.Second // how old a token is that is renewed after a 401
	tokenMargin  = 30 * time.Second // before its end at which a token is not sent any more
	tokenLife    = 5 * time.Minute  // of a token without expires_in
	maxTokenLife = 24 * time.Hour
)

// tokens has the access tokens of OAuth clients. Each has a request at most in progress, outside of the lock,
// and an error of one is kept for it only.
type tokens struct {
	get func(ctx context.Context, namespace string, c *rouse.Credential) (*oauth2.Token, error)

	ctx  context.Context // of the requests
	stop context.CancelFunc
	work sync.WaitGroup

	mu   sync.Mutex
	kept map[tokenKey]*token
}

func newTokens(get func(context.Context, string, *rouse.Credential) (*oauth2.Token, error)) *tokens {
	t := &tokens{get: get, kept: map[tokenKey]*token{}}
	t.ctx, t.stop = context.WithCancel(context.Background())
	return t
}

// tokenKey is a secret of a namespace.
type tokenKey struct{ namespace, name string }

// token is a token, or a request for one. The mutex of tokens guards it until done is closed; then only its
// age changes, by tests.
type token struct {
	version uint64
	began   time.Time
	done    chan struct{} // closed when the request has ended
	value   string
	until   time.Time // when it, or the error, is over
	err     error
}

// hasEnded reports whether the request for a token has ended.
func (t *token) hasEnded() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// awaitToken makes sure that there is a token, or the reason why there is none, and waits for a request in
// progress until tokenWait after it began.
func (t *tokens) awaitToken(ctx context.Context, key tokenKey, c *rouse.Credential, now time.Time) {
	t.mu.Lock()
	one := t.kept[key]
	if one == nil || one.version != c.Version || one.hasEnded() && !now.Before(one.until) {
		one = &token{version: c.Version, began: now, done: make(chan struct{})}
		if t.kept[key] == nil && len(t.kept) >= maxTokens {
			t.dropOldest()
		}
		t.kept[key] = one
		t.work.Go(func() { t.requestToken(key, one, c) })
	}
	t.mu.Unlock()
	wait := time.NewTimer(one.began.Add(tokenWait).Sub(now))
	defer wait.Stop()
	select {
	case <-one.done:
	case <-wait.C:
	case <-ctx.Done():
	}
}

// dropOldest makes room for a token. It requires t.mu.
func (t *tokens) dropOldest() {
	var oldest tokenKey
	var at time.Time
	for key, one := range t.kept {
		if at.IsZero() || one.began.Before(at) {
			oldest, at = key, one.began
		}
	}
	delete(t.kept, oldest)
}

// requestToken requests a token.
func (t *tokens) requestToken(key tokenKey, one *token, c *rouse.Credential) {
	ctx, cancel := context.WithTimeout(t.ctx, tokenTimeout)
	defer cancel()
	got, err := t.get(ctx, key.namespace, c)
	now := time.Now()
	if err == nil && (len(got.AccessToken) > maxHeader || !rouse.IsHeaderValue(got.AccessToken)) {
		err = errors.New("it gave a token that cannot be sent in a header")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		one.err, one.until = err, now.Add(tokenPause)
	} else {
		life := tokenLife
		if !got.Expiry.IsZero() {
			life = min(max(got.Expiry.Sub(now), 0), maxTokenLife)
		}
		one.value, one.until = got.AccessToken, now.Add(life-min(tokenMargin, life/2))
	}
	close(one.done)
}

// presentToken returns the token of a client, or why there is none; "" and nil if none was requested yet.
func (t *tokens) presentToken(key tokenKey, c *rouse.Credential) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.kept[key]
	switch {
	case one == nil || one.version != c.Version:
		return "", nil
	case !one.hasEnded():
		return "", fmt.Errorf("the secret %s has no token yet: %s has not answered within %v", key.name,
			hostOf(c.OAuth.TokenURL), tokenWait)
	case one.err != nil:
		return "", fmt.Errorf("the secret %s has no token: %s: %w", key.name, hostOf(c.OAuth.TokenURL), one.err)
	}
	return one.value, nil
}

// renewToken reports whether a request that had a token of the client, and was answered with 401, is to be
// sent again: there is another token, or this one is not new, and is dropped.
func (t *tokens) renewToken(key tokenKey, used []string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.kept[key]
	if one == nil || !one.hasEnded() {
		return true
	}
	if one.err != nil || slices.Contains(used, one.value) && now.Sub(one.began) < tokenRenewal {
		return false
	}
	if slices.Contains(used, one.value) {
		delete(t.kept, key)
	}
	return true
}

// closeTokens ends the requests.
func (t *tokens) closeTokens() {
	t.stop()
	t.work.Wait()
}

func hostOf(target string) string {
	host, _ := placeOf(target).hostAndPort()
	return host
}

// eachClient calls do for the OAuth clients that the headers of a spec refer to.
func (s *Sink) eachClient(namespace string, spec *rouse.Spec, do func(tokenKey, *rouse.Credential)) {
	if len(spec.Webhook.Headers) == 0 {
		return
	}
	var host string
	for _, ref := range spec.Webhook.SecretNames() {
		if host == "" {
			host = hostOf(spec.Target)
		}
		if c, err := s.opts.Credential(namespace, ref.Name, host); err == nil && c != nil && c.OAuth != nil {
			do(tokenKey{namespace, ref.Name}, c)
		}
	}
}

// awaitTokens waits until the tokens that a spec needs are there, or have failed. Requests are made after it.
func (s *Sink) awaitTokens(ctx context.Context, namespace string, spec *rouse.Spec, deadline time.Time) {
	s.eachClient(namespace, spec, func(key tokenKey, c *rouse.Credential) {
		ctx, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		s.tokens.awaitToken(ctx, key, c, time.Now())
	})
}

// renewsTokens reports whether a request that got the answer is to be sent again, with other tokens.
func (s *Sink) renewsTokens(namespace string, spec *rouse.Spec, a *answer) (again bool) {
	if a == nil || a.code != http.StatusUnauthorized {
		return false
	}
	s.eachClient(namespace, spec, func(key tokenKey, _ *rouse.Credential) {
		again = s.tokens.renewToken(key, a.secrets, time.Now()) || again
	})
	return again
}

// expandCredential returns the value of a reference to a secret that is not sent itself. A signature is made
// when the request is complete.
func (s *Sink) expandCredential(r *request, key tokenKey, c *rouse.Credential, header, whole string) (string, error) {
	if fault := c.HeaderFault(header, whole, key.name); fault != "" {
		return "", errors.New(fault)
	}
	if c.AWS != nil {
		r.aws = c
		return "", nil
	}
	value, err := s.tokens.presentToken(key, c)
	return value, cmp.Or(err, emptyToken(value, key.name))
}

func emptyToken(value, name string) error {
	if value != "" {
		return nil
	}
	return fmt.Errorf("the secret %s has no token yet", name)
}

// fetchToken requests a token, from an address that the namespace may send requests to. Redirects are not
// followed: they would get the client secret.
func (s *Sink) fetchToken(ctx context.Context, namespace string, c *rouse.Credential) (*oauth2.Token, error) {
	if value, wrong, cure := s.targetFault(c.OAuth.TokenURL); wrong != "" {
		return nil, fmt.Errorf("the token URL %s %s: %s", value, wrong, cure)
	}
	at := claim{of: &s.inflight, namespace: namespace}
	defer at.freePlaces()
	over := &http.Transport{DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHead,
		TLSHandshakeTimeout: s.opts.TLSTimeout,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.opts.RootCAs},
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return s.openTCP(ctx, &at, host, port)
		}}
	client := &http.Client{Transport: bounded{over},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	config := clientcredentials.Config{ClientID: c.OAuth.ClientID, ClientSecret: c.Secret, TokenURL: c.OAuth.TokenURL,
		Scopes: c.OAuth.Scopes}
	if c.OAuth.Audience != "" {
		config.EndpointParams = url.Values{"audience": {c.OAuth.Audience}}
	}
	got, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
	return got, tokenFault(ctx, err)
}

// CheckTokenURL refuses a token URL that requests of a namespace could not reach, as Check and Allowed refuse
// targets.
func (s *Sink) CheckTokenURL(namespace, target string) error {
	const field = "oauth.token_url"
	if value, wrong, cure := s.targetFault(target); wrong != "" {
		return rouse.Refuse(field, rouse.Shorten(value, 128), wrong, cure)
	}
	err := s.Allowed(namespace, &rouse.Spec{Target: target})
	var no *rouse.Invalid
	if errors.As(err, &no) {
		no.Problems[0].Field = field
	}
	return err
}

// tokenFault returns an error for users: without the token server's own words, which may have the secret.
func tokenFault(ctx context.Context, err error) error {
	var answered *oauth2.RetrieveError
	var asked *url.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("no answer within %v", tokenTimeout)
	case errors.As(err, &answered):
		text := "it answered " + statusText(answered.Response.StatusCode)
		if code := answered.ErrorCode; slices.Contains(tokenErrors, code) {
			text += ": " + code
		}
		return errors.New(text + ": look at the client id, the scopes and the value of the secret")
	case errors.As(err, &asked):
		return asked.Err
	}
	return fmt.Errorf("its answer is no token of at most %d bytes: look at the token URL", maxTokenBody)
}

// tokenErrors are the errors of RFC 6749.
var tokenErrors = strings.Fields(
	"invalid_request invalid_client invalid_grant unauthorized_client unsupported_grant_type invalid_scope")

// bounded reads maxTokenBody of an answer.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxTokenBody)
	}
	return resp, err
}
