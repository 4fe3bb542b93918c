package rules

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// TestProblems: every wrong rule is reported with its place.
func TestProblems(t *testing.T) {
	grant := Grant{Role: "writer", Namespaces: []string{"a"}}
	good := Issuer{Issuer: "https://login.example.com", Audience: "rouse", Rules: []Claim{{Claim: "sub", Value: "a", Grant: grant}}}
	issuer := func(edit func(*Issuer)) Config {
		i := good
		i.Rules = []Claim{good.Rules[0]}
		edit(&i)
		return Config{Issuers: []Issuer{i}}
	}
	cert := func(name string, g Grant) Config { return Config{Certificates: []Certificate{{name, g}}} }
	login := func(edit func(l *Login)) Config {
		return issuer(func(i *Issuer) {
			i.Login = &Login{URL: "https://rouse.example.com", ClientID: "rouse"}
			edit(i.Login)
		})
	}
	for want, c := range map[string]Config{
		"certificates[0].name:":               cert("", grant),
		"certificates[0].name: ":              cert("spiffe://a*", grant),
		"certificates[0].name:  ":             cert("*", grant),
		"certificates[0].name:   ":            cert("*.com", grant),
		"certificates[0].name:    ":           cert("spiffe://*", grant),
		"certificates[0].role:":               cert("a.example.com", Grant{Namespaces: []string{"a"}}),
		"certificates[0].namespaces:":         cert("a.example.com", Grant{Role: "reader"}),
		"certificates[0].namespaces[0]:":      cert("a.example.com", Grant{Role: "reader", Namespaces: []string{"A b"}}),
		"certificates[0].targets[0]:":         cert("a.example.com", Grant{Role: "reader", Namespaces: []string{"a"}, Targets: []string{"https://a*"}}),
		"issuers[0].issuer:":                  issuer(func(i *Issuer) { i.Issuer = "http://login.example.com" }),
		"issuers[1].issuer:":                  {Issuers: []Issuer{good, good}},
		"issuers[0].keys:":                    issuer(func(i *Issuer) { i.Keys = "file:///etc/keys" }),
		"issuers[0].issuer: ":                 issuer(func(i *Issuer) { i.Issuer = "https:///path" }),
		"issuers[0].issuer:  ":                issuer(func(i *Issuer) { i.Issuer = "https://[::1" }),
		"issuers[0].skew: ":                   issuer(func(i *Issuer) { i.Skew = -time.Second }),
		"issuers[0].rules: ":                  issuer(func(i *Issuer) { i.Rules = slices.Repeat(i.Rules, MaxRules+1) }),
		"certificates:":                       {Certificates: slices.Repeat(cert("a.example.com", grant).Certificates, MaxRules+1)},
		"issuers[0].audience:":                issuer(func(i *Issuer) { i.Audience = "" }),
		"issuers[0].skew:":                    issuer(func(i *Issuer) { i.Skew = time.Hour }),
		"issuers[0].algorithms:":              issuer(func(i *Issuer) { i.Algorithms = []string{"HS256"} }),
		"issuers[0].algorithms: ":             issuer(func(i *Issuer) { i.Algorithms = []string{"none"} }),
		"issuers[0].rules:":                   issuer(func(i *Issuer) { i.Rules = nil }),
		"issuers[0].rules[0].claim:":          issuer(func(i *Issuer) { i.Rules[0].Claim = "" }),
		"issuers[0].rules[0].value:":          issuer(func(i *Issuer) { i.Rules[0].Value = "" }),
		"issuers[0].rules[0].value: ":         issuer(func(i *Issuer) { i.Rules[0].Value = "*a" }),
		"issuers[0].rules[0].namespaces_from": issuer(func(i *Issuer) { i.Rules[0].NamespacesFrom = "ns" }),
	} {
		inv, ok := c.Check().(*rouse.Invalid)
		if !ok || len(inv.Problems) != 1 || inv.Problems[0].Field != strings.TrimRight(want, ": ") {
			t.Errorf("%s: %v", want, inv)
		}
	}
	for _, c := range []struct {
		edit                      func(l *Login)
		field, value, wrong, cure string
	}{
		{func(l *Login) { l.URL = "" }, "url", "", "is no https:// URL of a host", "such as https://rouse.example.com"},
		{func(l *Login) { l.URL = "rouse.example.com" }, "url", "rouse.example.com", "is no https://", "as browsers reach it"},
		{func(l *Login) { l.URL = "http://rouse.example.com" }, "url", "http://rouse.example.com", "is no https://", "as browsers reach it"},
		{func(l *Login) { l.URL = "https://rouse.example.com/console" }, "url", "https://rouse.example.com/console", "is no https://", "as browsers reach it"},
		{func(l *Login) { l.URL = "https://rouse.example.com?a=b" }, "url", "https://rouse.example.com?a=b", "is no https://", "as browsers reach it"},
		{func(l *Login) { l.URL = "https://rouse.example.com#a" }, "url", "https://rouse.example.com#a", "is no https://", "as browsers reach it"},
		{func(l *Login) { l.URL = "https://me@rouse.example.com" }, "url", "https://me@rouse.example.com", "is no https://", "as browsers reach it"},
		{func(l *Login) { l.ClientID = "" }, "client_id", "", "is missing", "https://rouse.example.com/v1/session/callback"},
		{func(l *Login) { l.Scopes = []string{"profile", "email"} }, "scopes", "profile email", "lack openid", "add openid"},
		{func(l *Login) { l.Scopes = []string{"openid", "a b"} }, "scopes", "openid a b", "have one that is none", "one scope in each line"},
		{func(l *Login) { l.Scopes = []string{"openid", ""} }, "scopes", "openid ", "have one that is none", "one scope in each line"},
		{func(l *Login) { l.Label = strings.Repeat("x", 65) }, "label", "xxxx", "is too long", "at most 64 bytes"},
	} {
		config := login(c.edit)
		bad, ok := config.Check().(*rouse.Invalid)
		if !ok || len(bad.Problems) != 1 {
			t.Errorf("%+v: %v", config.Issuers[0].Login, bad)
			continue
		}
		p := bad.Problems[0]
		if p.Field != "issuers[0].login."+c.field || !strings.HasPrefix(p.Value, c.value) || !strings.Contains(p.Wrong, c.wrong) || !strings.Contains(p.Cure, c.cure) {
			t.Errorf("%+v: %+v, want the field %s with the value %q, %q and %q", config.Issuers[0].Login, p, c.field, c.value, c.wrong, c.cure)
		}
	}
	for _, c := range []Config{login(func(*Login) {}), login(func(l *Login) { l.URL = "http://localhost:7411/" }), login(func(l *Login) { l.Scopes, l.Label = []string{"openid"}, strings.Repeat("x", 64) })} {
		if err := c.Check(); err != nil {
			t.Errorf("%+v: %v", c.Issuers[0].Login, err)
		}
	}
	for _, c := range []Config{{}, issuer(func(*Issuer) {}), cert("spiffe://a/*", grant), cert("*.a.example", grant), cert("a@b.example", grant),
		issuer(func(i *Issuer) { i.Rules[0].Namespaces, i.Rules[0].NamespacesFrom = nil, "ns" }), issuer(func(i *Issuer) { i.Issuer = "http://127.0.0.1:1" }),
		issuer(func(i *Issuer) { i.Keys = "https://login.example.com/keys" })} {
		if err := c.Check(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestWhatIsKeptOfClaimsGrantsTheSame: a session has what rules need of the claims of its token, and no more.
func TestWhatIsKeptOfClaimsGrantsTheSame(t *testing.T) {
	i := Issuer{Rules: []Claim{
		{Claim: "groups", Value: "on-call", Grant: Grant{Role: "operator", Namespaces: []string{"*"}}},
		{Claim: "groups", Value: "team-*", Grant: Grant{Role: "writer"}, NamespacesFrom: "teams"},
		{Claim: "sub", Value: "robot", Grant: Grant{Role: "worker"}, NamespacesFrom: "groups"},
		{Claim: "email", Value: "eve@example.com", Grant: Grant{Role: "admin", Namespaces: []string{"*"}}},
	}}
	for _, c := range []struct {
		claims map[string]any
		want   int // grants
		kept   map[string]any
	}{
		{map[string]any{"sub": "alice", "groups": []any{"all", "on-call", "on-call"}, "email": "a@b"}, 1, map[string]any{"groups": []string{"on-call"}}},
		{map[string]any{"sub": "alice", "groups": "team-a", "teams": []any{"shop", "*", "-", "shop", 1}}, 1, map[string]any{"groups": []string{"team-a"}, "teams": []string{"shop"}}},
		{map[string]any{"sub": "alice", "groups": []any{"team-a"}, "teams": "a*"}, 0, map[string]any{"groups": []string{"team-a"}}},
		{map[string]any{"sub": "robot", "groups": []any{"shop", "on-call", "No"}}, 2, map[string]any{"sub": []string{"robot"}, "groups": []string{"on-call", "shop"}}},
		{map[string]any{"sub": "eve", "email": "eve@example.com"}, 1, map[string]any{"email": []string{"eve@example.com"}}},
		{map[string]any{"sub": "eve", "email": "eve@example.com", "email_verified": true}, 1, map[string]any{"email": []string{"eve@example.com"}}},
		{map[string]any{"sub": "eve", "email": "eve@example.com", "email_verified": "true"}, 1, map[string]any{"email": []string{"eve@example.com"}}},
		{map[string]any{"sub": "mallory", "email": "eve@example.com", "email_verified": false}, 0, map[string]any{}},
		{map[string]any{"sub": "mallory", "email": "eve@example.com", "email_verified": "false"}, 0, map[string]any{}},
		{map[string]any{"sub": "mallory", "email": "eve@example.com", "email_verified": nil}, 0, map[string]any{}},
		{map[string]any{"sub": "bob", "groups": map[string]any{"on-call": true}}, 0, map[string]any{}},
	} {
		kept := i.Keep(c.claims)
		if list, ok := kept["groups"].([]string); ok {
			slices.Sort(list)
		}
		if list, ok := c.kept["groups"].([]string); ok {
			slices.Sort(list)
		}
		want, got := i.Grants(c.claims), i.Grants(kept)
		for _, grants := range [][]access.Grant{want, got} {
			for k := range grants {
				slices.Sort(grants[k].Scope.Namespaces)
				grants[k].Scope.Namespaces = slices.Compact(grants[k].Scope.Namespaces)
			}
		}
		if len(want) != c.want || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(kept, c.kept) {
			t.Errorf("%v: %v are kept, which grant %v, want %v", c.claims, kept, got, want)
		}
	}
}

// TestCertificates: which names get which roles.
func TestCertificates(t *testing.T) {
	grant := func(role string) Grant { return Grant{Role: role, Namespaces: []string{"a"}} }
	a := NewCertificates([]Certificate{{"spiffe://td/shop/*", grant("writer")}, {"spiffe://td/shop/admin", grant("admin")}, {"*.hosts.example", grant("worker")}, {"Op@Example.com", grant("operator")}})
	for name, want := range map[string]string{
		"spiffe://td/shop/web": "writer", "spiffe://td/shop/admin": "writer admin", "a.hosts.example": "worker", "A.Hosts.Example": "worker", "op@example.com": "operator",
		"spiffe://td/shop/": "", "spiffe://td/shop": "", "spiffe://td/shopping": "", "spiffe://td/shop/../admin": "", "spiffe://td/shop/%2e%2e/x": "", "spiffe://TD/shop/web": "",
		"spiffe://td.evil/shop/web": "", "https://td/shop/web": "", "a.b.hosts.example": "", "hosts.example": "", "*.hosts.example": "", ".hosts.example": "", "evil@hosts.example": "",
		"a.hosts.example.evil": "", "": "",
	} {
		leaf := &x509.Certificate{Subject: pkix.Name{CommonName: "a.hosts.example"}, NotAfter: time.Now().Add(time.Hour)}
		switch u, err := url.Parse(name); {
		case err == nil && u.Scheme != "":
			leaf.URIs = []*url.URL{u}
		case strings.Contains(name, "@"):
			leaf.EmailAddresses = []string{name}
		case name != "":
			leaf.DNSNames = []string{name}
		}
		c := &access.Credentials{Certificates: [][]*x509.Certificate{{leaf}}}
		p, err := a.Authenticate(t.Context(), c)
		var roles []string
		if p != nil {
			for _, g := range p.Grants {
				roles = append(roles, g.Role)
			}
			if again, _ := a.Authenticate(t.Context(), c); again != p || p.ID != "certificate:"+name || !p.Expires.Equal(leaf.NotAfter) {
				t.Errorf("%q: %+v", name, p)
			}
		}
		if got := strings.Join(roles, " "); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", name, got, err)
		}
		c.Bearer = "rk_x"
		if p, err := a.Authenticate(t.Context(), c); p != nil || err != nil {
			t.Errorf("%q: a call with a key is taken for its certificate: %v, %v", name, p, err)
		}
	}
	if p, err := a.Authenticate(t.Context(), &access.Credentials{}); p != nil || err != nil {
		t.Errorf("no certificate: %v, %v", p, err)
	}
}

// FuzzMatch: a pattern that is accepted matches no name of another host or trust domain.
func FuzzMatch(f *testing.F) {
	f.Add("spiffe://td/shop/x")
	f.Add("spiffe://td/shop/../x")
	f.Add("a.hosts.example")
	a := NewCertificates([]Certificate{{"spiffe://td/shop/*", Grant{}}})
	f.Fuzz(func(t *testing.T, name string) {
		u, err := url.Parse(name)
		if err != nil {
			return
		}
		leaf := &x509.Certificate{URIs: []*url.URL{u}}
		p, _ := a.Authenticate(t.Context(), &access.Credentials{Certificates: [][]*x509.Certificate{{leaf}}})
		if p != nil && (u.Scheme != "spiffe" || u.Host != "td" || !strings.HasPrefix(u.EscapedPath(), "/shop/")) {
			t.Errorf("%q has %v", name, p.Grants)
		}
	})
}
