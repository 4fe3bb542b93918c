package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"time"

	"github.com/rousehq/rouse/internal/certs"
)

// Files are the PEM files of an identity. They are read again when they change.
type Files struct {
	Certificate  string // followed by the intermediate certificates up to a trust anchor
	Key          string
	TrustAnchors string
	Log          *slog.Logger  // default none
	Every        time.Duration // how often the files are checked; default 2 s
}

// FromFiles returns the identity in files. It fails if they do not contain a valid one.
func FromFiles(f Files) (*Identity, error) {
	i := newIdentity()
	w := certs.Watch{Names: []string{f.Certificate, f.Key, f.TrustAnchors}, What: "certificates", Log: f.Log,
		Every: f.Every}
	texts, err := w.Read()
	if err != nil {
		return nil, err
	}
	m, err := f.parseMaterial(texts)
	if err != nil {
		return nil, err
	}
	i.replaceMaterial(m)
	i.run = func(ctx context.Context) {
		w.Run(ctx, func(texts [][]byte) error {
			m, err := f.parseMaterial(texts)
			if err == nil {
				i.replaceMaterial(m)
			}
			return err
		})
	}
	return i, nil
}

// parseMaterial checks that key, certificate and trust anchors match: peers would refuse them otherwise.
func (f *Files) parseMaterial(texts [][]byte) (*material, error) {
	cert, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return nil, fmt.Errorf("%s and %s are no certificate and its key: %w", f.Certificate, f.Key, err)
	}
	m := &material{cert: &cert}
	if m.anchors, err = parseAnchors(f.TrustAnchors, texts[2]); err != nil {
		return nil, err
	}
	chain, err := certs.ParseChain(texts[0])
	if err == nil {
		err = verifyChain(m, chain)
	}
	if err != nil {
		return nil, fmt.Errorf("the certificate in %s is not one that those who trust %s believe: %w", f.Certificate,
			f.TrustAnchors, err)
	}
	return m, nil
}

func parseAnchors(name string, text []byte) (*x509.CertPool, error) {
	pool, err := certs.ParsePool(text)
	if err != nil {
		return nil, fmt.Errorf("%s has no trust anchors: %w", name, err)
	}
	return pool, nil
}

func orSilent(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}
