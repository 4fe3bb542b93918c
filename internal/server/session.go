package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/internal/access"
)

// sessionCookie keeps the session of the web console. With this prefix browsers take it from this host only,
// over TLS or on loopback, and send it to no other.
const sessionCookie = "__Host-rouse"

// loginCookie keeps a login that has begun. Its request comes from the issuer's page, so it cannot be Strict.
const loginCookie = "__Host-rouse-login"

// sessionOf returns the session of a request; empty if it has none.
func sessionOf(r *http.Request) string {
	return cookieOf(r, sessionCookie)
}

func cookieOf(r *http.Request, name string) string {
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}

const sessionPath = "/v1/session"

var sessionRoutes = []route{
	{method: "GET", path: sessionPath, serve: showSession, answer: api.Session{},
		summary: "Tells who the caller is, and what it may do; without credentials, that they are needed.",
		means:   "The session."},
	{method: "POST", path: sessionPath, repeats: notAtAll, serve: beginSession, body: api.BeginSession{},
		answer:  api.Session{},
		summary: "Exchanges a key or a token for a cookie, for browsers.", means: "The session."},
	{method: "DELETE", path: sessionPath, serve: endSession, summary: "Ends the session, and deletes the cookie.",
		means: "It has ended."},
}

// sessionFor returns the rights of a principal; nil is one without credentials.
func sessionFor(f *httpHandler, p *access.Principal) api.Session {
	g := f.opts.Access
	s := api.Session{Access: g != nil, Virtual: f.opts.Clock != nil}
	if g == nil || p != nil { // other callers need not know the version
		s.Version = f.opts.Version
	}
	if g == nil {
		return s
	}
	for _, from := range g.Providers {
		issuer, label, console := from.Place()
		s.Issuers = append(s.Issuers, api.LoginIssuer{Issuer: issuer, Label: label, Console: console})
	}
	if p == nil {
		return s
	}
	s.Identity = new(identityToJSON(identityOf(p)))
	for i, grant := range p.Grants {
		right := api.Right{Grant: s.Identity.Grants[i]}
		for _, v := range g.Control.VerbsOf(&grant) {
			right.Verbs = append(right.Verbs, string(v))
		}
		s.Rights = append(s.Rights, right)
	}
	return s
}

// showSession needs no credentials, so that the console learns without an error that there is no session.
// Those that were sent as a header have to be valid.
func showSession(f *httpHandler, c *call) error {
	leave, _, err := authenticateRequest(f.opts, "http", "/rouse.v1.Access/WhoAmI", &c.r)
	defer leave()
	if err != nil && c.r.Header.Get("Authorization") != "" {
		return err
	}
	s := sessionFor(f, access.From(c.r.Context()))
	if l := loginOf(f, c); l != nil && s.Identity != nil {
		s.SignOut = f.opts.Access.SignOut(l)
	}
	return c.replyJSON(http.StatusOK, s)
}

func beginSession(f *httpHandler, c *call) error {
	g, err := f.requireGate()
	if err != nil {
		return err
	}
	var body api.BeginSession
	if err := c.decodeRequiredBody(&body); err != nil {
		return err
	}
	p, err := g.Authenticators.Authenticate(c.ctx, &access.Credentials{Bearer: strings.TrimSpace(body.Key),
		Remote: addressOf(c.r.RemoteAddr)})
	if err != nil {
		return g.Refuse(err)
	}
	c.audit.By(p.ID, p.Name, p.Source)
	until := c.began.Add(access.SessionTime)
	if !p.Expires.IsZero() && p.Expires.Before(until) {
		until = p.Expires
	}
	text, err := g.Sessions.Begin(strings.TrimSpace(body.Key), p, until)
	if err != nil {
		return err
	}
	setCookie(c.w, sessionCookie, text, until.Sub(c.began), http.SameSiteStrictMode)
	return c.replyJSON(http.StatusOK, sessionFor(f, p))
}

// loginOf returns the login whose session a request has; nil if it has none.
func loginOf(f *httpHandler, c *call) *access.Login {
	if f.opts.Access == nil {
		return nil
	}
	var shown access.Credentials
	f.opts.Access.Sessions.Show(sessionOf(c.r), c.began, &shown)
	return shown.Login
}

func endSession(f *httpHandler, c *call) error {
	setCookie(c.w, sessionCookie, "", -1, http.SameSiteStrictMode)
	if g := f.opts.Access; g != nil {
		var shown access.Credentials
		g.Sessions.Show(sessionOf(c.r), c.began, &shown)
		if p, err := g.Authenticators.Authenticate(c.ctx, &shown); err == nil {
			c.audit.By(p.ID, p.Name, p.Source)
		}
		if shown.Session != nil {
			// ending the session ends its requests, except for this one
			c.r = c.r.WithContext(context.WithoutCancel(c.r.Context()))
			return c.replyNoContent(g.Sessions.End(c.r.Context(), shown.Session))
		}
	}
	return c.replyNoContent(nil)
}

// setCookie sets a cookie for so long; a negative time deletes it.
func setCookie(w http.ResponseWriter, name, text string, lasts time.Duration, site http.SameSite) {
	age := int(lasts / time.Second)
	if lasts < 0 {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{Name: name, Value: text, Path: "/", MaxAge: age, Secure: true, HttpOnly: true,
		SameSite: site})
}
