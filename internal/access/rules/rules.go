// Package rules grants roles to callers that others have authenticated: by the names in their certificates,
// and by the claims of their tokens. Several rules may match; the caller has the grants of all.
package rules

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/certs"
)

// Config are all rules.
type Config struct {
	Certificates []Certificate `yaml:"certificates"`
	Issuers      []Issuer      `yaml:"issuers"`
}

// Grant is a role within a scope, as rules write it.
type Grant struct {
	Role       string            `yaml:"role"`
	Namespaces []string          `yaml:"namespaces"`
	Targets    []string          `yaml:"targets"`
	Labels     map[string]string `yaml:"labels"`
	Apps       []string          `yaml:"apps"`
}

// Certificate is a rule for clients with certificates.
type Certificate struct {
	// Name is a name in the certificate, a host, URI or e-mail address: see certs.Match.
	Name  string `yaml:"name"`
	Grant `yaml:",inline"`
}

// Issuer is an issuer of tokens (JWT, OpenID Connect, service accounts of Kubernetes).
type Issuer struct {
	Issuer string `yaml:"issuer"` // the claim iss
	// has to be in the claim aud; empty, with Login: tokens are not taken from calls
	Audience   string        `yaml:"audience"`
	Algorithms []string      `yaml:"algorithms"` // of signatures; default RS256, ES256
	Keys       string        `yaml:"keys"`       // URL of its keys (JWKS); default: that of its discovery document
	CA         string        `yaml:"ca"`         // PEM file of authorities of these URLs; default the system's
	Token      string        `yaml:"token"`      // file with a token that is sent to these URLs; default none
	Skew       time.Duration `yaml:"skew"`       // how far its clock may be off; default 30 s
	Rules      []Claim       `yaml:"rules"`
	Login      *Login        `yaml:"login"` // nil: people do not sign in there
}

// Login is how people sign in to the web console at an issuer (OpenID Connect).
type Login struct {
	URL      string   `yaml:"url"`                // of the console, as browsers reach it; the issuer sends them back to it
	ClientID string   `yaml:"client_id"`          // of rouse, at the issuer
	Secret   string   `yaml:"client_secret_file"` // read at each use; default none, a public client
	Scopes   []string `yaml:"scopes"`             // default openid, profile, email
	Label    string   `yaml:"label"`              // of the button; default the issuer's host
}

// Claim is a rule for tokens.
type Claim struct {
	Claim string `yaml:"claim"` // a text, or a list of texts
	Value string `yaml:"value"` // of it; with "*" at its end a prefix
	Grant `yaml:",inline"`
	// NamespacesFrom is a claim with the namespaces, in place of Namespaces.
	NamespacesFrom string `yaml:"namespaces_from"`
}

// Bounds of Config.
const (
	MaxRules   = 1000 // of certificates, and of each issuer
	MaxIssuers = 16
	MaxSkew    = 5 * time.Minute
)

// Algorithms are those of signatures that an issuer may use: none with a shared secret, and not "none".
var Algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// WithDefaults returns the issuer with defaults for its empty fields.
func (i Issuer) WithDefaults() Issuer {
	if len(i.Algorithms) == 0 {
		i.Algorithms = []string{"RS256", "ES256"}
	}
	if i.Skew == 0 {
		i.Skew = 30 * time.Second
	}
	if i.Login != nil {
		l := *i.Login
		if len(l.Scopes) == 0 {
			l.Scopes = []string{"openid", "profile", "email"}
		}
		if u, err := url.Parse(i.Issuer); err == nil {
			l.Label = cmp.Or(l.Label, u.Hostname())
		}
		l.URL = strings.TrimSuffix(l.URL, "/")
		i.Login = &l
	}
	return i
}

// Empty reports whether there are no rules.
func (c *Config) Empty() bool { return len(c.Certificates) == 0 && len(c.Issuers) == 0 }

