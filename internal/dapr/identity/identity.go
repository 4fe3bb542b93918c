// Package identity authenticates this process to Dapr's sidecars and the sidecars to this process: mutual TLS
// with SPIFFE ids, spiffe://TRUSTDOMAIN/ns/NAMESPACE/APP, in certificates that lead to common trust anchors.
//
//	Files ──┐
//	        ├─► Identity: certificate, key, trust anchors ─► Credentials of a server · Dialer of a client
//	Sentry ─┘        kept fresh by Run                            │
//	                                                     Authorize, in each call
//
// An Identity may have no certificate yet. Handshakes then fail until Run has obtained one.
package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse/internal/certs"
)

// ID is a SPIFFE id in the form that Dapr gives to apps and to the parts of its control plane.
type ID struct{ TrustDomain, Namespace, App string }

func (id ID) String() string {
	return (&url.URL{Scheme: "spiffe", Host: id.TrustDomain, Path: "/ns/" + id.Namespace + "/" + id.App}).String()
}

// IDOf returns the id in a certificate.
func IDOf(cert *x509.Certificate) (ID, error) {
	u, err := spiffeURI(cert)
	if err != nil {
		return ID{}, err
	}
	namespace, app, _ := strings.Cut(strings.TrimPrefix(u.Path, "/ns/"), "/")
	if namespace == "" || app == "" || strings.Contains(app, "/") {
		return ID{}, fmt.Errorf("the SPIFFE id %s is not spiffe://TRUSTDOMAIN/ns/NAMESPACE/APP", u)
	}
	return ID{u.Host, namespace, app}, nil
}

// spiffeURI returns the only URI of a certificate, whatever its path.
func spiffeURI(cert *x509.Certificate) (*url.URL, error) {
	if len(cert.URIs) != 1 || cert.URIs[0].Scheme != "spiffe" || cert.URIs[0].Host == "" {
		return nil, fmt.Errorf("the certificate of %q has no SPIFFE id: %d URIs", cert.Subject, len(cert.URIs))
	}
	return cert.URIs[0], nil
}

// Identity is safe for concurrent use.
type Identity struct {
	now   atomic.Pointer[material]
	ready chan struct{} // closed when there is a certificate
	once  sync.Once
	run   func(ctx context.Context)
}

// material is an identity's certificate and trust anchors at one time.
type material struct {
	cert    *tls.Certificate // nil: none yet
	anchors *x509.CertPool
}

func newIdentity() *Identity { return &Identity{ready: make(chan struct{})} }

// editMaterial replaces part of the material.
func (i *Identity) editMaterial(edit func(*material)) {
	for {
		old := i.now.Load()
		m := material{}
		if old != nil {
			m = *old
		}
		edit(&m)
		if !i.now.CompareAndSwap(old, &m) {
			continue
		}
		if m.cert != nil {
			i.once.Do(func() { close(i.ready) })
		}
		return
	}
}

// replaceMaterial replaces the material.
func (i *Identity) replaceMaterial(m *material) { i.editMaterial(func(now *material) { *now = *m }) }

// Run keeps the identity fresh until ctx ends. It logs errors and retries; until then the previous material
// stays in use.
func (i *Identity) Run(ctx context.Context) { i.run(ctx) }

// Ready is closed when there is a certificate.
func (i *Identity) Ready() <-chan struct{} { return i.ready }

// Healthy returns why no peer would accept this identity now, or nil.
func (i *Identity) Healthy() error {
	_, err := i.currentCertificate()
	return err
}

func (i *Identity) currentCertificate() (*tls.Certificate, error) {
	m := i.now.Load()
	switch {
	case m == nil || m.cert == nil:
		return nil, errors.New("there is no certificate yet")
	case time.Now().After(m.cert.Leaf.NotAfter):
		return nil, fmt.Errorf("the certificate of %s has expired at %s", m.cert.Leaf.URIs[0],
			m.cert.Leaf.NotAfter.Format(time.RFC3339))
	}
	return m.cert, nil
}

// Credentials returns server credentials, which require a client certificate with any SPIFFE id that leads to
// the trust anchors.
func (i *Identity) Credentials() credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{
		MinVersion:     tls.VersionTLS12,
		ClientAuth:     tls.RequireAnyClientCert, // VerifyConnection checks it against the current trust anchors
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return i.currentCertificate() },
		VerifyConnection: func(s tls.ConnectionState) error {
			return verifyChain(i.now.Load(), s.PeerCertificates)
		},
		SessionTicketsDisabled: true, // a resumed session would be checked against the trust anchors of its start
	})
}

// Dialer returns client credentials with this identity. accept decides which server is the right one.
func (i *Identity) Dialer(accept func(server ID) error) credentials.TransportCredentials {
	c := clientConfig(func() *material { return i.now.Load() }, accept)
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return i.currentCertificate() }
	return credentials.NewTLS(c)
}

// clientConfig returns the TLS configuration of a client without a certificate.
func clientConfig(now func() *material, accept func(server ID) error) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// of host names, which these certificates do not have; VerifyConnection checks the SPIFFE id
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if err := verifyChain(now(), s.PeerCertificates); err != nil {
				return err
			}
			id, err := IDOf(s.PeerCertificates[0])
			if err != nil {
				return err
			}
			return accept(id)
		},
	}
}

// Only accepts one server id.
func Only(want ID) func(ID) error {
	return func(got ID) error {
		if got != want {
			return fmt.Errorf("the server is %s, not %s", got, want)
		}
		return nil
	}
}

// verifyChain returns why a certificate chain is not trusted, or nil.
func verifyChain(m *material, chain []*x509.Certificate) error {
	if m == nil {
		return errors.New("there are no trust anchors yet")
	}
	if err := certs.Verify(m.anchors, chain); err != nil {
		return err
	}
	_, err := spiffeURI(chain[0])
	return err
}

// Authorize refuses, with a gRPC status, a call whose caller is not the app of the namespace. The caller's
// trust domain does not matter, because its certificate leads to the trust anchors.
func Authorize(ctx context.Context, namespace, app string) error {
	id, ok := Of(ctx)
	if !ok {
		return errNoIdentity
	}
	if id.Namespace != namespace || id.App != app {
		return errAnother
	}
	return nil
}

// Of returns the id of the caller of a call, if it has shown one.
func Of(ctx context.Context) (id ID, ok bool) {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return id, false
	}
	info, _ := p.AuthInfo.(credentials.TLSInfo)
	if len(info.State.PeerCertificates) == 0 {
		return id, false
	}
	id, err := IDOf(info.State.PeerCertificates[0])
	return id, err == nil
}

// Clients of Dapr's scheduler know these texts.
var (
	errNoIdentity = status.Error(codes.Unauthenticated, "failed to get identity from context")
	errAnother    = status.Error(codes.PermissionDenied, "identity does not match request")
)
