// Package token authenticates callers by signed tokens (JWT) of issuers, such as those of OpenID Connect and
// of Kubernetes' service accounts:
//
//	bearer ─► form and size ─► issuer (iss) ─► algorithm allowed? ─► signature by a key of the issuer (jwks.go) ─► aud, exp, nbf, iat ─► rules
//
// Only the algorithms of the issuer's list are tried, none of which has a shared secret. Of the header only
// alg, kid and typ count: keys in it and addresses of keys are ignored, and a header with critical extensions
// is refused.
package token

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/access/rules"
)

// maxToken bounds a token in bytes.
const maxToken = 8 << 10

// maxKnown bounds the tokens that are remembered, so that one is verified once; beyond it all are verified
// again.
const maxKnown = 10_000

// Authenticator authenticates callers by tokens. It implements access.Authenticator.
type Authenticator struct {
	issuers map[string]*issuer
	order   []*issuer // as they are configured

	mu    sync.RWMutex
	known map[[sha256.Size]byte]*access.Principal
}

type issuer struct {
	rules.Issuer
	algorithms []jose.SignatureAlgorithm
	keys       *keys
}

// New returns an authenticator of issuers whose rules are valid. Run fetches their keys.
func New(list []rules.Issuer, log *slog.Logger) (*Authenticator, error) {
	a := &Authenticator{issuers: map[string]*issuer{}, known: map[[sha256.Size]byte]*access.Principal{}}
	for _, one := range list {
		i := &issuer{Issuer: one.WithDefaults()}
		for _, alg := range i.Algorithms {
			i.algorithms = append(i.algorithms, jose.SignatureAlgorithm(alg))
		}
		var err error
		if i.keys, err = newKeys(&i.Issuer, a.clearVerified, log); err != nil {
			return nil, err
		}
		if i.Login != nil && i.Login.Secret != "" {
			if _, err := i.readClientSecret(); err != nil {
				return nil, err
			}
		}
		a.issuers[i.Issuer.Issuer] = i
		a.order = append(a.order, i)
	}
	return a, nil
}

// Run keeps the keys of the issuers fresh until ctx ends.
func (a *Authenticator) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, i := range a.issuers {
		running.Go(func() { i.keys.runRefresh(ctx) })
	}
	running.Wait()
}

// clearVerified makes all tokens be verified again, because keys have changed.
func (a *Authenticator) clearVerified() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.known)
}

// Authenticate returns the principal of a token; nil, nil if the credentials are no token of this form.
func (a *Authenticator) Authenticate(ctx context.Context, c *access.Credentials) (*access.Principal, error) {
	if c.Login != nil {
		return a.signedIn(c.Login)
	}
	if strings.Count(c.Bearer, ".") != 2 || !strings.HasPrefix(c.Bearer, "ey") {
		return nil, nil
	}
	if len(c.Bearer) > maxToken {
		return nil, access.Unauthenticated(access.ReasonMalformed, "the token has %d bytes; at most %d are taken",
			len(c.Bearer), maxToken)
	}
	sum := sha256.Sum256([]byte(c.Bearer))
	a.mu.RLock()
	p := a.known[sum]
	a.mu.RUnlock()
	if p != nil {
		return p, nil
	}
	p, i, generation, err := a.verifyToken(ctx, c.Bearer, time.Now())
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if i.keys.keyGeneration() != generation {
		return p, nil // its key may have been withdrawn in the meantime: the next call verifies it again
	}
	if len(a.known) >= maxKnown {
		clear(a.known)
	}
	a.known[sum] = p
	return p, nil
}

// claims are those that every token has.
type claims struct {
	Issuer   string   `json:"iss"`
	Subject  string   `json:"sub"`
	Audience audience `json:"aud"`
	Expires  *float64 `json:"exp"`
	Begins   *float64 `json:"nbf"`
	Issued   *float64 `json:"iat"`
	Party    string   `json:"azp"`   // of tokens of logins
	Nonce    string   `json:"nonce"` // of tokens of logins

	all map[string]any
}

// audience is a text or a list of texts.
type audience []string

// UnmarshalJSON reads both forms.
func (a *audience) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		*a = make(audience, 1)
		return json.Unmarshal(text, &(*a)[0])
	}
	return json.Unmarshal(text, (*[]string)(a))
}

// verifyToken returns the principal of a token, its issuer, and the generation of the issuer's keys by which
// it was verified.
func (a *Authenticator) verifyToken(ctx context.Context, text string,
	now time.Time) (*access.Principal, *issuer, uint64, error) {
	unverified, err := unverifiedClaims(text)
	if err != nil {
		return nil, nil, 0, malformedToken("the token cannot be read")
	}
	i := a.issuers[unverified.Issuer]
	if i == nil {
		return nil, nil, 0, access.Unauthenticated(access.ReasonUnknown,
			"the token is of the issuer %q, which the setting principals does not name", rouse.Shorten(unverified.Issuer, 128))
	}
	c, generation, err := i.verifySignature(ctx, text, "JWT", "at+JWT")
	if err != nil {
		return nil, nil, 0, err
	}
	if err := c.checkClaims(i, i.Audience, now); err != nil {
		return nil, nil, 0, err
	}
	p, err := i.newPrincipal(c.Subject, c.displayName(), "token", c.all)
	if err != nil {
		return nil, nil, 0, err
	}
	p.Expires = secondsToTime(*c.Expires).Add(i.Skew)
	return p, i, generation, nil
}

