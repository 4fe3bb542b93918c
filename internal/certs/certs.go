// Package certs reads TLS certificates, keys and authorities from PEM files, for servers, clients and nodes,
// and reads the files again when they change:
//
//	Watch ─► files that are read again when their contents change
//	Server ─► the tls.Config of listeners, which a Watch keeps up to date
//	Files.Client ─► the tls.Config of one connection of a client; it is called for each
//	Authority ─► certificates for trials and tests
//
// Errors name the setting of the file that is wrong.
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/rousehq/rouse"
)

// Files are PEM files.
type Files struct {
	Cert string // a certificate, followed by its intermediate ones
	Key  string // its private key
	CA   string // authorities by which peers are trusted; "" is the system's for clients, and none for servers

	Required bool // clients of a server with authorities have to present a certificate; otherwise they may

	// Names of the settings, for errors.
	CertName, KeyName, CAName string
}

// Check returns the fault of the files, if one can be found without a peer.
func (f Files) Check() error {
	if f.Cert == "" && f.Key == "" && f.CA == "" {
		return nil
	}
	_, err := f.readFiles()
	return err
}

// material is the content of the files.
type material struct {
	cert *tls.Certificate // nil: there is none
	cas  *x509.CertPool   // nil: there are none
}

func (f *Files) fileNames() (list []string) {
	for _, name := range []string{f.Cert, f.Key, f.CA} {
		if name != "" {
			list = append(list, name)
		}
	}
	return list
}

// readFiles reads the files.
func (f *Files) readFiles() (*material, error) {
	if (f.Cert == "") != (f.Key == "") {
		have, missing := f.CertName, f.KeyName
		if f.Cert == "" {
			have, missing = missing, have
		}
		return nil, rouse.Refuse(missing, "", "is empty, and "+have+" is set", "give both, or neither")
	}
	var texts [][]byte
	for _, file := range []struct{ setting, name string }{{f.CertName, f.Cert}, {f.KeyName, f.Key}, {f.CAName, f.CA}} {
		if file.name == "" {
			continue
		}
		text, err := os.ReadFile(file.name)
		if err != nil {
			return nil, rouse.Refuse(file.setting, file.name, "cannot be read: "+fileErrorCause(err),
				"name a PEM file that this process can read")
		}
		texts = append(texts, text)
	}
	return f.parseFiles(texts)
}

// parseFiles parses the contents of the files.
func (f *Files) parseFiles(texts [][]byte) (*material, error) {
	m := &material{}
	if f.Cert != "" {
		if _, err := ParseChain(texts[0]); err != nil {
			return nil, rouse.Refuse(f.CertName, f.Cert, "has no certificate: "+err.Error(),
				"name a PEM file that begins with the certificate")
		}
		pair, err := tls.X509KeyPair(texts[0], texts[1])
		if err != nil {
			return nil, rouse.Refuse(f.KeyName, f.Key, "is not the key of the certificate in "+f.Cert+": "+err.Error(),
				"name the private key, in PEM and without a password, of "+f.CertName)
		}
		m.cert, texts = &pair, texts[2:]
	}
	if f.CA != "" {
		var err error
		if m.cas, err = ParsePool(texts[0]); err != nil {
			return nil, rouse.Refuse(f.CAName, f.CA, "has no authorities: "+err.Error(), "name a PEM file of certificates")
		}
	}
	return m, nil
}

// Client returns the TLS configuration of one connection of a client. Callers call it for each connection, so
// that the files can be replaced.
func (f Files) Client() (*tls.Config, error) {
	m, err := f.readFiles()
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: m.cas}
	if m.cert != nil {
		c.Certificates = []tls.Certificate{*m.cert}
	}
	return c, nil
}

// ParseChain reads all certificates of a PEM text; there must be at least one.
func ParseChain(text []byte) (list []*x509.Certificate, err error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, errors.New("there is no PEM block CERTIFICATE")
	}
	return list, nil
}

// ParsePool reads authorities.
func ParsePool(text []byte) (*x509.CertPool, error) {
	list, err := ParseChain(text)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, c := range list {
		pool.AddCert(c)
	}
	return pool, nil
}

// Verify returns why a chain does not lead to one of the authorities, or nil. The certificate may be of a
// client or of a server.
func Verify(cas *x509.CertPool, chain []*x509.Certificate) error {
	if len(chain) == 0 {
		return errors.New("there is no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: cas, Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err
}

// checkValidity returns an error if a certificate is not valid at a time.
func checkValidity(c *x509.Certificate, now time.Time) error {
	switch {
	case now.After(c.NotAfter):
		return fmt.Errorf("the certificate has expired at %s", c.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(c.NotBefore):
		return fmt.Errorf("the certificate is not valid before %s", c.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// fileErrorCause returns the cause of a file error without the path, which the caller names.
func fileErrorCause(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}
