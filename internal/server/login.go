package server

import (
	"cmp"
	"errors"
	"fmt"
	"html"
	"net/http"
	"strings"
	"time"

	"github.com/rousehq/rouse/internal/access"
)

var loginRoutes = []route{
	{method: "GET", path: sessionPath + "/login", serve: beginLogin, params: []string{"issuer", "return"},
		summary: "Sends a browser to an issuer, where a person signs in.",
		more: `
parameters:
  - {name: issuer, in: query, required: true, schema: {type: string, maxLength: 2048}, description: 'One of the issuers of the session.'}
  - {name: return, in: query, schema: {type: string, maxLength: 1024}, description: 'The path of the console to show afterwards.'}
responses:
  "303": {description: 'To the issuer.', headers: {Location: {schema: {type: string}}}}
  4XX: {description: 'A page that tells what went wrong, or a problem.', content: {text/html: {schema: {type: string}}, application/problem+json: {schema: {$ref: '#/components/schemas/Problem'}}}}
  5XX: {description: 'A page that tells what went wrong, or a problem.', content: {text/html: {schema: {type: string}}, application/problem+json: {schema: {$ref: '#/components/schemas/Problem'}}}}`},
	{method: "GET", path: access.CallbackPath, serve: finishLogin, foreign: true,
		summary: "Takes the answer of an issuer from a browser, and gives it a session: the redirect URL to register at the issuer.",
		more: `
responses:
  "200": {description: 'A page that leads to the console.', content: {text/html: {schema: {type: string}}}}
  4XX: {description: 'A page that tells what went wrong, or a problem.', content: {text/html: {schema: {type: string}}, application/problem+json: {schema: {$ref: '#/components/schemas/Problem'}}}}
  5XX: {description: 'A page that tells what went wrong, or a problem.', content: {text/html: {schema: {type: string}}, application/problem+json: {schema: {$ref: '#/components/schemas/Problem'}}}}`},
	{method: "GET", path: access.SignedOutPath, serve: showSignedOut, foreign: true,
		summary: "Leads a browser from an issuer, where a person signed out, to the console.",
		more: `
responses:
  "200": {description: 'A page that leads to the console.', content: {text/html: {schema: {type: string}}}}`},
}

func beginLogin(f *httpHandler, c *call) error {
	at, cookie, err := f.startLogin(c)
	if err != nil {
		return c.signInFailed(err)
	}
	setCookie(c.w, loginCookie, cookie, access.LoginTime, http.SameSiteLaxMode)
	c.w.Header().Set("Referrer-Policy", "no-referrer")
	c.w.Header().Set("Location", at)
	c.w.WriteHeader(http.StatusSeeOther)
	return nil
}

func (f *httpHandler) startLogin(c *call) (at, cookie string, err error) {
	g, err := f.requireGate()
	if err != nil {
		return "", "", err
	}
	give, err := f.logins.takePlace(c.ctx)
	if err != nil {
		return "", "", err
	}
	defer give()
	return g.BeginLogin(c.ctx, c.params.textParam("issuer"), c.params.textParam("return"), c.r.Host)
}

func finishLogin(f *httpHandler, c *call) error {
	if c.r.Method != http.MethodGet {
		return &failure{code: "method_not_allowed", detail: "a login is finished by GET"}
	}
	setCookie(c.w, loginCookie, "", -1, http.SameSiteLaxMode)
	p, session, back, err := f.finishLogin(c)
	if p != nil {
		c.audit.By(p.ID, p.Name, p.Source)
	}
	if err := c.endAudit(err); err != nil {
		return c.signInFailed(err)
	}
	setCookie(c.w, sessionCookie, session, time.Until(p.Expires), http.SameSiteStrictMode)
	c.replyHTML(http.StatusOK, "Signed in", "The console opens.", back, "Open the console")
	return nil
}

func (f *httpHandler) finishLogin(c *call) (p *access.Principal, session, back string, err error) {
	g, err := f.requireGate()
	if err != nil {
		return nil, "", "", err
	}
	answer := access.Answer{}
	for name, to := range map[string]*string{"state": &answer.State, "code": &answer.Code, "iss": &answer.Issuer,
		"error": &answer.Error, "error_description": &answer.Description} {
		if list := c.params[name]; len(list) > 1 {
			return nil, "", "", refuseMalformed(name, "", "is given twice", "sign in again")
		} else if len(list) == 1 {
			*to = list[0]
		}
	}
	give, err := f.logins.takePlace(c.ctx)
	if err != nil {
		return nil, "", "", err
	}
	defer give()
	p, session, back, err = g.FinishLogin(c.ctx, cookieOf(c.r, loginCookie), &answer)
	return p, session, back, g.Refuse(err)
}

func showSignedOut(_ *httpHandler, c *call) error {
	c.replyHTML(http.StatusOK, "Signed out", "You have signed out.", "/", "Open the console")
	return nil
}

// signInFailed shows why a person could not sign in. The error is for people, so it is no problem document.
func (c *call) signInFailed(err error) error {
	if issuer, ok := errors.AsType[*access.IssuerError](err); ok {
		err = &failure{code: "unavailable", detail: issuer.Error(), err: err}
	}
	p, known := problemOf(err)
	if !known {
		c.handler.log.Error("a login failed", "err", err)
	}
	text := cmp.Or(p.Detail, "the log of the server has more")
	noteFailure(c.handler.refused, err)
	if p.Status == http.StatusUnauthorized {
		c.w.Header().Set("WWW-Authenticate", authenticate)
	}
	c.replyHTML(p.Status, "Signing in failed", strings.ToUpper(text[:1])+text[1:]+".", "", "Back to the console")
	return nil
}

// replyHTML responds with a page for people who come from an issuer. It loads nothing. With a path it leads
// there by itself: by a page of this origin, so that the browser sends the session's cookie, and Guard lets
// it in.
func (c *call) replyHTML(status int, title, text, to, link string) {
	h := c.w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	refresh := ""
	if to != "" {
		refresh = fmt.Sprintf("\n<meta http-equiv=\"refresh\" content=\"0;url=%s\">", html.EscapeString(to))
	} else {
		to = "/"
	}
	c.writeResponse(status, "text/html; charset=utf-8", fmt.Appendf(nil, `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">%s
<title>%s · rouse</title>
</head>
<body>
<h1>%s</h1>
<p>%s</p>
<p><a href="%s">%s</a></p>
</body>
</html>`, refresh, title, title, html.EscapeString(text), html.EscapeString(to), link))
}
