package certs

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
)

// Server is the TLS of listeners. Connections that exist when the files change keep the old ones.
type Server struct {
	files Files
	watch Watch
	now   atomic.Pointer[serving]
}

// serving is the material and configuration of handshakes.
type serving struct {
	*material
	config *tls.Config
}

// NewServer reads the files, of which Cert and Key are required. With authorities, clients may present a
// certificate, which has to lead to one of them. A certificate that has expired is accepted here, so that
// timers fire while clients are refused, and reported in the log.
func NewServer(f Files, log *slog.Logger) (*Server, error) {
	m, err := f.readFiles()
	if err != nil {
		return nil, err
	}
	if m.cert == nil {
		return nil, rouse.Refuse(f.CertName, "", "is missing", "name the certificate and the key of this server")
	}
	s := &Server{files: f, watch: Watch{Names: f.fileNames(), What: "TLS certificates", Log: log}}
	if _, err := s.watch.Read(); err != nil {
		return nil, err
	}
	s.setMaterial(m)
	if err := checkValidity(m.cert.Leaf, time.Now()); err != nil && log != nil {
		log.Error("clients refuse this server", "setting", f.CertName, "file", f.Cert, "error", err)
	}
	return s, nil
}

func (s *Server) setMaterial(m *material) {
	c := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		CipherSuites: suites, // of TLS 1.2; those of 1.3 are all good
		// in this order: clients that speak both, as browsers and curl, want JSON; gRPC speaks h2 only
		NextProtos:   []string{"http/1.1", "h2"},
		Certificates: []tls.Certificate{*m.cert},
	}
	if m.cas != nil {
		c.ClientAuth, c.ClientCAs = tls.VerifyClientCertIfGiven, m.cas
		if s.files.Required {
			c.ClientAuth = tls.RequireAndVerifyClientCert
		}
		c.SessionTicketsDisabled = true // a resumed session would not be checked against the current authorities
	}
	s.now.Store(&serving{m, c})
}

// suites are the cipher suites of TLS 1.2 with forward secrecy and authenticated encryption.
var suites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// Config returns the configuration of a listener, which uses the current files in each handshake.
func (s *Server) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config,
		error) {
		return s.now.Load().config, nil
	}}
}

// Run reads the files again when they change, until ctx ends. Files that cannot be used, or whose certificate
// has expired, change nothing.
func (s *Server) Run(ctx context.Context) {
	s.watch.Run(ctx, func(texts [][]byte) error {
		m, err := s.files.parseFiles(texts)
		if err != nil {
			return err
		}
		if err := checkValidity(m.cert.Leaf, time.Now()); err != nil {
			return rouse.Refuse(s.files.CertName, s.files.Cert, "is not used: "+err.Error(), "")
		}
		s.setMaterial(m)
		return nil
	})
}

// NotAfter returns when the certificate in use expires.
func (s *Server) NotAfter() time.Time { return s.now.Load().cert.Leaf.NotAfter }

// Stale reports whether the files cannot be used, so that their previous contents are in use.
func (s *Server) Stale() bool { return s.watch.Stale() }

// Mutual returns the configurations of connections between processes of one kind, here nodes: each presents
// its certificate, as a server and as a client. A peer is trusted if it has the same key, or if its
// certificate leads to the authorities and has one of the names; without names, one of those in this
// certificate. Names may begin with "*." for one label. Host names are not compared: nodes know each other by
// addresses.
func (s *Server) Mutual(names []string) (server, client *tls.Config) {
	check := func(state tls.ConnectionState) error { return s.checkPeer(state.PeerCertificates, names) }
	own := func() (*tls.Certificate, error) { return s.now.Load().cert, nil }
	server = &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, ClientAuth: tls.RequireAnyClientCert,
		VerifyConnection: check, SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own() }}
	// which replaces the check of the host name
	client = &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, InsecureSkipVerify: true,
		VerifyConnection:     check,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own() }}
	return server, client
}

// checkPeer returns why a chain is not that of a peer, or nil.
func (s *Server) checkPeer(chain []*x509.Certificate, names []string) error {
	if len(chain) == 0 {
		return errors.New("the peer has no certificate")
	}
	now, leaf := s.now.Load(), chain[0]
	if err := checkValidity(leaf, time.Now()); err != nil {
		return err
	}
	if key, ok := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); ok && key.Equal(now.cert.Leaf.PublicKey) {
		return nil
	}
	if now.cas == nil {
		return errors.New("the peer has another certificate, and " + s.files.CAName + " is not set")
	}
	if err := Verify(now.cas, chain); err != nil {
		return err
	}
	if len(names) == 0 {
		names = NamesOf(now.cert.Leaf)
	}
	for _, name := range NamesOf(leaf) {
		for _, allowed := range names {
			if Match(allowed, name) {
				return nil
			}
		}
	}
	return errors.New("the certificate of " + leaf.Subject.String() + " is not that of a peer")
}
