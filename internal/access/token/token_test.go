package token

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/access/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// provider is an issuer of tokens.
type provider struct {
	*httptest.Server
	rsa   *rsa.PrivateKey
	ec    *ecdsa.PrivateKey
	ed    ed25519.PrivateKey
	mu    sync.Mutex
	keys  []jose.JSONWebKey
	asked int
	down  bool
}

// rsaKeys are those of providers, as making them takes long. Two providers, one after the other, have
// different ones.
var rsaKeys = sync.OnceValue(func() (list [2]*rsa.PrivateKey) {
	for i := range list {
		var err error
		if list[i], err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			panic(err)
		}
	}
	return list
})

var providers atomic.Int32

func newProvider(t testing.TB) *provider {
	t.Helper()
	p := &provider{rsa: rsaKeys()[providers.Add(1)%2]}
	var err error
	if p.ec, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	if _, p.ed, err = ed25519.GenerateKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
	p.keys = []jose.JSONWebKey{{Key: p.rsa.Public(), KeyID: "r1", Algorithm: "RS256", Use: "sig"}, {Key: p.ec.Public(), KeyID: "e1"}}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.down:
		http.Error(w, "down", http.StatusInternalServerError)
	case r.URL.Path == "/.well-known/openid-configuration":
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"response_types_supported":[]}`, p.URL, p.URL+"/keys")
	default:
		p.asked++
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: p.keys})
	}
}

func (p *provider) authenticator(t testing.TB, edit func(*rules.Issuer)) *Authenticator {
	t.Helper()
	i := rules.Issuer{Issuer: p.URL, Audience: "rouse", Algorithms: []string{"RS256", "ES256"}, Rules: []rules.Claim{
		{Claim: "groups", Value: "ops", Grant: rules.Grant{Role: "operator", Namespaces: []string{"*"}}},
		{Claim: "sub", Value: "system:serviceaccount:shop:*", Grant: rules.Grant{Role: "writer", Namespaces: []string{"shop"}}},
		{Claim: "kind", Value: "tenant", Grant: rules.Grant{Role: "reader"}, NamespacesFrom: "tenants"},
	}}
	if edit != nil {
		edit(&i)
	}
	if ps := (&rules.Config{Issuers: []rules.Issuer{i}}).Check(); ps != nil {
		t.Fatal(ps)
	}
	a, err := New([]rules.Issuer{i}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

type object = map[string]any

// claimsOf returns good claims, with changes; nil removes one.
func (p *provider) claimsOf(changes object) object {
	now := time.Now().Unix()
	c := object{"iss": p.URL, "sub": "alice", "aud": "rouse", "exp": now + 600, "iat": now, "groups": []string{"dev", "ops"}}
	for k, v := range changes {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

func part(v any) string {
	text, ok := v.(string)
	if !ok {
		body, _ := json.Marshal(v)
		text = string(body)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// token makes a token from its parts: texts are taken as they are.
func (p *provider) token(header, body any, key crypto.PrivateKey) string {
	text := part(header) + "." + part(body)
	sum := sha256.Sum256([]byte(text))
	var signature []byte
	switch k := key.(type) {
	case *rsa.PrivateKey:
		signature, _ = rsa.SignPKCS1v15(rand.Reader, k, crypto.SHA256, sum[:])
	case *ecdsa.PrivateKey:
		r, s, _ := ecdsa.Sign(rand.Reader, k, sum[:])
		signature = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	case ed25519.PrivateKey:
		signature = ed25519.Sign(k, []byte(text))
	case []byte:
		h := hmac.New(sha256.New, k)
		h.Write([]byte(text))
		signature = h.Sum(nil)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func ask(t testing.TB, a *Authenticator, token string) (*access.Principal, error) {
	return a.Authenticate(t.Context(), &access.Credentials{Bearer: token})
}

// TestTokensAreTaken: signed by the issuer, for this audience, in time.
func TestTokensAreTaken(t *testing.T) {
	p := newProvider(t)
	a := p.authenticator(t, nil)
	rs := object{"alg": "RS256", "kid": "r1", "typ": "JWT"}
	now := time.Now().Unix()
	for name, c := range map[string]struct {
		token string
		want  string
	}{
		"RSA":                {p.token(rs, p.claimsOf(nil), p.rsa), "operator namespaces *"},
		"ECDSA":              {p.token(object{"alg": "ES256", "kid": "e1"}, p.claimsOf(nil), p.ec), "operator namespaces *"},
		"without a key id":   {p.token(object{"alg": "ES256"}, p.claimsOf(nil), p.ec), "operator namespaces *"},
		"several audiences":  {p.token(rs, p.claimsOf(object{"aud": []string{"other", "rouse"}}), p.rsa), "operator namespaces *"},
		"a service account":  {p.token(rs, p.claimsOf(object{"sub": "system:serviceaccount:shop:web", "groups": nil}), p.rsa), "writer namespaces shop"},
		"a tenant":           {p.token(rs, p.claimsOf(object{"kind": "tenant", "tenants": []string{"a", "*", "a*", "-", "b"}, "groups": "x"}), p.rsa), "reader namespaces a, b"},
		"just expired":       {p.token(rs, p.claimsOf(object{"exp": now - 10}), p.rsa), "operator namespaces *"},
		"nearly valid":       {p.token(rs, p.claimsOf(object{"nbf": now + 10, "iat": now + 10}), p.rsa), "operator namespaces *"},
		"an access token":    {p.token(object{"alg": "RS256", "kid": "r1", "typ": "at+JWT"}, p.claimsOf(nil), p.rsa), "operator namespaces *"},
		"a time with digits": {p.token(rs, p.claimsOf(object{"exp": float64(now) + 60.5}), p.rsa), "operator namespaces *"},
	} {
		got, err := ask(t, a, c.token)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var grants []string
		for _, g := range got.Grants {
			grants = append(grants, g.Role+" "+g.Scope.String())
		}
		if text := strings.Join(grants, "; "); text != c.want || got.Source != "token" || !strings.HasPrefix(got.ID, "token:"+p.URL+"#") || got.Expires.IsZero() {
			t.Errorf("%s: %s, %+v", name, text, got)
		}
		again, err := ask(t, a, c.token)
		if err != nil || again != got {
			t.Errorf("%s: it is verified again: %v", name, err)
		}
	}
	for _, other := range []string{"", "rk_abc", "a.b", "a.b.c", "ey.a", "ey.a.b.c"} {
		if got, err := ask(t, a, other); got != nil || err != nil {
			t.Errorf("%q is taken for a token: %v, %v", other, got, err)
		}
	}
}

// TestTokensAreRefused: whatever is wrong with a token, it is refused, and the error does not contain it.
func TestTokensAreRefused(t *testing.T) {
	p := newProvider(t)
	a := p.authenticator(t, nil)
	other := newProvider(t)
	now := time.Now().Unix()
	rs, good := object{"alg": "RS256", "kid": "r1"}, p.claimsOf(nil)
	der, err := x509.MarshalPKIXPublicKey(p.rsa.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	valid := p.token(rs, good, p.rsa)
	parts := strings.Split(valid, ".")
	own, _ := jose.JSONWebKey{Key: other.rsa.Public(), KeyID: "r1"}.MarshalJSON()
	text, _ := json.Marshal(good)
	signed := func(changes object) string { return p.token(rs, p.claimsOf(changes), p.rsa) }
	for name, c := range map[string]struct {
		token  string
		reason access.Reason
	}{
		"alg none":                      {p.token(object{"alg": "none"}, good, nil), access.ReasonMalformed},
		"alg None":                      {p.token(object{"alg": "None", "kid": "r1"}, good, nil), access.ReasonMalformed},
		"alg none, with a signature":    {part(object{"alg": "none"}) + "." + parts[1] + "." + parts[2], access.ReasonMalformed},
		"no alg":                        {p.token(object{"kid": "r1"}, good, p.rsa), access.ReasonMalformed},
		"HS256 with the public key":     {p.token(object{"alg": "HS256", "kid": "r1"}, good, public), access.ReasonMalformed},
		"HS256 with the DER":            {p.token(object{"alg": "HS256", "kid": "r1"}, good, der), access.ReasonMalformed},
		"HS256 with an empty key":       {p.token(object{"alg": "HS256"}, good, []byte{}), access.ReasonMalformed},
		"an algorithm not in the list":  {p.token(object{"alg": "EdDSA"}, good, p.ed), access.ReasonMalformed},
		"another algorithm for the key": {p.token(object{"alg": "ES256", "kid": "r1"}, good, p.ec), access.ReasonUnknown},
		"lower case":                    {p.token(object{"alg": "rs256", "kid": "r1"}, good, p.rsa), access.ReasonMalformed},
		"no signature":                  {parts[0] + "." + parts[1] + ".", access.ReasonUnknown},
		"another key":                   {p.token(rs, good, other.rsa), access.ReasonUnknown},
		"other claims":                  {parts[0] + "." + part(p.claimsOf(object{"sub": "root"})) + "." + parts[2], access.ReasonUnknown},
		"a bit of the signature":        {valid[:len(valid)-8] + flip(valid[len(valid)-8:]), access.ReasonUnknown},
		"padding":                       {valid + "==", access.ReasonMalformed},
		"a key in the header":           {p.token(`{"alg":"RS256","kid":"r1","jwk":`+string(own)+`}`, good, other.rsa), access.ReasonUnknown},
		"an address of keys":            {p.token(object{"alg": "RS256", "kid": "r1", "jku": other.URL + "/keys"}, good, other.rsa), access.ReasonUnknown},
		"an unknown key":                {p.token(object{"alg": "RS256", "kid": "r2"}, good, p.rsa), access.ReasonUnknown},
		"a path as a key id":            {p.token(object{"alg": "RS256", "kid": "../../../dev/null"}, good, p.rsa), access.ReasonUnknown},
		"SQL as a key id":               {p.token(object{"alg": "RS256", "kid": "r1' OR '1'='1"}, good, p.rsa), access.ReasonUnknown},
		"a long key id":                 {p.token(object{"alg": "RS256", "kid": strings.Repeat("k", 300)}, good, p.rsa), access.ReasonUnknown},
		"a number as a key id":          {p.token(`{"alg":"RS256","kid":1}`, good, p.rsa), access.ReasonMalformed},
		"two algs":                      {p.token(`{"alg":"none","alg":"RS256","kid":"r1"}`, good, p.rsa), access.ReasonMalformed},
		"a critical header":             {p.token(object{"alg": "RS256", "kid": "r1", "crit": []string{"b64"}, "b64": true}, good, p.rsa), access.ReasonMalformed},
		"an unknown critical header":    {p.token(object{"alg": "RS256", "kid": "r1", "crit": []string{"x"}, "x": 1}, good, p.rsa), access.ReasonMalformed},
		"another type":                  {p.token(object{"alg": "RS256", "kid": "r1", "typ": "logout+jwt"}, good, p.rsa), access.ReasonMalformed},
		"no claims":                     {p.token(rs, "", p.rsa), access.ReasonMalformed},
		"a list":                        {p.token(rs, "[]", p.rsa), access.ReasonMalformed},
		"a claim twice":                 {p.token(rs, strings.Replace(string(text), `"sub":"alice"`, `"sub":"alice","sub":"root"`, 1), p.rsa), access.ReasonMalformed},
		"an issuer twice":               {p.token(rs, strings.Replace(string(text), `"iss":`, `"iss":"https://evil.example","iss":`, 1), p.rsa), access.ReasonMalformed},
		"no issuer":                     {signed(object{"iss": nil}), access.ReasonUnknown},
		"another issuer":                {signed(object{"iss": "https://evil.example"}), access.ReasonUnknown},
		"an issuer with a slash":        {signed(object{"iss": p.URL + "/"}), access.ReasonUnknown},
		"no audience":                   {signed(object{"aud": nil}), access.ReasonUnknown},
		"another audience":              {signed(object{"aud": "other"}), access.ReasonUnknown},
		"a part of the audience":        {signed(object{"aud": []string{"rous", "rousee"}}), access.ReasonUnknown},
		"a number as the audience":      {signed(object{"aud": 1}), access.ReasonMalformed},
		"no expiry":                     {signed(object{"exp": nil}), access.ReasonMalformed},
		"expired":                       {signed(object{"exp": now - 60}), access.ReasonExpired},
		"an expiry of text":             {signed(object{"exp": fmt.Sprint(now + 600)}), access.ReasonMalformed},
		"an expiry without an end":      {signed(object{"exp": 1e300}), access.ReasonMalformed},
		"a negative expiry":             {signed(object{"exp": -1}), access.ReasonMalformed},
		"not valid yet":                 {signed(object{"nbf": now + 60}), access.ReasonExpired},
		"issued in the future":          {signed(object{"iat": now + 60}), access.ReasonExpired},
		"not valid before the end":      {signed(object{"nbf": 1e300}), access.ReasonExpired},
		"valid before the beginning":    {signed(object{"nbf": -1}), access.ReasonExpired},
		"issued before the beginning":   {signed(object{"iat": -1}), access.ReasonExpired},
		"a long subject":                {signed(object{"sub": strings.Repeat("x", 1025)}), access.ReasonMalformed},
		"no subject":                    {signed(object{"sub": nil}), access.ReasonMalformed},
		"no rule":                       {signed(object{"groups": []string{"op", "opss", "OPS"}}), access.ReasonUnknown},
		"groups in one text":            {signed(object{"groups": "dev ops"}), access.ReasonUnknown},
		"a group in an object":          {signed(object{"groups": object{"ops": true}}), access.ReasonUnknown},
		"a tenant that is a pattern":    {signed(object{"groups": nil, "kind": "tenant", "tenants": "*"}), access.ReasonUnknown},
		"too long":                      {signed(object{"more": strings.Repeat("x", maxToken)}), access.ReasonMalformed},
	} {
		got, err := ask(t, a, c.token)
		var refused *access.Refusal
		if got != nil || !errors.As(err, &refused) || !errors.Is(err, rouse.ErrUnauthenticated) {
			t.Errorf("%s: %v, %v", name, got, err)
			continue
		}
		if refused.Reason != c.reason {
			t.Errorf("%s: refused as %s, not %s: %v", name, refused.Reason, c.reason, err)
		}
		if len(parts[2]) > 0 && strings.Contains(err.Error(), parts[2]) || len(err.Error()) > 600 {
			t.Errorf("%s: the error has the token: %v", name, err)
		}
	}
	if p.mu.Lock(); p.asked > 2 {
		t.Errorf("unknown keys caused %d fetches", p.asked)
	}
	p.mu.Unlock()
}

func flip(s string) string {
	b := []byte(s)
	for i := range b {
		if b[0] = 'A' + byte(i); b[0] != s[0] {
			break
		}
	}
	return string(b)
}

// TestKeysRotate: a new key is fetched when a token names it, one that is withdrawn is no longer taken, and
// an issuer that is away changes nothing.
func TestKeysRotate(t *testing.T) {
	p := newProvider(t)
	a := p.authenticator(t, nil)
	i := a.issuers[p.URL]
	old := p.token(object{"alg": "RS256", "kid": "r1"}, p.claimsOf(nil), p.rsa)
	if _, err := ask(t, a, old); err != nil {
		t.Fatal(err)
	}
	next, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.keys = []jose.JSONWebKey{{Key: next.Public(), KeyID: "r2"}}
	p.mu.Unlock()
	fresh := p.token(object{"alg": "RS256", "kid": "r2"}, p.claimsOf(nil), next)
	if _, err := ask(t, a, fresh); err == nil {
		t.Error("the keys are fetched again at once: anyone could cause that")
	}
	i.keys.mu.Lock()
	i.keys.tried = time.Now().Add(-2 * fetchPause)
	i.keys.mu.Unlock()
	if _, err := ask(t, a, fresh); err != nil {
		t.Errorf("the new key: %v", err)
	}
	if _, err := ask(t, a, old); err == nil {
		t.Error("a token of a key that was withdrawn is still remembered")
	}
	p.mu.Lock()
	p.down = true
	p.mu.Unlock()
	if err := i.keys.refreshKeys(t.Context(), 0); err == nil {
		t.Error("the issuer is down, and keys are fetched")
	}
	if _, err := ask(t, a, fresh); err != nil {
		t.Errorf("while the issuer is down: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { a.Run(ctx) })
	cancel()
	running.Wait()
}

// TestKeysThatAreNotUsed: of what an issuer offers, only strong public keys of signatures count.
func TestKeysThatAreNotUsed(t *testing.T) {
	p := newProvider(t)
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Skip(err) // this Go does not make such keys
	}
	p.keys = []jose.JSONWebKey{{Key: weak.Public(), KeyID: "weak"}, {Key: p.rsa.Public(), KeyID: "enc", Use: "enc"}, {Key: []byte("secret"), KeyID: "shared"}, {Key: p.ec, KeyID: "private"}}
	a := p.authenticator(t, nil)
	for _, token := range []string{p.token(object{"alg": "RS256", "kid": "enc"}, p.claimsOf(nil), p.rsa), p.token(object{"alg": "ES256", "kid": "private"}, p.claimsOf(nil), p.ec),
		p.token(object{"alg": "RS256", "kid": "weak"}, p.claimsOf(nil), weak)} {
		if _, err := ask(t, a, token); err == nil || !strings.Contains(err.Error(), "no public key") {
			t.Errorf("%v", err)
		}
	}
}

func BenchmarkKnownToken(b *testing.B) {
	p := newProvider(b)
	a := p.authenticator(b, nil)
	c := &access.Credentials{Bearer: p.token(object{"alg": "ES256", "kid": "e1"}, p.claimsOf(nil), p.ec)}
	for b.Loop() {
		if _, err := a.Authenticate(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzToken: no token makes reading it panic, and none that the issuer did not sign is taken.
func FuzzToken(f *testing.F) {
	p := newProvider(f)
	a := p.authenticator(f, nil)
	valid := p.token(object{"alg": "ES256", "kid": "e1"}, p.claimsOf(nil), p.ec)
	parts := strings.Split(valid, ".")
	f.Add(parts[0], parts[1], parts[2])
	f.Add(part(object{"alg": "none"}), parts[1], "")
	f.Add(part(object{"alg": "HS256"}), part("{}"), "AAAA")
	f.Fuzz(func(t *testing.T, header, body, signature string) {
		got, err := ask(t, a, header+"."+body+"."+signature)
		if got != nil && (header != parts[0] || body != parts[1]) {
			t.Errorf("taken: %v", got)
		}
		if err != nil && !errors.Is(err, rouse.ErrUnauthenticated) {
			t.Error(err)
		}
	})
}