// verifySignature returns the claims of a token of one of these types whose signature is of the issuer, and
// the generation of the keys. The claims are not checked.
func (i *issuer) verifySignature(ctx context.Context, text string, types ...string) (*claims, uint64, error) {
	signed, err := jose.ParseSignedCompact(text, i.algorithms)
	if err != nil {
		return nil, 0, access.Unauthenticated(access.ReasonMalformed, "the token has no signature of the algorithms %s",
			strings.Join(i.Algorithms, ", "))
	}
	header := signed.Signatures[0].Header
	if typ, ok := header.ExtraHeaders["typ"]; ok && !slices.ContainsFunc(types,
		func(t string) bool { return strings.EqualFold(fmt.Sprint(typ), t) }) {
		return nil, 0, malformedToken("the token is of the type %q; expected is %s", rouse.Shorten(fmt.Sprint(typ), 64),
			strings.Join(types, " or "))
	}
	if _, critical := header.ExtraHeaders["crit"]; critical {
		return nil, 0, malformedToken("the token has critical headers, which are not supported")
	}
	key, generation, err := i.keys.keyForToken(ctx, header.KeyID, header.Algorithm)
	if err != nil {
		return nil, 0, access.Unauthenticated(access.ReasonUnknown, "the token of %s: %v", i.Issuer.Issuer, err)
	}
	body, err := signed.Verify(key)
	if err != nil {
		return nil, 0, access.Unauthenticated(access.ReasonUnknown, "the token has no valid signature of %s", i.Issuer.Issuer)
	}
	c := &claims{}
	if json.Unmarshal(body, c) != nil || json.Unmarshal(body, &c.all) != nil {
		return nil, 0, malformedToken("the claims of the token cannot be read")
	}
	return c, generation, nil
}

// displayName returns the name of a token's subject, for people.
func (c *claims) displayName() string {
	name := c.Subject
	for _, claim := range []string{"email", "preferred_username"} {
		if text, ok := c.all[claim].(string); ok {
			name = rouse.Shorten(text, 128)
		}
	}
	return name
}

// newPrincipal returns the principal with these claims, with the grants of rules.
func (i *issuer) newPrincipal(subject, name, source string, claims map[string]any) (*access.Principal, error) {
	p := &access.Principal{ID: "token:" + i.Issuer.Issuer + "#" + subject, Name: name, Source: source,
		Grants: i.Grants(claims)}
	if len(p.Grants) == 0 {
		return nil, access.Unauthenticated(access.ReasonUnknown,
			"no rule grants a role to the token of %q; add one to the file of the setting principals",
			rouse.Shorten(subject, 128))
	}
	return p, nil
}

// unverifiedClaims reads the claims of a token whose signature nothing has verified.
func unverifiedClaims(text string) (c claims, err error) {
	parts := strings.SplitN(text, ".", 3)
	body, err := base64.RawURLEncoding.Strict().DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(body, &c)
	}
	return c, err
}

// checkClaims checks the claims of a token for an audience, whose signature is valid.
func (c *claims) checkClaims(i *issuer, audience string, now time.Time) error {
	switch {
	case c.Issuer != i.Issuer.Issuer:
		return malformedToken("the token has another issuer in its claims")
	case audience == "":
		return access.Unauthenticated(access.ReasonUnknown,
			"tokens of %s are for signing in only; give it an audience in the file of the setting principals, or use a key",
			i.Issuer.Issuer)
	case !slices.Contains(c.Audience, audience):
		return access.Unauthenticated(access.ReasonUnknown,
			"the token is for the audience %q, not for %q; ask the issuer for one that is",
			rouse.Shorten(strings.Join(c.Audience, ", "), 128), audience)
	case c.Subject == "" || len(c.Subject) > 1024:
		return malformedToken("the token has no claim sub")
	case c.Expires == nil || !isValidTime(*c.Expires):
		return malformedToken("the token has no claim exp")
	case !now.Before(secondsToTime(*c.Expires).Add(i.Skew)):
		return access.Unauthenticated(access.ReasonExpired, "the token expired at %s; use a new one",
			secondsToTime(*c.Expires).UTC().Format(time.RFC3339))
	case c.Begins != nil && (!isValidTime(*c.Begins) || now.Add(i.Skew).Before(secondsToTime(*c.Begins))):
		return access.Unauthenticated(access.ReasonExpired, "the token is not valid yet")
	case c.Issued != nil && (!isValidTime(*c.Issued) || now.Add(i.Skew).Before(secondsToTime(*c.Issued))):
		return access.Unauthenticated(access.ReasonExpired,
			"the token was issued in the future; compare the clocks of the issuer and of this node")
	}
	return nil
}

// isValidTime reports whether seconds since 1970 are a time.
func isValidTime(seconds float64) bool { return seconds >= 0 && seconds < 1e11 }

func secondsToTime(seconds float64) time.Time { return time.Unix(int64(seconds), 0) }

func malformedToken(format string, args ...any) error {
	return access.Unauthenticated(access.ReasonMalformed, format, args...)
}