// Check returns everything that is wrong with the rules. Whether roles exist is decided when they are used:
// custom roles may come later.
func (c *Config) Check() error {
	var bad rouse.Invalid
	add := func(field, value, wrong, cure string) { bad.Add(rouse.Refuse(field, value, wrong, cure)) }
	many := func(field string, n, most int) {
		if n > most {
			add(field, fmt.Sprint(n), "are too many", fmt.Sprintf("give at most %d", most))
		}
	}
	many("certificates", len(c.Certificates), MaxRules)
	many("issuers", len(c.Issuers), MaxIssuers)
	for i := range c.Certificates {
		r, at := &c.Certificates[i], fmt.Sprintf("certificates[%d]", i)
		if err := certs.CheckPattern(r.Name); err != nil {
			add(at+".name", r.Name, err.Error(),
				`write a name such as spiffe://example.com/shop, spiffe://example.com/shop/*, *.example.com or shop@example.com`)
		}
		bad.Add(r.checkGrant(at, false))
	}
	for i := range c.Issuers {
		is, at := c.Issuers[i].WithDefaults(), fmt.Sprintf("issuers[%d]", i)
		many(at+".rules", len(is.Rules), MaxRules)
		if !isSecureURL(is.Issuer) {
			add(at+".issuer", is.Issuer, "is no https:// URL", "write the issuer as in the claim iss of its tokens")
		}
		if slices.ContainsFunc(c.Issuers[:i], func(o Issuer) bool { return o.Issuer == is.Issuer }) {
			add(at+".issuer", is.Issuer, "is listed twice", "list each issuer once")
		}
		if is.Keys != "" && !isSecureURL(is.Keys) {
			add(at+".keys", is.Keys, "is no https:// URL", "write the URL of its keys (jwks_uri), or leave it out")
		}
		bad.Add(is.Login.checkLogin(at + ".login"))
		if is.Audience == "" && is.Login == nil {
			add(at+".audience", "", "is missing",
				"write what its tokens for this service have in the claim aud: without it tokens for other services are taken")
		}
		if is.Skew < 0 || is.Skew > MaxSkew {
			add(at+".skew", is.Skew.String(), "is out of bounds", "give up to "+MaxSkew.String())
		}
		for _, alg := range is.Algorithms {
			if !slices.Contains(Algorithms, alg) {
				add(at+".algorithms", alg, "is not offered", "give some of "+strings.Join(Algorithms, ", "))
			}
		}
		if len(is.Rules) == 0 {
			add(at+".rules", "", "is missing",
				"write at least one rule with claim, value and role: without rules its tokens may do nothing")
		}
		for k := range is.Rules {
			r, at := &is.Rules[k], fmt.Sprintf("%s.rules[%d]", at, k)
			if r.Claim == "" {
				add(at+".claim", "", "is missing", "name a claim, such as sub or groups")
			}
			if r.Value == "" || strings.Contains(strings.TrimSuffix(r.Value, "*"), "*") {
				add(at+".value", r.Value, "matches no claim", `write a text, or the beginning of some with "*" after it`)
			}
			bad.Add(r.checkGrant(at, r.NamespacesFrom != ""))
		}
	}
	return bad.Err()
}

// checkLogin checks how people sign in.
func (l *Login) checkLogin(at string) error {
	if l == nil {
		return nil
	}
	var bad rouse.Invalid
	add := func(field, value, wrong, cure string) { bad.Add(rouse.Refuse(at+"."+field, value, wrong, cure)) }
	if u, _ := url.Parse(l.URL); !isSecureURL(l.URL) || u.Path != "" || u.RawQuery != "" {
		add("url", l.URL, "is no https:// URL of a host",
			"write the console's as browsers reach it, such as https://rouse.example.com")
	}
	if l.ClientID == "" {
		add("client_id", "", "is missing",
			"register rouse at the issuer with the redirect URL "+l.URL+access.CallbackPath+", and write the id that it gets")
	}
	if !slices.Contains(l.Scopes, "openid") {
		add("scopes", strings.Join(l.Scopes, " "), "lack openid",
			"add openid: without it the issuer does not tell who signs in")
	}
	if slices.ContainsFunc(l.Scopes, func(s string) bool { return s == "" || strings.ContainsAny(s, " \"\\") }) {
		add("scopes", strings.Join(l.Scopes, " "), "have one that is none", "write one scope in each line")
	}
	if len(l.Label) > 64 {
		add("label", l.Label, "is too long", "use at most 64 bytes")
	}
	return bad.Err()
}

// checkGrant checks a grant.
func (g *Grant) checkGrant(at string, from bool) error {
	var bad rouse.Invalid
	if g.Role == "" {
		bad.Add(rouse.Refuse(at+".role", "", "is missing", "name a role, such as reader, writer, worker, operator or admin"))
	}
	s := g.toScope()
	if from {
		if len(g.Namespaces) > 0 {
			bad.Add(rouse.Refuse(at+".namespaces_from", "", "and namespaces are set", "give one of them"))
			return bad.Err()
		}
		s.Namespaces = []string{"*"}
	}
	if inv, ok := errors.AsType[*rouse.Invalid](s.Check()); ok {
		for _, p := range inv.Problems {
			p.Field = at + strings.TrimPrefix(p.Field, "scope")
			bad.Problems = append(bad.Problems, p)
		}
	}
	return bad.Err()
}

func (g *Grant) toScope() access.Scope {
	return access.Scope{Namespaces: g.Namespaces, Targets: g.Targets, Labels: g.Labels, Apps: g.Apps}
}

