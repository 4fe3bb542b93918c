package token

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/access/rules"
	"github.com/rousehq/rouse/internal/poll"
)

// served is an issuer that answers with texts, by path. %s in them is its URL.
func served(t *testing.T, texts map[string]string, secure bool) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := texts[r.URL.Path]
		if status, rest, is := strings.Cut(text, "|"); is {
			var code int
			_, _ = fmt.Sscan(status, &code)
			w.Header().Set("Location", s.URL+"/keys")
			w.WriteHeader(code)
			text = rest
		} else if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(strings.ReplaceAll(text, "%s", s.URL)))
	})
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// authorityOf writes the certificate of a server into a file.
func authorityOf(t *testing.T, s *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const discovered = `{"issuer":"%s","jwks_uri":"%s/keys","authorization_endpoint":"%s/authorize","token_endpoint":"%s/token"}`

// TestIssuersThatAreNotBelieved: an issuer that tells something else than it should gives no keys.
func TestIssuersThatAreNotBelieved(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	one, err := jose.JSONWebKey{Key: key.Public(), KeyID: "k"}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	keys := func(list ...string) string { return `{"keys":[` + strings.Join(list, ",") + `]}` }
	good := keys(string(one))
	login := func(i *rules.Issuer) { i.Login = &rules.Login{URL: "https://rouse.example.com", ClientID: "c"} }
	for name, c := range map[string]struct {
		document, keys string
		secure         bool
		edit           func(*rules.Issuer)
		want           string // of the error; "": there is none
	}{
		"as it should be":              {discovered, good, false, nil, ""},
		"with TLS":                     {discovered, good, true, nil, ""},
		"keys of its own URL":          {"404|", good, false, func(i *rules.Issuer) { i.Keys = i.Issuer + "/keys" }, ""},
		"people sign in":               {discovered, good, false, login, ""},
		"another issuer":               {`{"issuer":"https://evil.example","jwks_uri":"%s/keys"}`, good, false, nil, "is of the issuer"},
		"a slash more":                 {`{"issuer":"%s/","jwks_uri":"%s/keys"}`, good, false, nil, "is of the issuer"},
		"keys without TLS":             {`{"issuer":"%s","jwks_uri":"http://127.0.0.1:1/keys"}`, good, true, nil, "is no https:// URL"},
		"codes are taken without TLS":  {`{"issuer":"%s","jwks_uri":"%s/keys","token_endpoint":"http://127.0.0.1:1/"}`, good, true, nil, "is no https:// URL"},
		"nowhere to sign in":           {`{"issuer":"%s","jwks_uri":"%s/keys","token_endpoint":"%s/token"}`, good, false, login, "has no authorization_endpoint"},
		"nowhere to bring codes":       {`{"issuer":"%s","jwks_uri":"%s/keys","authorization_endpoint":"%s/authorize"}`, good, false, login, "has no authorization_endpoint or no token_endpoint"},
		"no document":                  {"404|" + discovered, good, false, nil, "answers 404"},
		"it sends elsewhere":           {"302|" + discovered, good, false, nil, "answers 302"},
		"an authority that is not its": {discovered, good, true, func(i *rules.Issuer) { i.CA = "" }, "certificate"},
		"no keys":                      {discovered, "500|" + good, false, nil, "answers 500"},
		"keys in other words":          {discovered, "[]", false, nil, "unmarshal"},
		"too many keys":                {discovered, keys(strings.Split(strings.Repeat(string(one)+"\n", maxKeys+1), "\n")[:maxKeys+1]...), false, nil, "more than 100"},
		"too much":                     {discovered, good + strings.Repeat(" ", maxDocument), false, nil, "more than"},
		"a key without an exponent":    {discovered, keys(`{"kty":"RSA","kid":"k","n":"` + strings.Repeat("A", 100) + strings.Repeat("_", 342) + `","e":"AA"}`), false, nil, "no public key"},
		"a point off the curve":        {discovered, keys(strings.Replace(string(one), `"y":"`, `"y":"AAAA`, 1)), false, nil, "no public key"},
	} {
		s := served(t, map[string]string{"/.well-known/openid-configuration": c.document, "/keys": c.keys}, c.secure)
		i := rules.Issuer{Issuer: s.URL, Audience: "rouse", Rules: []rules.Claim{{Claim: "sub", Value: "*", Grant: rules.Grant{Role: "reader", Namespaces: []string{"*"}}}}}
		if c.secure {
			i.CA = authorityOf(t, s)
		}
		if c.edit != nil {
			c.edit(&i)
		}
		a, err := New([]rules.Issuer{i}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(name, err)
		}
		of := a.issuers[s.URL]
		err = of.keys.refreshKeys(t.Context(), 0)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || (len(of.keys.set) == 1) != (c.want == "") {
			t.Errorf("%s: %v, %d keys; want %q", name, err, len(of.keys.set), c.want)
		}
	}
}

// TestKubernetesTokens: an API server with its own authority shows its keys to those only who have a token,
// at an address that is not the issuer, and issues tokens for service accounts.
func TestKubernetesTokens(t *testing.T) {
	p := newProvider(t)
	pod := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(pod, []byte("of-the-pod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.rsa.Public(), KeyID: "r1", Algorithm: "RS256", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer of-the-pod":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path != "/openid/v1/jwks":
			w.WriteHeader(http.StatusNotFound)
		case !strings.Contains(r.Header.Get("Accept"), "application/jwk-set+json"):
			w.WriteHeader(http.StatusNotAcceptable)
		default:
			_, _ = w.Write(keys)
		}
	}))
	defer server.Close()
	const issuer = "https://kubernetes.default.svc.cluster.local"
	a, err := New([]rules.Issuer{{Issuer: issuer, Audience: "rouse", Keys: server.URL + "/openid/v1/jwks", CA: authorityOf(t, server), Token: pod,
		Rules: []rules.Claim{{Claim: "sub", Value: "system:serviceaccount:shop:orders", Grant: rules.Grant{Role: "writer", Namespaces: []string{"shop"}}}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Unix()
	claims := func(subject string, audience ...string) object {
		return object{"iss": issuer, "aud": audience, "exp": now + 3600, "iat": now, "nbf": now, "jti": "5c", "sub": subject, "kubernetes.io": object{"namespace": "shop",
			"node": object{"name": "n"}, "pod": object{"name": "orders-0", "uid": "1"}, "serviceaccount": object{"name": "orders", "uid": "2"}, "warnafter": now + 3607}}
	}
	header := object{"alg": "RS256", "kid": "r1"} // without typ, as Kubernetes makes them
	got, err := ask(t, a, p.token(header, claims("system:serviceaccount:shop:orders", "rouse"), p.rsa))
	if err != nil || got.ID != "token:"+issuer+"#system:serviceaccount:shop:orders" || len(got.Grants) != 1 || got.Grants[0].Role != "writer" {
		t.Errorf("%+v, %v", got, err)
	}
	for name, c := range map[string]object{
		"another account":    claims("system:serviceaccount:shop:other", "rouse"),
		"another namespace":  claims("system:serviceaccount:evil:orders", "rouse"),
		"for the API server": claims("system:serviceaccount:shop:orders", issuer),
	} {
		if got, err := ask(t, a, p.token(header, c, p.rsa)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if err := os.WriteFile(pod, []byte("an old one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.issuers[issuer].keys.refreshKeys(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("keys without a token that the API server takes: %v", err)
	}
	if err := os.Remove(pod); err != nil {
		t.Fatal(err)
	}
	if err := a.issuers[issuer].keys.refreshKeys(t.Context(), 0); err == nil {
		t.Error("keys without a file of a token")
	}
}

// TestUnknownKeysHoldNothingUp: callers whose tokens name keys that the issuer does not have wait for a
// fetch, but not many of them at a time, and those with known keys do not wait.
func TestUnknownKeysHoldNothingUp(t *testing.T) {
	p := newProvider(t)
	a := p.authenticator(t, nil)
	good := p.token(object{"alg": "RS256", "kid": "r1"}, p.claimsOf(nil), p.rsa)
	if _, err := ask(t, a, good); err != nil {
		t.Fatal(err)
	}
	k := a.issuers[p.URL].keys
	k.fetches <- struct{}{} // a fetch that goes on
	var asking sync.WaitGroup
	stranger := func(n int) string {
		return p.token(object{"alg": "RS256", "kid": fmt.Sprint("unknown", n)}, p.claimsOf(nil), p.rsa)
	}
	for n := range maxWaiting {
		asking.Go(func() { _, _ = ask(t, a, stranger(n)) })
	}
	poll.Until(t, "they wait", func() bool { return len(k.waiting) == maxWaiting })
	for n := range 10 { // they do not
		if _, err := ask(t, a, stranger(maxWaiting+n)); err == nil {
			t.Error("a token with an unknown key is taken")
		}
	}
	if _, err := ask(t, a, p.token(object{"alg": "RS256", "kid": "r1"}, p.claimsOf(object{"jti": "another"}), p.rsa)); err != nil {
		t.Errorf("a token with a known key: %v", err)
	}
	<-k.fetches
	asking.Wait()
	if len(k.waiting) != 0 {
		t.Errorf("%d are counted as waiting", len(k.waiting))
	}
}

// TestKeysThatStay: keys that are fetched again and are the same make no token be verified again; another one
// in the place of one does.
func TestKeysThatStay(t *testing.T) {
	p := newProvider(t)
	a := p.authenticator(t, nil)
	i := a.issuers[p.URL]
	if _, err := ask(t, a, p.token(object{"alg": "RS256", "kid": "r1"}, p.claimsOf(nil), p.rsa)); err != nil {
		t.Fatal(err)
	}
	refresh := func() {
		t.Helper()
		if err := i.keys.refreshKeys(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	before := i.keys.keyGeneration()
	if refresh(); i.keys.keyGeneration() != before || len(a.known) != 1 {
		t.Error("the same keys count as others")
	}
	p.mu.Lock()
	p.keys[0].KeyID = "r2"
	p.mu.Unlock()
	if refresh(); i.keys.keyGeneration() == before || len(a.known) != 0 {
		t.Error("other keys count as the same")
	}
	p.mu.Lock()
	p.keys = []jose.JSONWebKey{{Key: p.rsa.Public(), KeyID: "a"}, {Key: newProvider(t).rsa.Public(), KeyID: "b"}}
	p.mu.Unlock()
	refresh()
	if _, err := ask(t, a, p.token(object{"alg": "RS256"}, p.claimsOf(nil), p.rsa)); err == nil || !strings.Contains(err.Error(), "several keys") {
		t.Errorf("a token that names none of two keys: %v", err)
	}
}

// TestKeysBeforeTheFirstFetch: what a caller is told while an issuer has not answered.
func TestKeysBeforeTheFirstFetch(t *testing.T) {
	p := newProvider(t)
	p.down = true
	a := p.authenticator(t, func(i *rules.Issuer) { i.Login = &rules.Login{URL: "https://rouse.example.com", ClientID: "c"} })
	token := p.token(object{"alg": "RS256", "kid": "r1"}, p.claimsOf(nil), p.rsa)
	if _, err := ask(t, a, token); err == nil || !strings.Contains(err.Error(), "cannot be fetched: ") {
		t.Errorf("an issuer that is away: %v", err)
	}
	if _, err := a.issuers[p.URL].Begin(t.Context(), &access.Attempt{}); !errors.As(err, new(*access.IssuerError)) {
		t.Errorf("a login at an issuer that is away: %v", err)
	}
	if at := a.issuers[p.URL].SignOut(); at != "" {
		t.Errorf("signing out at an issuer that is away: %s", at)
	}
}

// TestAnswersOfIssuers: what is made of the answers of an issuer to a login.
func TestAnswersOfIssuers(t *testing.T) {
	p := newProvider(t)
	other := newProvider(t)
	const nonce, client = "n0nce", "rouse-console"
	id := func(changes object) string {
		c := p.claimsOf(object{"aud": client, "nonce": nonce})
		for k, v := range changes {
			if c[k] = v; v == nil {
				delete(c, k)
			}
		}
		return p.token(object{"alg": "RS256", "kid": "r1"}, c, p.rsa)
	}
	good := &access.Answer{Code: "code"}
	reply := func(token string) string {
		text, _ := json.Marshal(object{"id_token": token})
		return string(text)
	}
	for name, c := range map[string]struct {
		named  bool
		answer *access.Answer
		token  string
		want   string // of the error; "": the person has signed in
	}{
		"as it should be":        {false, good, reply(id(nil)), ""},
		"named":                  {true, &access.Answer{Code: "code", Issuer: p.URL}, reply(id(nil)), ""},
		"named needlessly":       {false, &access.Answer{Code: "code", Issuer: p.URL}, reply(id(nil)), ""},
		"not named":              {true, good, reply(id(nil)), "the login began at"},
		"another one":            {false, &access.Answer{Code: "code", Issuer: other.URL}, reply(id(nil)), "the login began at"},
		"of this client":         {false, good, reply(id(object{"azp": client, "aud": []string{client, "other"}})), ""},
		"two parts":              {false, good, reply("a.b"), "is none"},
		"long":                   {false, good, reply(id(object{"more": strings.Repeat("x", maxIDToken)})), "is none"},
		"invalid_client":         {false, good, `401|{"error":"invalid_client"}`, "refused to complete the login: invalid_client"},
		"an error with 200":      {false, good, `200|{"error":"invalid_client"}`, "refused to complete the login: invalid_client"},
		"no JSON":                {false, good, "<html>", "answered 200 and no ID token"},
		"a status":               {false, good, "500|" + reply(id(nil)), "answered 500"},
		"no token":               {false, good, "{}", "no ID token"},
		"not valid yet for ever": {false, good, reply(id(object{"nbf": 1e300})), "not valid yet"},
	} {
		texts := map[string]string{"/token": c.token}
		server := served(t, texts, false)
		a := p.authenticator(t, func(i *rules.Issuer) {
			i.Audience, i.Login = "", &rules.Login{URL: "https://rouse.example.com", ClientID: client}
		})
		i := a.issuers[p.URL]
		if err := i.keys.refreshKeys(t.Context(), 0); err == nil { // its document has no endpoints
			t.Fatal("an issuer without endpoints")
		}
		keys, err := i.keys.fetchSet(t.Context(), p.URL+"/keys")
		if err != nil {
			t.Fatal(err)
		}
		i.keys.set, i.keys.found = keys, &discovery{Issuer: p.URL, Token: server.URL + "/token", Authorize: p.URL, Named: c.named}
		l, err := i.Finish(t.Context(), &access.Attempt{Nonce: nonce}, c.answer)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || err == nil && (l.Subject != "alice" || l.Issuer != p.URL) {
			t.Errorf("%s: %+v, %v; want %q", name, l, err, c.want)
		}
		if c.want != "" {
			continue
		}
		if _, err := a.Authenticate(t.Context(), &access.Credentials{Login: l}); err != nil {
			t.Errorf("%s: the session: %v", name, err)
		}
		elsewhere := *l
		elsewhere.Issuer = "https://gone.example"
		none := p.authenticator(t, nil) // the same issuer, where people do not sign in any more
		for who, at := range map[*access.Login]*Authenticator{&elsewhere: a, l: none} {
			if _, err := at.Authenticate(t.Context(), &access.Credentials{Login: who}); err == nil || !strings.Contains(err.Error(), "people do not sign in") {
				t.Errorf("%s: a session of an issuer that is none any more: %v", name, err)
			}
		}
		// Its ID token is no credential of calls, whatever the audience.
		for _, audience := range []any{client, "", []string{""}} {
			if _, err := ask(t, a, id(object{"aud": audience})); err == nil || !strings.Contains(err.Error(), "for signing in only") {
				t.Errorf("%s: an ID token in a call: %v", name, err)
			}
		}
	}
	i := p.authenticator(t, func(i *rules.Issuer) { i.Login = &rules.Login{URL: "https://rouse.example.com", ClientID: client} }).issuers[p.URL]
	i.keys.found = &discovery{Authorize: "https://[::1", End: "https://[::1"}
	if _, err := i.Begin(t.Context(), &access.Attempt{}); !errors.As(err, new(*access.IssuerError)) {
		t.Errorf("a URL that is none: %v", err)
	}
	if at := i.SignOut(); at != "" {
		t.Errorf("a logout at a URL that is none: %s", at)
	}
}

// TestClientSecretsThatAreRefused: before the node starts.
func TestClientSecretsThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"good":    {"secret\n", 0o600, ""},
		"missing": {"", 0, "does not exist"},
		"open":    {"secret", 0o604, "can be read by every user"},
		"empty":   {" \n", 0o600, "has no secret"},
		"long":    {strings.Repeat("x", 4097), 0o600, "has no secret"},
	} {
		file := filepath.Join(dir, name)
		if c.mode != 0 {
			if err := os.WriteFile(file, []byte(c.text), c.mode); err != nil {
				t.Fatal(err)
			}
		}
		_, err := New([]rules.Issuer{{Issuer: "https://login.example.com", Login: &rules.Login{Secret: file}}}, nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
