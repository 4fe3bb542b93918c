package token

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// Providers returns the issuers at which people sign in:
//
//	browser ─► Begin: state, nonce, challenge ─► issuer ─► browser ─► Finish: code and verifier ─► token endpoint ─► ID token ─► claims
//
// An ID token is verified as the tokens of calls are, for the audience client_id. It is not kept: a session
// has the claims that rules need.
func (a *Authenticator) Providers() (list []access.Provider) {
	for _, i := range a.order {
		if i.Login != nil {
			list = append(list, i)
		}
	}
	return list
}

// signedIn returns the principal of a person who has signed in, by the rules as they are now.
func (a *Authenticator) signedIn(l *access.Login) (*access.Principal, error) {
	i := a.issuers[l.Issuer]
	if i == nil || i.Login == nil {
		return nil, access.Unauthenticated(access.ReasonUnknown,
			"people do not sign in at the issuer %q any more; sign in again", rouse.Shorten(l.Issuer, 128))
	}
	p, err := i.newPrincipal(l.Subject, l.Name, "login", l.Claims)
	if err != nil {
		return nil, err
	}
	p.Expires = l.Expires
	return p, nil
}

// Place implements access.Provider.
func (i *issuer) Place() (issuer, label, console string) {
	return i.Issuer.Issuer, i.Login.Label, i.Login.URL
}

func (i *issuer) callbackURL() string { return i.Login.URL + access.CallbackPath }

// issuerDiscovery returns the discovery document of the issuer.
func (i *issuer) issuerDiscovery(ctx context.Context) (*discovery, error) {
	if found, _ := i.keys.knownDiscovery(); found != nil {
		return found, nil
	}
	err := i.keys.refreshKeys(ctx, fetchPause)
	found, _ := i.keys.knownDiscovery()
	if found == nil {
		return nil, &access.IssuerError{Err: fmt.Errorf("the issuer %s cannot be used: %w; try again later",
			i.Issuer.Issuer, err)}
	}
	return found, nil
}

func (k *keys) knownDiscovery() (*discovery, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.found, k.err
}

