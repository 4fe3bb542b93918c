package access

import (
	"context"
	"crypto/x509"
	"net/netip"
	"time"
)

// Credentials are those that a caller has sent to a door.
type Credentials struct {
	Bearer       string                // of the authorization header, without the scheme; empty is none
	Session      *Login                // of a browser; nil is none
	Login        *Login                // the same, if a login at an issuer began it
	Certificates [][]*x509.Certificate // chains that the door has verified; nil is none
	Remote       netip.Addr            // where the connection comes from
}

// Authenticator turns credentials into a principal. It is safe for concurrent use, and fast: it is asked for
// every call.
type Authenticator interface {
	// Authenticate returns the principal, or an error of Unauthenticated. Credentials that are not of its
	// form are nil, nil.
	Authenticate(ctx context.Context, c *Credentials) (*Principal, error)
}

var errNoCredentials = Unauthenticated(ReasonNoCredentials,
	"no credentials were sent; send a key, as \"authorization: Bearer rk_…\"")

// Chain asks authenticators, one after another, until one knows the form of the credentials.
type Chain []Authenticator

// Authenticate implements Authenticator. It never returns nil, nil.
func (chain Chain) Authenticate(ctx context.Context, c *Credentials) (*Principal, error) {
	for _, a := range chain {
		p, err := a.Authenticate(ctx, c)
		switch {
		case err != nil:
			return nil, err
		case p != nil && !p.Expires.IsZero() && !time.Now().Before(p.Expires):
			return nil, Unauthenticated(ReasonExpired, "the credential expired at %s; use a valid one",
				p.Expires.UTC().Format(time.RFC3339))
		case p != nil:
			return p, nil
		}
	}
	if c.Bearer == "" {
		return nil, errNoCredentials
	}
	return nil, Unauthenticated(ReasonMalformed,
		"the credentials have no form that this server takes; send a key, as \"authorization: Bearer rk_…\"")
}
