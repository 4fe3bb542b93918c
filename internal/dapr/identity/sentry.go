package identity

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	sentryv1 "github.com/rousehq/rouse/api/dapr/sentry/v1"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/certs"
)

// Sentry is Dapr's certificate authority and the identity to request from it.
type Sentry struct {
	Address      string // HOST:PORT
	TrustAnchors string // PEM file, which is read again when it changes
	Self         ID     // the id to request: a part of the control plane, such as dapr-scheduler in its namespace

	// TokenFile contains the token that authenticates the request. Default: the pod's token if Kubernetes is
	// set, else none.
	TokenFile  string
	Kubernetes bool // the token is a service account token

	Log   *slog.Logger  // default none
	Every time.Duration // how often the files are checked; default 2 s
}

// Bounds of requests. The wait doubles after each failure.
const (
	askWithin  = 10 * time.Second
	askAgain   = 250 * time.Millisecond
	askSeldom  = 10 * time.Second
	maxAnswer  = 1 << 20
	sentryName = "dapr-sentry"
)

// podTokens are the paths of a pod's token, with the one made for Sentry first.
var podTokens = []string{"/var/run/secrets/dapr.io/sentrytoken/token",
	"/var/run/secrets/kubernetes.io/serviceaccount/token"}

// FromSentry returns an identity that Sentry signs. Run requests the first certificate, and a new one, with a
// new key, when half of the lifetime has passed. FromSentry fails if the trust anchors cannot be read, but
// not if Sentry does not answer.
func FromSentry(s Sentry) (*Identity, error) {
	s.Log = orSilent(s.Log)
	i := newIdentity()
	w := certs.Watch{Names: []string{s.TrustAnchors}, What: "trust anchors", Log: s.Log, Every: s.Every}
	texts, err := w.Read()
	if err != nil {
		return nil, err
	}
	anchors, err := parseAnchors(s.TrustAnchors, texts[0])
	if err != nil {
		return nil, err
	}
	i.replaceMaterial(&material{anchors: anchors})
	i.run = func(ctx context.Context) {
		var parts sync.WaitGroup
		parts.Go(func() { w.Run(ctx, func(texts [][]byte) error { return s.applyAnchors(i, texts) }) })
		s.renewCertificates(ctx, i)
		parts.Wait()
	}
	return i, nil
}

// applyAnchors uses changed trust anchors.
func (s *Sentry) applyAnchors(i *Identity, texts [][]byte) error {
	anchors, err := parseAnchors(s.TrustAnchors, texts[0])
	if err == nil {
		i.editMaterial(func(m *material) { m.anchors = anchors })
	}
	return err
}

// renewCertificates requests certificates until ctx ends.
func (s *Sentry) renewCertificates(ctx context.Context, i *Identity) {
	for b := backoff.New(askAgain, askSeldom); b.Wait(ctx); {
		cert, err := s.requestCertificate(ctx, i)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.Log.Warn("no certificate; will ask again", "sentry", s.Address, "error", err)
			continue
		}
		i.editMaterial(func(m *material) { m.cert = cert })
		left := time.Until(cert.Leaf.NotAfter)
		wait := max(left/2, askAgain)
		s.Log.Info("certificate", "id", cert.Leaf.URIs[0].String(), "until", cert.Leaf.NotAfter, "asks again",
			time.Now().Add(wait))
		backoff.Sleep(ctx, wait)
		b.Reset()
	}
}

// requestCertificate requests one certificate.
func (s *Sentry) requestCertificate(ctx context.Context, i *Identity) (*tls.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	token, validator, err := s.readSentryToken(podTokens)
	if err != nil {
		return nil, err
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, err
	}
	sentry := ID{s.Self.TrustDomain, s.Self.Namespace, sentryName}
	tlsOf := credentials.NewTLS(clientConfig(func() *material { return i.now.Load() }, Only(sentry)))
	conn, err := grpc.NewClient("passthrough:///"+s.Address, grpc.WithTransportCredentials(tlsOf), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	answer, err := sentryv1.NewCAClient(conn).SignCertificate(ctx, &sentryv1.SignCertificateRequest{
		Id: s.Self.App, Namespace: s.Self.Namespace, TrustDomain: s.Self.TrustDomain, Token: token, TokenValidator: validator,
		CertificateSigningRequest: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}),
	})
	if err != nil {
		return nil, err
	}
	return s.checkSigned(i.now.Load(), key, answer.WorkloadCertificate)
}

// checkSigned checks a signed certificate: one that sidecars would refuse must be requested again.
func (s *Sentry) checkSigned(m *material, key ed25519.PrivateKey, text []byte) (*tls.Certificate, error) {
	chain, err := certs.ParseChain(text)
	if err != nil {
		return nil, fmt.Errorf("the answer: %w", err)
	}
	cert := &tls.Certificate{PrivateKey: key, Leaf: chain[0]}
	for _, c := range chain {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	signed, _ := chain[0].PublicKey.(ed25519.PublicKey)
	if !signed.Equal(key.Public()) {
		return nil, errors.New("the certificate is that of another key")
	}
	if err := verifyChain(m, chain); err != nil {
		return nil, fmt.Errorf("the certificate: %w", err)
	}
	if id, err := IDOf(chain[0]); err != nil || id != s.Self {
		return nil, fmt.Errorf("the certificate is that of %s, not of %s", chain[0].URIs[0], s.Self)
	}
	return cert, nil
}

// readSentryToken returns the token that authenticates the request, and its validator.
func (s *Sentry) readSentryToken(ofPod []string) (string, sentryv1.SignCertificateRequest_TokenValidator, error) {
	validator := sentryv1.SignCertificateRequest_UNKNOWN
	read := func(file string) (string, error) {
		text, err := os.ReadFile(file)
		if text = bytes.TrimSpace(text); err == nil && len(text) == 0 {
			err = fmt.Errorf("%s is empty", file)
		}
		return string(text), err
	}
	if s.TokenFile != "" {
		validator = sentryv1.SignCertificateRequest_JWKS
		if s.Kubernetes {
			validator = sentryv1.SignCertificateRequest_KUBERNETES
		}
		token, err := read(s.TokenFile)
		if err != nil {
			return "", validator, fmt.Errorf("the token for Sentry: %w", err)
		}
		return token, validator, nil
	}
	if s.Kubernetes {
		for _, file := range ofPod {
			if token, err := read(file); err == nil {
				return token, sentryv1.SignCertificateRequest_KUBERNETES, nil
			}
		}
	}
	// without a token, a pod sends the same request as a process outside Kubernetes; Sentry decides whether
	// to accept it
	return "", validator, nil
}
