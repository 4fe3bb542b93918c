package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Authority signs certificates for trials and tests. Its key is in memory only.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// NewAuthority returns an authority with a new key.
func NewAuthority(name string, lasts time.Duration) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c := &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Minute),
		NotAfter: time.Now().Add(lasts), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	cert, err := signCertificate(c, c, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &Authority{cert, key}, nil
}

// Request describes a certificate to be issued.
type Request struct {
	Name     string    // of the subject
	Names    []string  // hosts, IP addresses, URIs, and e-mail addresses
	NotAfter time.Time // when it expires
	Server   bool      // it is for servers, which present it to clients and to each other; otherwise for clients
}

// Issue returns a new certificate and its key, in PEM.
func (a *Authority) Issue(r Request) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	c := &x509.Certificate{Subject: pkix.Name{CommonName: r.Name}, NotBefore: time.Now().Add(-time.Minute),
		NotAfter: r.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if c.NotAfter.Before(c.NotBefore) {
		c.NotBefore = c.NotAfter.Add(-time.Minute)
	}
	if r.Server {
		c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, name := range r.Names {
		if ip := net.ParseIP(name); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else if strings.Contains(name, "://") {
			u, err := url.Parse(name)
			if err != nil {
				return nil, nil, fmt.Errorf("%q is no URI: %w", name, err)
			}
			c.URIs = append(c.URIs, u)
		} else if strings.Contains(name, "@") {
			c.EmailAddresses = append(c.EmailAddresses, name)
		} else {
			c.DNSNames = append(c.DNSNames, name)
		}
	}
	signed, err := signCertificate(c, a.cert, private.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return encodePEM("CERTIFICATE", signed.Raw), encodePEM("PRIVATE KEY", der), nil
}

// PEM returns the certificate of the authority.
func (a *Authority) PEM() []byte { return encodePEM("CERTIFICATE", a.cert.Raw) }

// Write writes a certificate as NAME.crt and its key as NAME.key into a directory. Existing files are
// replaced.
func (a *Authority) Write(dir, name string, r Request) (cert, key string, err error) {
	certText, keyText, err := a.Issue(r)
	if err != nil {
		return "", "", err
	}
	cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	if err := os.WriteFile(key, keyText, 0o600); err != nil {
		return "", "", err
	}
	return cert, key, os.WriteFile(cert, certText, 0o644)
}

func signCertificate(c, by *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, err
	}
	c.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, c, by, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
