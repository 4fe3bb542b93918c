package identity

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// filesEvery is how often the files are checked for changes.
const filesEvery = 2 * time.Second

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
	f.Log = orSilent(f.Log)
	i := newIdentity()
	last, m, err := f.read()
	if err != nil {
		return nil, err
	}
	i.set(m)
	i.run = func(ctx context.Context) {
		again(ctx, f.Every, f.Log, "certificates", func() (changed bool, err error) {
			texts, err := readAll(f.Certificate, f.Key, f.TrustAnchors)
			if err != nil || same(texts, last) {
				return false, err
			}
			m, err := f.parse(texts)
			if err != nil {
				return false, err
			}
			last = texts
			i.set(m)
			return true, nil
		})
	}
	return i, nil
}

func (f *Files) read() (texts [][]byte, m *material, err error) {
	if texts, err = readAll(f.Certificate, f.Key, f.TrustAnchors); err == nil {
		m, err = f.parse(texts)
	}
	return texts, m, err
}

// parse checks that key, certificate and trust anchors match: peers would refuse them otherwise.
func (f *Files) parse(texts [][]byte) (*material, error) {
	cert, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return nil, fmt.Errorf("%s and %s are no certificate and its key: %w", f.Certificate, f.Key, err)
	}
	m := &material{cert: &cert}
	if m.anchors, err = parseAnchors(f.TrustAnchors, texts[2]); err != nil {
		return nil, err
	}
	chain, err := parseChain(texts[0])
	if err == nil {
		err = verify(m, chain)
	}
	if err != nil {
		return nil, fmt.Errorf("the certificate in %s is not one that those who trust %s believe: %w", f.Certificate, f.TrustAnchors, err)
	}
	return m, nil
}

// again reloads changed files until ctx ends. It logs each error once until the error changes.
func again(ctx context.Context, every time.Duration, log *slog.Logger, what string, look func() (changed bool, err error)) {
	every = cmp.Or(every, filesEvery)
	tick := time.NewTicker(every)
	defer tick.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := look()
		switch {
		case err != nil && err.Error() != told:
			log.Warn("not read again; the old ones stay in force", "what", what, "error", err)
			told = err.Error()
		case err == nil:
			if told = ""; changed {
				log.Info("read again", "what", what)
			}
		}
	}
}

// readAll reads the files one after another. If some are old and some are new, they do not match, and are
// read again.
func readAll(names ...string) (texts [][]byte, err error) {
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

func same(a, b [][]byte) bool {
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func parseAnchors(name string, text []byte) (*x509.CertPool, error) {
	list, err := parseChain(text)
	if err != nil {
		return nil, fmt.Errorf("%s has no trust anchors: %w", name, err)
	}
	pool := x509.NewCertPool()
	for _, c := range list {
		pool.AddCert(c)
	}
	return pool, nil
}

// parseChain reads all certificates of a PEM text; there must be at least one.
func parseChain(text []byte) (list []*x509.Certificate, err error) {
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

func orSilent(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}
