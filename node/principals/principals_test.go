package principals_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/certs"
	"github.com/rousehq/rouse/node"
	_ "github.com/rousehq/rouse/node/api"
	"github.com/rousehq/rouse/test/issuer"
)

// TestCallersWithCertificatesAndTokens asks one node as callers who show a certificate, a token, both, or
// nothing.
func TestCallersWithCertificatesAndTokens(t *testing.T) {
	dir := t.TempDir()
	at := issuer.New(t)
	authority, err := certs.NewAuthority("test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	ca := write(t, dir, "ca.pem", string(authority.PEM()))
	serverCert, serverKey := issue(t, authority, dir, "server", certs.Request{Name: "server", Names: []string{"127.0.0.1"}, Server: true, NotAfter: time.Now().Add(time.Hour)})
	shopCert, shopKey := issue(t, authority, dir, "shop", certs.Request{Name: "shop", Names: []string{"shop.example.com"}, NotAfter: time.Now().Add(time.Hour)})
	otherCert, otherKey := issue(t, authority, dir, "other", certs.Request{Name: "other", Names: []string{"other.example.com"}, NotAfter: time.Now().Add(time.Hour)})
	file := write(t, dir, "principals.yaml", `
certificates:
  - {name: shop.example.com, role: writer, namespaces: [shop]}
  - {name: shop.example.com, role: admin, namespaces: ["*"]}
issuers:
  - issuer: `+at.URL+`
    audience: rouse
    algorithms: [ES256]
    rules:
      - {claim: sub, value: alice, role: reader, namespaces: [shop]}
`)
	n := run(t, node.WithAPI("127.0.0.1:0"), func(c *node.Config) {
		c.TLSCert, c.TLSKey, c.TLSClientCA, c.Principals = serverCert, serverKey, ca, file
	})
	as := func(o client.Options) *client.Client {
		t.Helper()
		o.CA, o.Patience = ca, 10*time.Second
		c, err := client.Dial(n.Addr(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	shop := as(client.Options{Cert: shopCert, Key: shopKey})
	if _, err := shop.Namespaces().Put(t.Context(), "shop", rouse.Quotas{}); err != nil {
		t.Fatalf("the certificate of an administrator: %v", err)
	}
	for _, c := range []struct {
		what   string
		as     client.Options
		id     string
		create error
	}{
		{"a certificate", client.Options{Cert: shopCert, Key: shopKey}, "certificate:shop.example.com", nil},
		{"a token", client.Options{Token: tokenOf(at, "alice", "rouse")}, "token:" + at.URL + "#alice", rouse.ErrForbidden},
		{"a token and a certificate", client.Options{Cert: shopCert, Key: shopKey, Token: tokenOf(at, "alice", "rouse")}, "token:" + at.URL + "#alice", rouse.ErrForbidden},
		{"nothing", client.Options{}, "", rouse.ErrUnauthenticated},
		{"a certificate without a rule", client.Options{Cert: otherCert, Key: otherKey}, "", rouse.ErrUnauthenticated},
		{"a token without a rule", client.Options{Token: tokenOf(at, "bob", "rouse")}, "", rouse.ErrUnauthenticated},
		{"a token for another service", client.Options{Token: tokenOf(at, "alice", "other")}, "", rouse.ErrUnauthenticated},
	} {
		one := as(c.as)
		who, err := one.Access().WhoAmI(t.Context())
		if who.ID != c.id || (err == nil) != (c.id != "") {
			t.Errorf("%s is %q, %v; want %q", c.what, who.ID, err, c.id)
		}
		_, err = one.Create(t.Context(), "shop", strings.ReplaceAll(c.what, " ", "-"), rouse.Spec{Schedule: "@every 1h", Target: "stream:x"})
		if !errors.Is(err, c.create) {
			t.Errorf("%s creates a timer: %v, want %v", c.what, err, c.create)
		}
	}
}

// TestFilesThatAreRefused has files of principals that mean nothing, and what the error names.
func TestFilesThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"":                "has no rules",
		"certificate: []": "unknown field",
		"issuers: [{}]":   "issuers[0].audience",
		"certificates: [{name: a.example.com, role: reader, namespaces: [a]}]": "tls-client-ca",
	} {
		file := write(t, dir, "p.yaml", text)
		_, err := node.Open(t.Context(), "mem:", node.WithAPI("127.0.0.1:0"), func(c *node.Config) { c.Principals = file })
		if !errors.As(err, new(*rouse.Invalid)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	_, err := node.Open(t.Context(), "mem:", node.WithAPI("127.0.0.1:0"), func(c *node.Config) { c.Principals = filepath.Join(dir, "none") })
	if !errors.As(err, new(*rouse.Invalid)) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func issue(t *testing.T, a *certs.Authority, dir, name string, r certs.Request) (cert, key string) {
	t.Helper()
	cert, key, err := a.Write(dir, name, r)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// tokenOf returns a token of an issuer.
func tokenOf(i *issuer.Issuer, subject, audience string) string {
	now := time.Now().Unix()
	return i.Sign(map[string]any{"iss": i.URL, "sub": subject, "aud": audience, "iat": now, "exp": now + 600})
}
