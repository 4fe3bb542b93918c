// Package issuer is an issuer of OpenID Connect for tests: a real server with keys, a page where people sign
// in, codes that are good once, PKCE and client secrets. A test can make it misbehave.
package issuer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// The client that the issuer knows.
const (
	ClientID = "rouse-console"
	Secret   = "a secret: with %?+ in it"
)

// Issuer is an issuer.
type Issuer struct {
	*httptest.Server
	Key *ecdsa.PrivateKey

	mu       sync.Mutex
	codes    map[string]grant
	people   map[string]map[string]any
	edit     func(claims map[string]any)
	sign     func(claims map[string]any) string
	answer   func(q url.Values)
	signOuts int
}

// grant holds the parameters that a code was issued for.
type grant struct{ subject, nonce, challenge, redirect string }

// New starts an issuer that knows alice, with the group on-call, and bob, without any.
func New(t testing.TB) *Issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &Issuer{Key: key, codes: map[string]grant{}, people: map[string]map[string]any{
		"alice": {"email": "alice@example.com", "groups": []string{"everyone", "on-call"}},
		"bob":   {"email": "bob@example.com"}}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.serveDiscovery)
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		replyWithJSON(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k"}}})
	})
	mux.HandleFunc("GET /authorize", signInPage)
	mux.HandleFunc("POST /authorize", i.serveAuthorize)
	mux.HandleFunc("POST /token", i.serveToken)
	mux.HandleFunc("GET /logout", i.serveLogout)
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

// SecretFile writes the client secret into a file.
func (i *Issuer) SecretFile(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(Secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Public gives the issuer another URL that leads to it.
func (i *Issuer) Public(url string) { i.URL = url }

// Misbehave changes the issuer's claims, the signatures of its tokens, and the answers that browsers bring. A
// nil function changes nothing.
func (i *Issuer) Misbehave(edit func(claims map[string]any), sign func(claims map[string]any) string,
	answer func(q url.Values)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.edit, i.sign, i.answer = edit, sign, answer
}

// SignOuts returns how many people have signed out.
func (i *Issuer) SignOuts() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.signOuts
}

// SignIn signs in a person at a URL to which rouse has sent a browser, and returns where the issuer sends the
// browser then.
func (i *Issuer) SignIn(t testing.TB, at, subject string) string {
	t.Helper()
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := c.PostForm(at, url.Values{"subject": {subject}})
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusSeeOther {
		t.Fatalf("the issuer answers %s", answer.Status)
	}
	return answer.Header.Get("Location")
}

func (i *Issuer) serveDiscovery(w http.ResponseWriter, _ *http.Request) {
	replyWithJSON(w, http.StatusOK, map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys",
		"authorization_endpoint": i.URL + "/authorize?tenant=x",
		"token_endpoint":         i.URL + "/token", "end_session_endpoint": i.URL + "/logout",
		"authorization_response_iss_parameter_supported": true})
}

// signInPage asks who signs in.
func signInPage(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, `<!doctype html><title>Issuer</title><h1>Who are you?</h1><form method="post" action="%s">
<button name="subject" value="alice">alice</button> <button name="subject" value="bob">bob</button></form>`, html.EscapeString(r.URL.String()))
}

// serveAuthorize makes a code for who signs in.
func (i *Issuer) serveAuthorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("tenant") != "x" || q.Get("response_type") != "code" || q.Get("client_id") != ClientID ||
		q.Get("code_challenge_method") != "S256" || q.Get("nonce") == "" {
		http.Error(w, "not as it should be: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	back := url.Values{"state": {q.Get("state")}, "iss": {i.URL}, "session_state": {"of the issuer"}}
	i.mu.Lock()
	if subject := r.PostFormValue("subject"); i.people[subject] == nil {
		back.Set("error", "access_denied")
		back.Set("error_description", "<b>"+subject+"</b> is not known")
	} else {
		code := rand.Text()
		i.codes[code] = grant{subject, q.Get("nonce"), q.Get("code_challenge"), q.Get("redirect_uri")}
		back.Set("code", code)
	}
	if i.answer != nil {
		i.answer(back)
	}
	i.mu.Unlock()
	w.Header().Set("Location", q.Get("redirect_uri")+"?"+back.Encode())
	w.WriteHeader(http.StatusSeeOther)
}

// serveToken exchanges a code.
func (i *Issuer) serveToken(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, code string) { replyWithJSON(w, status, map[string]string{"error": code}) }
	id, secret, _ := r.BasicAuth()
	if id, _ = url.QueryUnescape(id); id != ClientID {
		refuse(http.StatusUnauthorized, "invalid_client")
		return
	}
	if secret, _ = url.QueryUnescape(secret); secret != Secret {
		refuse(http.StatusUnauthorized, "invalid_client")
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	g, ok := i.codes[r.PostFormValue("code")]
	delete(i.codes, r.PostFormValue("code"))
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || g.redirect != r.PostFormValue("redirect_uri") ||
		g.challenge != base64.RawURLEncoding.EncodeToString(challenge[:]) {
		refuse(http.StatusBadRequest, "invalid_grant")
		return
	}
	now := time.Now().Unix()
	claims := map[string]any{"iss": i.URL, "sub": g.subject, "aud": ClientID, "nonce": g.nonce, "iat": now,
		"exp": now + 3600}
	maps.Copy(claims, i.people[g.subject])
	if i.edit != nil {
		i.edit(claims)
	}
	sign := i.Sign
	if i.sign != nil {
		sign = i.sign
	}
	replyWithJSON(w, http.StatusOK, map[string]any{"id_token": sign(claims), "access_token": rand.Text(),
		"token_type": "Bearer", "expires_in": 3600})
}

// Sign returns a token with claims.
func (i *Issuer) Sign(claims map[string]any) string { return i.SignAs(claims, "JWT") }

// SignAs returns a token of another type.
func (i *Issuer) SignAs(claims map[string]any, kind jose.ContentType) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.Key, KeyID: "k"}},
		(&jose.SignerOptions{}).WithType(kind))
	if err != nil {
		panic(err)
	}
	body, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	signed, err := signer.Sign(body)
	if err != nil {
		panic(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return text
}

// serveLogout ends the session of a person.
func (i *Issuer) serveLogout(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.signOuts++
	i.mu.Unlock()
	http.Redirect(w, r, r.URL.Query().Get("post_logout_redirect_uri"), http.StatusSeeOther)
}

func replyWithJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error is of a client that is gone
}