// Begin implements access.Provider.
func (i *issuer) Begin(ctx context.Context, a *access.Attempt) (string, error) {
	found, err := i.issuerDiscovery(ctx)
	if err != nil {
		return "", err
	}
	challenge := sha256.Sum256([]byte(a.Verifier))
	return addParams(found.Authorize, url.Values{"response_type": {"code"}, "client_id": {i.Login.ClientID},
		"redirect_uri": {i.callbackURL()},
		"scope":        {strings.Join(i.Login.Scopes, " ")}, "state": {a.State}, "nonce": {a.Nonce},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"}})
}

// addParams adds parameters to a URL, which may have others.
func addParams(at string, more url.Values) (string, error) {
	u, err := url.Parse(at)
	if err != nil {
		return "", &access.IssuerError{Err: err}
	}
	q := u.Query()
	maps.Copy(q, more)
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// SignOut implements access.Provider.
func (i *issuer) SignOut() string {
	found, _ := i.keys.knownDiscovery()
	if found == nil || found.End == "" {
		return ""
	}
	at, err := addParams(found.End, url.Values{"client_id": {i.Login.ClientID},
		"post_logout_redirect_uri": {i.Login.URL + access.SignedOutPath}})
	if err != nil {
		return ""
	}
	return at
}

// Finish implements access.Provider.
func (i *issuer) Finish(ctx context.Context, a *access.Attempt, answer *access.Answer) (*access.Login, error) {
	found, err := i.issuerDiscovery(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case answer.Issuer != "" && answer.Issuer != i.Issuer.Issuer, answer.Issuer == "" && found.Named:
		return nil, access.Unauthenticated(access.ReasonUnknown,
			"the answer is of the issuer %q, and the login began at %s; sign in again", rouse.Shorten(answer.Issuer, 128),
			i.Issuer.Issuer)
	case answer.Error != "":
		return nil, access.Unauthenticated(access.ReasonUnknown, "the issuer %s refused the login: %s", i.Issuer.Issuer,
			rouse.Shorten(strings.TrimSpace(answer.Error+" "+answer.Description), 256))
	case answer.Code == "":
		return nil, malformedToken("the answer of the issuer has no code; sign in again")
	}
	text, err := i.redeemCode(ctx, found, answer.Code, a.Verifier)
	if err != nil {
		return nil, err
	}
	return i.verifyLogin(ctx, text, a.Nonce, time.Now())
}

// verifyLogin verifies an ID token, and returns the login of its subject.
func (i *issuer) verifyLogin(ctx context.Context, text, nonce string, now time.Time) (*access.Login, error) {
	if strings.Count(text, ".") != 2 || len(text) > maxIDToken {
		return nil, malformedToken("the issuer sent an ID token that is none, or has more than %d bytes", maxIDToken)
	}
	c, _, err := i.verifySignature(ctx, text, "JWT")
	if err != nil {
		return nil, err
	}
	id := i.Login.ClientID
	if err := c.checkClaims(i, id, now); err != nil {
		return nil, err
	}
	switch {
	case c.Party != "" && c.Party != id, c.Party == "" && len(c.Audience) > 1:
		return nil, access.Unauthenticated(access.ReasonUnknown, "the ID token is for the client %q, not for %q",
			rouse.Shorten(c.Party, 128), id)
	case c.Nonce != nonce:
		return nil, access.Unauthenticated(access.ReasonUnknown, "the ID token was made for another login; sign in again")
	case c.Issued == nil:
		return nil, malformedToken("the ID token has no claim iat")
	}
	return &access.Login{Issuer: i.Issuer.Issuer, Subject: c.Subject, Name: c.displayName(), Claims: i.Keep(c.all),
		Expires: secondsToTime(*c.Expires)}, nil
}

// maxIDToken bounds an ID token in bytes. It comes from the issuer itself, and may have many groups.
const maxIDToken = 256 << 10

// redeemCode exchanges a code for an ID token.
func (i *issuer) redeemCode(ctx context.Context, found *discovery, code, verifier string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {i.callbackURL()},
		"code_verifier": {verifier}}
	secret := ""
	if i.Login.Secret != "" {
		var err error
		if secret, err = i.readClientSecret(); err != nil {
			return "", &access.IssuerError{Err: err}
		}
	}
	// Without a list of methods the issuer takes client_secret_basic.
	basic := secret != "" && (len(found.Methods) == 0 || slices.Contains(found.Methods, "client_secret_basic"))
	if !basic {
		form.Set("client_id", i.Login.ClientID)
		if secret != "" {
			form.Set("client_secret", secret)
		}
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, found.Token, strings.NewReader(form.Encode()))
	if err != nil {
		return "", &access.IssuerError{Err: err}
	}
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	q.Header.Set("Accept", "application/json")
	if basic {
		q.SetBasicAuth(url.QueryEscape(i.Login.ClientID), url.QueryEscape(secret))
	}
	status, body, err := i.keys.sendRequest(q)
	if err != nil {
		return "", &access.IssuerError{Err: fmt.Errorf("the issuer %s does not answer: %w; try again", i.Issuer.Issuer, err)}
	}
	var got struct {
		Token       string `json:"id_token"`
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	err = json.Unmarshal(body, &got)
	switch {
	case status == http.StatusOK && err == nil && got.Token != "":
		return got.Token, nil
	case got.Error == "invalid_grant":
		return "", access.Unauthenticated(access.ReasonUnknown,
			"the issuer %s refused the code of this login: it was used before, or is too old; sign in again", i.Issuer.Issuer)
	case got.Error != "":
		i.keys.log.Error(
			"an issuer refuses to complete logins; compare client_id, client_secret_file and the redirect URL with what is registered there",
			"issuer", i.Issuer.Issuer, "error", rouse.Shorten(got.Error, 128), "description",
			rouse.Shorten(got.Description, 256), "redirect", i.callbackURL())
		return "",
			&access.IssuerError{Err: fmt.Errorf(
				"the issuer %s refused to complete the login: %s; the log of the server has more", i.Issuer.Issuer,
				rouse.Shorten(got.Error, 128))}
	}
	return "",
		&access.IssuerError{Err: fmt.Errorf(
			"the issuer %s answered %d and no ID token; is openid among the scopes of the client?", i.Issuer.Issuer, status)}
}

// readClientSecret reads the client secret.
func (i *issuer) readClientSecret() (string, error) {
	name := i.Login.Secret
	refuse := func(wrong, cure string) (string, error) {
		return "", rouse.Refuse("client_secret_file", name, wrong, cure)
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse("does not exist", "write the client secret that the issuer shows into it")
	case err != nil:
		return "", err
	case info.Mode().Perm()&0o007 != 0:
		return refuse("can be read by every user of the machine", "run chmod 600 "+name)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" || len(secret) > 4096 {
		return refuse("has no secret", "write the client secret that the issuer shows into it")
	}
	return secret, nil
}
