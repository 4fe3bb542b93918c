package webhook

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/rousehq/rouse"
)

// ReadAnswer reads an answer as exchange does.
func ReadAnswer(body io.ReadCloser, code int, contentType string, limit int) {
	s := Sink{opts: Options{MaxAnswer: limit}}
	new(answer).readResponse(&s.opts, &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {contentType}}, Body: body})
}

// Rest closes idle connections.
func (s *Sink) Rest() { s.idle.closeIdle() }

// Idle returns the number of idle connections.
func (s *Sink) Idle() int {
	s.idle.mu.Lock()
	defer s.idle.mu.Unlock()
	return s.idle.all.Len()
}

// Age lets the tokens that are kept be older.
func (s *Sink) Age(by time.Duration) {
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	for _, one := range s.tokens.kept {
		one.began, one.until = one.began.Add(-by), one.until.Add(-by)
	}
}

// Tokens are access tokens without a sink.
type Tokens struct{ t *tokens }

// NewTokens returns tokens that get requests.
func NewTokens(get func(context.Context, string, *rouse.Credential) (*oauth2.Token, error)) Tokens {
	return Tokens{newTokens(get)}
}

// Token returns the token of a secret of the namespace default.
func (t Tokens) Token(ctx context.Context, name string, c *rouse.Credential) (string, error) {
	key := tokenKey{"default", name}
	t.t.awaitToken(ctx, key, c, time.Now())
	return t.t.presentToken(key, c)
}

// Kept returns how many are kept.
func (t Tokens) Kept() int {
	t.t.mu.Lock()
	defer t.t.mu.Unlock()
	return len(t.t.kept)
}

// Close ends the requests.
func (t Tokens) Close() { t.t.closeTokens() }

// MaxTokens is the bound of tokens that are kept.
const MaxTokens = maxTokens

// SignAWS returns the signature of a request.
func SignAWS(method, target string, headers [][2]string, body string, c *rouse.Credential, now time.Time) string {
	r := &request{place: placeOf(target), method: method}
	r.setHeader("Host", r.authority)
	for _, h := range headers {
		r.setHeader(h[0], h[1])
	}
	r.signAWS(c, []byte(body), now)
	_, of, _ := strings.Cut(string(r.head), "Authorization: ")
	return strings.TrimSpace(of)
}