// isSecureURL reports whether a text is the URL of a host that proves its name, or of this machine.
func isSecureURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" &&
		(u.Hostname() == "127.0.0.1" || u.Hostname() == "localhost" || u.Hostname() == "::1")
}

// Grants returns the grants for the claims of a token. Claims that are neither texts nor lists of texts match
// no rule.
func (i *Issuer) Grants(claims map[string]any) (grants []access.Grant) {
	for k := range i.Rules {
		r := &i.Rules[k]
		if !slices.ContainsFunc(claimTexts(claims, r.Claim), r.matchesValue) {
			continue
		}
		s := r.toScope()
		if r.NamespacesFrom != "" {
			for _, ns := range claimTexts(claims, r.NamespacesFrom) {
				// a pattern in a claim is no namespace
				if rouse.CheckNamespace(ns) == nil && len(s.Namespaces) < access.MaxPatterns {
					s.Namespaces = append(s.Namespaces, ns)
				}
			}
			if len(s.Namespaces) == 0 {
				continue
			}
		}
		grants = append(grants, access.Grant{Role: r.Role, Scope: s})
	}
	return grants
}

// Keep returns the claims of a token that rules need: texts that match one, and namespaces.
func (i *Issuer) Keep(claims map[string]any) map[string]any {
	kept := map[string]any{}
	keep := func(name string, needed func(string) bool) {
		list, _ := kept[name].([]string)
		for _, text := range claimTexts(claims, name) {
			if needed(text) && !slices.Contains(list, text) {
				list = append(list, text)
			}
		}
		if list != nil {
			kept[name] = list
		}
	}
	for k := range i.Rules {
		r := &i.Rules[k]
		keep(r.Claim, r.matchesValue)
		if r.NamespacesFrom != "" && slices.ContainsFunc(claimTexts(kept, r.Claim), r.matchesValue) {
			keep(r.NamespacesFrom, func(ns string) bool { return rouse.CheckNamespace(ns) == nil })
		}
	}
	return kept
}

func (r *Claim) matchesValue(value string) bool {
	if prefix, ok := strings.CutSuffix(r.Value, "*"); ok {
		return strings.HasPrefix(value, prefix)
	}
	return r.Value == value
}

// claimTexts returns the texts of a claim. An e-mail address that the issuer has not verified is none: people
// may enter that of another one.
func claimTexts(claims map[string]any, name string) []string {
	if verified, told := claims["email_verified"]; name == "email" && told && verified != true && verified != "true" {
		return nil
	}
	switch v := claims[name].(type) {
	case string:
		return []string{v}
	case []string:
		return v
	case []any:
		list := make([]string, 0, len(v))
		for _, one := range v {
			if s, ok := one.(string); ok {
				list = append(list, s)
			}
		}
		return list
	}
	return nil
}

// Certificates authenticates clients by their certificates, which the door has verified. It implements
// access.Authenticator.
type Certificates struct {
	rules []Certificate

	mu    sync.RWMutex
	known map[*x509.Certificate]*access.Principal // by the certificate of a connection; nil values are not kept
}

// maxKnown bounds the certificates that are remembered; beyond it all are read again.
const maxKnown = 4096

// NewCertificates returns the authenticator of rules.
func NewCertificates(list []Certificate) *Certificates {
	return &Certificates{rules: list, known: map[*x509.Certificate]*access.Principal{}}
}

// Authenticate returns the principal of the certificate, unless the call has credentials of its own, which
// count before those of its connection.
func (a *Certificates) Authenticate(_ context.Context, c *access.Credentials) (*access.Principal, error) {
	if c.Bearer != "" || c.Login != nil || len(c.Certificates) == 0 || len(c.Certificates[0]) == 0 {
		return nil, nil
	}
	leaf := c.Certificates[0][0]
	a.mu.RLock()
	p := a.known[leaf]
	a.mu.RUnlock()
	if p != nil {
		return p, nil
	}
	names := certs.NamesOf(leaf)
	p = &access.Principal{Source: "certificate", Expires: leaf.NotAfter, Name: leaf.Subject.CommonName}
	for i := range a.rules {
		r := &a.rules[i]
		for _, name := range names {
			if certs.Match(r.Name, name) {
				p.ID = cmp.Or(p.ID, "certificate:"+name)
				p.Grants = append(p.Grants, access.Grant{Role: r.Role, Scope: r.toScope()})
				break
			}
		}
	}
	if len(p.Grants) == 0 {
		return nil, access.Unauthenticated(access.ReasonUnknown,
			"no rule grants a role to the certificate with the names %q; add one to the file of the setting principals, or send a key", names)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) >= maxKnown {
		clear(a.known)
	}
	a.known[leaf] = p
	return p, nil
}
