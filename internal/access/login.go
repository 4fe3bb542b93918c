package access

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// Paths of the API that issuers send browsers back to.
const (
	CallbackPath  = "/v1/session/callback"   // after a login
	SignedOutPath = "/v1/session/signed-out" // after a logout
)

// LoginTime is how long a person may take to sign in at an issuer.
const LoginTime = 10 * time.Minute

// maxReturn bounds the path that a login returns to, in bytes: a cookie keeps it.
const maxReturn = 1024

// Provider is an issuer at which people sign in (OpenID Connect, authorization code with PKCE).
type Provider interface {
	// Place returns the issuer, the label of its button, and the URL of the console to which it sends people
	// back.
	Place() (issuer, label, console string)
	// Begin returns the URL at the issuer at which an attempt begins.
	Begin(ctx context.Context, a *Attempt) (string, error)
	// Finish exchanges the code of an answer, whose state is that of the attempt, and returns the login,
	// without a session. It refuses an answer that the issuer did not make for this attempt.
	Finish(ctx context.Context, a *Attempt, answer *Answer) (*Login, error)
	// SignOut returns the URL that ends the issuer's own session; empty if it has none.
	SignOut() string
}

// Attempt is a login that has begun. Only the browser has it, sealed in a cookie: so there is nothing to keep
// for logins that are not finished, and any node finishes one.
type Attempt struct {
	Issuer   string `json:"issuer"`
	State    string `json:"state"`    // comes back in the answer
	Nonce    string `json:"nonce"`    // comes back in the token
	Verifier string `json:"verifier"` // of PKCE: without it the code is worth nothing
	Return   string `json:"return"`   // the path to show afterwards
}

// Answer is the answer of an issuer, which the browser brought back.
type Answer struct {
	State, Code, Issuer, Error, Description string
}

// IssuerError is the failure of an issuer that does not answer, or not as it should. Its text is for people.
type IssuerError struct{ Err error }

func (e *IssuerError) Error() string { return e.Err.Error() }
func (e *IssuerError) Unwrap() error { return e.Err }

// Login is a person who signed in at an issuer, with the claims that rules need.
type Login struct {
	Session string         `json:"session"` // id
	Issuer  string         `json:"issuer"`
	Subject string         `json:"subject"`
	Name    string         `json:"name,omitempty"`
	Claims  map[string]any `json:"claims,omitempty"`
	Began   time.Time      `json:"began"`
	Expires time.Time      `json:"expires"`
}

// findProvider returns the provider of an issuer.
func (g *Gate) findProvider(issuer string) (Provider, error) {
	for _, p := range g.Providers {
		if of, _, _ := p.Place(); of == issuer {
			return p, nil
		}
	}
	return nil,
		fmt.Errorf("the issuer %q is none at which people sign in here; open the console and use a button that it shows: %w",
			rouse.Shorten(issuer, 128), rouse.ErrNotFound)
}

// BeginLogin begins a login at an issuer, on a host of the API. It returns the URL at the issuer, and the
// text of the cookie that the browser has to come back with.
func (g *Gate) BeginLogin(ctx context.Context, issuer, back, host string) (at, cookie string, err error) {
	p, err := g.findProvider(issuer)
	if err != nil {
		return "", "", err
	}
	if err := checkReturn(back); err != nil {
		return "", "", err
	}
	_, _, console := p.Place()
	if u, _ := url.Parse(console); !strings.EqualFold(u.Host, host) { // it was checked with the rules
		return "", "", rouse.Refuse("host", host, "is not the one that the issuer sends people back to",
			"open the console at "+console)
	}
	a := &Attempt{Issuer: issuer, State: rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text(),
		Return: cmp.Or(back, "/")}
	if at, err = p.Begin(ctx, a); err != nil {
		return "", "", err
	}
	cookie, err = g.Sessions.sealAttempt(a, time.Now().Add(LoginTime))
	return at, cookie, err
}

// checkReturn refuses a text that is not a path of the console: a login must not lead to other sites.
func checkReturn(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || len(text) > maxReturn || text[0] != '/' || strings.HasPrefix(text, "//") ||
		strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == '\\' || r == 0x7f }) || u.Path == "/v1" ||
		strings.HasPrefix(u.Path, "/v1/") {
		return rouse.Refuse("return", rouse.Shorten(text, 128), "is no path of the console",
			"give one such as /timers?ns=shop, or leave it out")
	}
	return nil
}

// FinishLogin finishes the login of a cookie by the answer of its issuer. It returns the person, the text of
// the new session, and the path to show. An attempt can be finished once.
func (g *Gate) FinishLogin(ctx context.Context, cookie string,
	answer *Answer) (p *Principal, session, back string, err error) {
	now := time.Now()
	a := g.Sessions.openAttempt(cookie, now)
	switch {
	case a == nil:
		return nil, "", "", Unauthenticated(ReasonUnknown,
			"this browser has no login under way, or it took more than %d minutes; sign in again, and allow cookies",
			int(LoginTime.Minutes()))
	case a.State != answer.State:
		return nil, "", "", Unauthenticated(ReasonUnknown,
			"the answer of the issuer is for another login; sign in again, in one tab")
	}
	from, err := g.findProvider(a.Issuer)
	if err != nil {
		return nil, "", "", err
	}
	l, err := from.Finish(ctx, a, answer)
	if err != nil {
		return nil, "", "", err
	}
	l.Session, l.Began = rand.Text(), now
	if most := now.Add(SessionTime); l.Expires.After(most) {
		l.Expires = most
	}
	if p, err = g.Authenticators.Authenticate(ctx, &Credentials{Login: l}); err != nil {
		return nil, "", "", err
	}
	if err := g.Sessions.recordLogin(ctx, l, p, a.State, now); err != nil {
		return p, "", "", err
	}
	session, err = g.Sessions.sealLogin(l)
	return p, session, a.Return, err
}

// SignOut returns the URL at which the issuer of a login ends its own session; empty if it has none.
func (g *Gate) SignOut(l *Login) string {
	if p, err := g.findProvider(l.Issuer); err == nil {
		return p.SignOut()
	}
	return ""
}
