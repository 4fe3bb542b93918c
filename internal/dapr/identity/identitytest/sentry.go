package identitytest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	sentryv1 "github.com/rousehq/rouse/api/dapr/sentry/v1"
)

// Sentry is a server of its protocol that signs every request.
type Sentry struct {
	sentryv1.UnimplementedCAServer
	Addr string
	ca   *CA

	mu    sync.Mutex
	lasts time.Duration
	fail  error
	id    string
	asked []*sentryv1.SignCertificateRequest
}

// StartSentry runs a Sentry until the test ends. self is its own SPIFFE id.
func StartSentry(t testing.TB, ca *CA, self string) *Sentry {
	t.Helper()
	cert, key := ca.Issue(t.TempDir(), self)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Sentry{Addr: l.Addr().String(), ca: ca, lasts: time.Hour}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair},
		MinVersion: tls.VersionTLS12})))
	sentryv1.RegisterCAServer(server, s)
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Stop(); running.Wait() })
	return s
}

// Set sets the lifetime of certificates from now on, the error that is returned instead if not nil, and the
// SPIFFE id to sign instead of the requested one if not "".
func (s *Sentry) Set(lasts time.Duration, fail error, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lasts, s.fail, s.id = lasts, fail, id
}

// SignBy makes another authority sign from now on.
func (s *Sentry) SignBy(ca *CA) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ca = ca
}

// Asked returns the requests received so far.
func (s *Sentry) Asked() []*sentryv1.SignCertificateRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// SignCertificate signs a request.
func (s *Sentry) SignCertificate(_ context.Context,
	r *sentryv1.SignCertificateRequest) (*sentryv1.SignCertificateResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(slices.Clip(s.asked), r)
	if s.fail != nil {
		return nil, s.fail
	}
	csr, err := requestOf(r.CertificateSigningRequest)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	id := s.id
	if id == "" {
		id = "spiffe://" + r.TrustDomain + "/ns/" + r.Namespace + "/" + r.Id
	}
	return &sentryv1.SignCertificateResponse{WorkloadCertificate: s.ca.Sign(csr.PublicKey, id, s.lasts),
		TrustChainCertificates: [][]byte{s.ca.Anchors},
		ValidUntil:             timestamppb.New(time.Now().Add(s.lasts))}, nil
}

func requestOf(text []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("no PEM block CERTIFICATE REQUEST")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	return csr, csr.CheckSignature()
}
