// Package identitytest provides a certificate authority and a Sentry for tests of identities.
package identitytest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA is a certificate authority with a trust anchor and an issuer signed by it, like Dapr's.
type CA struct {
	t           testing.TB
	anchor      *x509.Certificate
	issuer      *x509.Certificate
	issuerKey   crypto.Signer
	Anchors     []byte // PEM
	AnchorsFile string // in a directory of the test
}

// NewCA creates a CA.
func NewCA(t testing.TB) *CA {
	t.Helper()
	ca := &CA{t: t, AnchorsFile: filepath.Join(t.TempDir(), "ca.crt")}
	key := newKey(t)
	ca.issuerKey = newKey(t)
	authority := func(name string) *x509.Certificate {
		return &x509.Certificate{SerialNumber: newSerial(t), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	}
	ca.anchor = signTestCertificate(t, authority("anchor"), nil, key.Public(), key)
	ca.issuer = signTestCertificate(t, authority("issuer"), ca.anchor, ca.issuerKey.Public(), key)
	ca.Anchors = pemOf(ca.anchor)
	writeSecretFile(t, ca.AnchorsFile, ca.Anchors)
	return ca
}

// Sign returns a certificate of a key for a SPIFFE id, followed by the issuer's, in PEM. With "" it has no
// id.
func (ca *CA) Sign(key crypto.PublicKey, id string, lasts time.Duration) []byte {
	ca.t.Helper()
	c := &x509.Certificate{SerialNumber: newSerial(ca.t), NotBefore: time.Now().Add(-time.Minute),
		NotAfter: time.Now().Add(lasts),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth,
			x509.ExtKeyUsageClientAuth}}
	if id != "" {
		u, err := url.Parse(id)
		if err != nil {
			ca.t.Fatal(err)
		}
		c.URIs = []*url.URL{u}
	}
	return append(pemOf(signTestCertificate(ca.t, c, ca.issuer, key, ca.issuerKey)), pemOf(ca.issuer)...)
}

// Issue writes a new certificate for a SPIFFE id, good for an hour, and its key into files of a directory.
func (ca *CA) Issue(dir, id string) (certificate, key string) {
	ca.t.Helper()
	return ca.IssueFor(dir, id, time.Hour)
}

// IssueFor is Issue with another lifetime.
func (ca *CA) IssueFor(dir, id string, lasts time.Duration) (certificate, key string) {
	ca.t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		ca.t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		ca.t.Fatal(err)
	}
	certificate, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	writeSecretFile(ca.t, certificate, ca.Sign(public, id, lasts))
	writeSecretFile(ca.t, key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	return certificate, key
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newSerial(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// signTestCertificate returns a certificate signed by parent, or self-signed if parent is nil.
func signTestCertificate(t testing.TB, c, parent *x509.Certificate, public crypto.PublicKey,
	by crypto.Signer) *x509.Certificate {
	t.Helper()
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, public, by)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func writeSecretFile(t testing.TB, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
