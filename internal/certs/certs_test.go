package certs

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func authority(t testing.TB) *Authority {
	t.Helper()
	a, err := NewAuthority("test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// write writes a certificate of an authority, its key, and the authority.
func write(t testing.TB, a *Authority, r Request) Files {
	t.Helper()
	dir := t.TempDir()
	if r.NotAfter.IsZero() {
		r.NotAfter = time.Now().Add(time.Hour)
	}
	cert, key, err := a.Write(dir, "it", r)
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(dir, "ca.crt")
	put(t, ca, a.PEM())
	return Files{Cert: cert, Key: key, CA: ca, CertName: "tls-cert", KeyName: "tls-key", CAName: "tls-client-ca"}
}

func put(t testing.TB, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestErrorsNameTheSetting: whatever is wrong with a file, the error has the setting, the file and the cure.
func TestErrorsNameTheSetting(t *testing.T) {
	a := authority(t)
	good, other := write(t, a, Request{Names: []string{"localhost"}, Server: true}), write(t, a, Request{})
	empty := filepath.Join(t.TempDir(), "empty")
	put(t, empty, nil)
	locked := filepath.Join(t.TempDir(), "locked")
	if err := os.Mkdir(locked, 0o700); err != nil { // reading a directory fails for every user
		t.Fatal(err)
	}
	with := func(edit func(*Files)) Files {
		f := good
		edit(&f)
		return f
	}
	for name, c := range map[string]struct {
		files Files
		want  []string
	}{
		"no certificate":    {with(func(f *Files) { f.Cert = "" }), []string{"tls-cert", "tls-key is set", "give both"}},
		"no key":            {with(func(f *Files) { f.Key = "" }), []string{"tls-key", "tls-cert is set", "give both"}},
		"missing file":      {with(func(f *Files) { f.Cert = "/nowhere/a.crt" }), []string{"tls-cert", "/nowhere/a.crt", "no such file"}},
		"unreadable key":    {with(func(f *Files) { f.Key = locked }), []string{"tls-key", locked, "cannot be read"}},
		"key of another":    {with(func(f *Files) { f.Key = other.Key }), []string{"tls-key", other.Key, "not the key of the certificate", good.Cert}},
		"key as a cert":     {with(func(f *Files) { f.Cert = good.Key }), []string{"tls-cert", "no certificate"}},
		"cert as a key":     {with(func(f *Files) { f.Key = good.Cert }), []string{"tls-key", "private key"}},
		"empty certificate": {with(func(f *Files) { f.Cert = empty }), []string{"tls-cert", "no PEM block"}},
		"empty authorities": {with(func(f *Files) { f.CA = empty }), []string{"tls-client-ca", empty, "no authorities"}},
		"missing CA":        {with(func(f *Files) { f.CA = "/nowhere/ca" }), []string{"tls-client-ca", "/nowhere/ca"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewServer(c.files, nil)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %q", want, err)
				}
			}
			if inv, ok := c.files.Check().(*rouse.Invalid); !ok || len(inv.Problems) != 1 {
				t.Errorf("not one problem: %v", inv)
			}
			if _, err := c.files.Client(); err == nil {
				t.Error("a client takes the files")
			}
		})
	}
	if p := good.Check(); p != nil {
		t.Errorf("good files: %v", p)
	}
	if p := (Files{}).Check(); p != nil {
		t.Errorf("no files: %v", p)
	}
}

// shake connects a client with a server, and returns what each saw.
func shake(t testing.TB, server, client *tls.Config) (at *tls.Conn, serverErr, clientErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") // a net.Pipe has no buffer, so both ends of a failed handshake would wait for each other
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	s, c := tls.Server(a, server), tls.Client(b, client)
	t.Cleanup(func() { a.Close(); b.Close() })
	var both sync.WaitGroup
	both.Go(func() {
		if serverErr = s.Handshake(); serverErr == nil {
			_, serverErr = s.Write([]byte("x"))
		}
		if serverErr != nil {
			a.Close()
		}
	})
	both.Go(func() {
		if clientErr = c.Handshake(); clientErr == nil {
			_, clientErr = c.Read(make([]byte, 1)) // with TLS 1.3 the client learns here that it was refused
		}
		if clientErr != nil {
			b.Close()
		}
	})
	both.Wait()
	return s, serverErr, clientErr
}

// TestHandshakes: which clients and servers trust each other.
func TestHandshakes(t *testing.T) {
	ours, theirs := authority(t), authority(t)
	serverFiles := write(t, ours, Request{Names: []string{"localhost", "127.0.0.1"}, Server: true})
	server, err := NewServer(serverFiles, nil)
	if err != nil {
		t.Fatal(err)
	}
	trusting := func(f Files) *tls.Config {
		f.CA = serverFiles.CA
		c, err := f.Client()
		if err != nil {
			t.Fatal(err)
		}
		c.ServerName = "localhost"
		return c
	}
	plain := func() *tls.Config { return trusting(Files{}) }
	past := time.Now().Add(-time.Minute)
	for name, c := range map[string]struct {
		client     *tls.Config
		edit       func(*tls.Config)
		ok, chains bool
		why        string
	}{
		"without a certificate": {client: plain(), ok: true},
		"with one":              {client: trusting(write(t, ours, Request{Names: []string{"spiffe://a/b"}})), ok: true, chains: true},
		"of another authority":  {client: trusting(write(t, theirs, Request{})), why: "certificate"},
		"expired":               {client: trusting(write(t, ours, Request{NotAfter: past})), why: "certificate"},
		"TLS 1.2":               {client: plain(), edit: func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, ok: true},
		"TLS 1.1":               {client: plain(), edit: func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, why: "protocol version"},
		"CBC": {client: plain(), edit: func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}
		}, why: "handshake failure"},
		"wrong name":               {client: plain(), edit: func(c *tls.Config) { c.ServerName = "rouse.example" }, why: "rouse.example"},
		"an address in it":         {client: plain(), edit: func(c *tls.Config) { c.ServerName = "127.0.0.1" }, ok: true},
		"an address not in it":     {client: plain(), edit: func(c *tls.Config) { c.ServerName = "10.0.0.1" }, why: "10.0.0.1"},
		"wrong authority":          {client: plain(), edit: func(c *tls.Config) { c.RootCAs = x509.NewCertPool() }, why: "unknown authority"},
		"a server's as a client's": {client: trusting(serverFiles), ok: true, chains: true},
		"without names":            {client: trusting(write(t, ours, Request{})), ok: true, chains: true}, // which no rule grants anything
		"self-signed":              {client: plain(), edit: shows(forged(t, nil, nil)), why: "certificate"},
		"self-signed, with the subject of the authority": {client: plain(), edit: shows(forged(t, nil, func(c *x509.Certificate) { c.Subject, c.IsCA = ours.cert.Subject, true })), why: "certificate"},
		"signed by a certificate that is no authority":   {client: plain(), edit: shows(forged(t, leafOf(t, write(t, ours, Request{})), nil)), why: "certificate"},
		"not valid yet":    {client: plain(), edit: shows(forged(t, ours.pair(), func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) })), why: "certificate"},
		"for servers only": {client: plain(), edit: shows(forged(t, ours.pair(), func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })), why: "certificate"},
		"with the key of another": {client: plain(), edit: shows(func() *tls.Certificate {
			c := forged(t, ours.pair(), nil)
			c.PrivateKey = forged(t, nil, nil).PrivateKey
			return c
		}()), why: "decrypt"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.edit != nil {
				c.edit(c.client)
			}
			at, serverErr, clientErr := shake(t, server.Config(), c.client)
			if ok := serverErr == nil && clientErr == nil; ok != c.ok {
				t.Fatalf("server: %v, client: %v", serverErr, clientErr)
			}
			if !c.ok && !strings.Contains(clientErr.Error(), c.why) {
				t.Errorf("%q is not in %q", c.why, clientErr)
			}
			if c.ok && (len(at.ConnectionState().VerifiedChains) > 0) != c.chains {
				t.Errorf("chains: %v", at.ConnectionState().VerifiedChains)
			}
		})
	}
	expiredServer, err := NewServer(write(t, ours, Request{Names: []string{"localhost"}, Server: true, NotAfter: past}), nil)
	if err != nil {
		t.Fatalf("a node with an expired certificate does not start, so that its timers do not fire: %v", err)
	}
	if _, _, err := shake(t, expiredServer.Config(), plain()); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("an expired server: %v", err)
	}
}

// forged returns a certificate that by signs, or that signs itself.
func forged(t testing.TB, by *tls.Certificate, edit func(*x509.Certificate)) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{Subject: pkix.Name{CommonName: "forged"}, DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(2 * time.Hour),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if edit != nil {
		edit(c)
	}
	parent, signer, chain := c, crypto.Signer(key), [][]byte(nil)
	if by != nil {
		parent, signer, chain = by.Leaf, by.PrivateKey.(crypto.Signer), by.Certificate
	}
	signed, err := signCertificate(c, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: append([][]byte{signed.Raw}, chain...), PrivateKey: key, Leaf: signed}
}

// pair returns the authority as what signs.
func (a *Authority) pair() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{a.cert.Raw}, PrivateKey: a.key, Leaf: a.cert}
}

func leafOf(t testing.TB, f Files) *tls.Certificate {
	t.Helper()
	m, err := f.readFiles()
	if err != nil {
		t.Fatal(err)
	}
	return m.cert
}

// shows makes a client present a certificate, whichever authorities the server asks for.
func shows(c *tls.Certificate) func(*tls.Config) {
	return func(client *tls.Config) {
		client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c, nil }
	}
}

// TestAuthoritiesAreReplaced: after a reload, clients of the old authorities are refused, also those that
// resume a session.
func TestAuthoritiesAreReplaced(t *testing.T) {
	before, after := authority(t), authority(t)
	files := write(t, before, Request{Names: []string{"localhost"}, Server: true})
	server, err := NewServer(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	listener := server.Config()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		client, err := write(t, before, Request{Names: []string{"spiffe://a/b"}}).Client()
		if err != nil {
			t.Fatal(err)
		}
		client.RootCAs, client.ServerName, client.MaxVersion, client.ClientSessionCache = server.now.Load().cas, "localhost", version, tls.NewLRUClientSessionCache(4)
		for range 2 {
			if at, serverErr, clientErr := shake(t, listener, client); serverErr != nil || clientErr != nil || len(at.ConnectionState().VerifiedChains) == 0 {
				t.Fatalf("before: %v, %v", serverErr, clientErr)
			}
		}
		m := *server.now.Load().material
		if m.cas, err = ParsePool(after.PEM()); err != nil {
			t.Fatal(err)
		}
		old := server.now.Load().material
		server.setMaterial(&m)
		if at, serverErr, clientErr := shake(t, listener, client); serverErr == nil && clientErr == nil {
			t.Errorf("a client of the old authority is served; its session was resumed: %v", at.ConnectionState().DidResume)
		}
		server.setMaterial(old)
	}
}

// TestProtocols: a client that speaks both protocols gets HTTP/1, which has the JSON API; gRPC speaks HTTP/2
// only.
func TestProtocols(t *testing.T) {
	files := write(t, authority(t), Request{Names: []string{"localhost"}, Server: true})
	server, err := NewServer(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := Files{CA: files.CA}.Client()
	if err != nil {
		t.Fatal(err)
	}
	client.ServerName = "localhost"
	for want, protos := range map[string][]string{"http/1.1": {"h2", "http/1.1"}, "h2": {"h2"}, "": nil} {
		client.NextProtos = protos
		at, _, err := shake(t, server.Config(), client)
		if got := at.ConnectionState().NegotiatedProtocol; err != nil || got != want {
			t.Errorf("%v: %q, %v", protos, got, err)
		}
	}
}

// TestReload: new connections use changed files, existing ones go on, and files that cannot be used change
// nothing.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := authority(t)
		files := write(t, a, Request{Names: []string{"old"}, Server: true})
		var log bytes.Buffer
		s, err := NewServer(files, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx) })
		defer running.Wait()
		defer cancel()
		replace := func(r Request) {
			cert, key, err := a.Issue(r)
			if err != nil {
				t.Fatal(err)
			}
			if r.Name != "" {
				key = []byte(r.Name)
			}
			put(t, files.Cert, cert)
			put(t, files.Key, key)
			time.Sleep(2 * watchEvery)
			synctest.Wait()
		}
		serves := func(want string) {
			t.Helper()
			if got := s.now.Load().cert.Leaf.DNSNames[0]; got != want {
				t.Errorf("it serves %s, not %s", got, want)
			}
		}
		hour := time.Now().Add(time.Hour)
		client, _ := Files{CA: files.CA}.Client()
		client.ServerName = "old"
		open, _, err := shake(t, s.Config(), client)
		if err != nil {
			t.Fatal(err)
		}
		replace(Request{Names: []string{"new"}, Server: true, NotAfter: hour})
		serves("new")
		if open.ConnectionState().ServerName != "old" || s.Stale() || !s.NotAfter().Equal(hour.Truncate(time.Second)) {
			t.Errorf("stale: %v, expires %v", s.Stale(), s.NotAfter())
		}
		replace(Request{Name: "broken", Names: []string{"broken"}, Server: true, NotAfter: hour})
		serves("new")
		if !s.Stale() || strings.Count(log.String(), "not read again") != 1 || !strings.Contains(log.String(), "tls-key") {
			t.Errorf("stale: %v, log: %s", s.Stale(), log.String())
		}
		time.Sleep(10 * watchEvery)
		synctest.Wait()
		if strings.Count(log.String(), "not read again") != 1 {
			t.Error("the same error is logged again")
		}
		replace(Request{Names: []string{"expired"}, Server: true, NotAfter: time.Now().Add(-time.Minute)})
		serves("new")
		if !s.Stale() || !strings.Contains(log.String(), "has expired") {
			t.Errorf("stale: %v, log: %s", s.Stale(), log.String())
		}
		replace(Request{Names: []string{"good"}, Server: true, NotAfter: hour})
		if serves("good"); s.Stale() {
			t.Error("it is stale")
		}
		if err := os.Remove(files.CA); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * watchEvery)
		synctest.Wait()
		if serves("good"); !s.Stale() {
			t.Error("a file is missing, and it is not stale")
		}
	})
}

// TestPeers: nodes trust nodes, and no other certificate of their authority.
func TestPeers(t *testing.T) {
	ours, theirs := authority(t), authority(t)
	files := write(t, ours, Request{Names: []string{"a.nodes.rouse", "spiffe://rouse/node"}, Server: true})
	node, err := NewServer(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	alone := files
	alone.CA = ""
	same, err := NewServer(alone, nil) // the same certificate, without authorities
	if err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Minute)
	for name, c := range map[string]struct {
		by    *Authority
		r     Request
		names []string
		ok    bool
	}{
		"a shared URI":              {ours, Request{Names: []string{"spiffe://rouse/node"}}, nil, true},
		"another URI":               {ours, Request{Names: []string{"spiffe://rouse/node2"}}, nil, false},
		"another host":              {ours, Request{Names: []string{"b.nodes.rouse"}}, nil, false},
		"a host of the pattern":     {ours, Request{Names: []string{"b.nodes.rouse"}}, []string{"*.nodes.rouse"}, true},
		"two labels":                {ours, Request{Names: []string{"b.c.nodes.rouse"}}, []string{"*.nodes.rouse"}, false},
		"a wildcard in it":          {ours, Request{Names: []string{"*.nodes.rouse"}}, []string{"*.nodes.rouse"}, false},
		"the subject only":          {ours, Request{Name: "a.nodes.rouse"}, nil, false},
		"another authority":         {theirs, Request{Names: []string{"spiffe://rouse/node"}}, nil, false},
		"expired":                   {ours, Request{Names: []string{"spiffe://rouse/node"}, NotAfter: past}, nil, false},
		"own names count no more":   {ours, Request{Names: []string{"spiffe://rouse/node"}}, []string{"*.nodes.rouse"}, false},
		"a client of the same kind": {ours, Request{Names: []string{"shop@example.com"}}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			other, err := NewServer(write(t, c.by, c.r), nil)
			if err != nil {
				t.Fatal(err)
			}
			server, _ := node.Mutual(c.names)
			// A client that trusts any server, so that the server alone decides.
			client := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{*other.now.Load().cert}}
			if _, serverErr, clientErr := shake(t, server, client); (serverErr == nil && clientErr == nil) != c.ok {
				t.Errorf("as a client: %v, %v", serverErr, clientErr)
			}
			_, client = node.Mutual(c.names)
			server = &tls.Config{NextProtos: []string{"h2"}, Certificates: []tls.Certificate{*other.now.Load().cert}}
			if _, _, clientErr := shake(t, server, client); (clientErr == nil) != c.ok {
				t.Errorf("as a server: %v", clientErr)
			}
		})
	}
	server, _ := node.Mutual(nil)
	if _, _, err := shake(t, server, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}); err == nil {
		t.Error("a client without a certificate is a peer")
	}
	server, _ = same.Mutual(nil)
	_, client := same.Mutual(nil)
	if _, serverErr, clientErr := shake(t, server, client); serverErr != nil || clientErr != nil {
		t.Errorf("nodes with the same certificate: %v, %v", serverErr, clientErr)
	}
	_, client = node.Mutual(nil)
	if _, serverErr, clientErr := shake(t, server, client); serverErr != nil || clientErr != nil {
		t.Errorf("one of them has authorities: %v, %v", serverErr, clientErr)
	}
}

// TestChainsThatAreRefused: without a handshake, which would not get that far.
func TestChainsThatAreRefused(t *testing.T) {
	a := authority(t)
	files := write(t, a, Request{Names: []string{"a.nodes.rouse"}, Server: true})
	node, err := NewServer(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	files.CA = ""
	alone, err := NewServer(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	own := node.now.Load().cert.Leaf
	future := *own
	future.NotBefore = time.Now().Add(time.Minute)
	other, err := NewServer(write(t, a, Request{Names: []string{"a.nodes.rouse"}}), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"none":                      {node.checkPeer(nil, nil), "no certificate"},
		"of the future":             {node.checkPeer([]*x509.Certificate{&future}, nil), "is not valid before"},
		"without authorities":       {alone.checkPeer([]*x509.Certificate{other.now.Load().cert.Leaf}, nil), "is not set"},
		"none, by authorities":      {Verify(node.now.Load().cas, nil), "no certificate"},
		"a PEM block of no DER":     {second(ParseChain([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))), "x509"},
		"a server without a file":   {second(NewServer(Files{CA: files.CA, CertName: "tls-cert"}, nil)), "is missing"},
		"a server with authorities": {second(NewServer(Files{CA: write(t, a, Request{}).CA, CertName: "tls-cert"}, nil)), "is missing"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, c.err, c.want)
		}
	}
	if err := node.checkPeer([]*x509.Certificate{other.now.Load().cert.Leaf}, nil); err != nil {
		t.Errorf("a peer: %v", err)
	}
	if err := alone.checkPeer([]*x509.Certificate{own}, nil); err != nil {
		t.Errorf("one with the same key: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestPatterns: those that would match nothing, or more than they seem to, are refused.
func TestPatterns(t *testing.T) {
	for pattern, ok := range map[string]bool{
		"a.example.com": true, "*.example.com": true, "spiffe://td/a": true, "spiffe://td/*": true, "spiffe://td/a/*": true, "a@example.com": true,
		"": false, "*": false, "*.": false, "*.com": false, "*.example.com/x": false, "*.a@example.com": false, "*.example.com:1": false, "a*": false, "*a.example.com": false, "a.*.com": false,
		"*.*.example.com": false, "spiffe://td/*/*": false, "spiffe://*": false, "spiffe://td*": false, "spiffe://td/a*": false, "spiffe:/td/*": false, "td/*": false, "a.example.com/x/*": false,
		strings.Repeat("a", 2049): false, strings.Repeat("a", 2048): true,
	} {
		if err := CheckPattern(pattern); (err == nil) != ok {
			t.Errorf("%.50q: %v, want %v", pattern, err, ok)
		}
	}
}

// FuzzFiles: no contents of files make reading them panic, and what is accepted has a certificate.
func FuzzFiles(f *testing.F) {
	a := authority(f)
	cert, key, err := a.Issue(Request{Names: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour), Server: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(cert, key, a.PEM())
	f.Add(key, cert, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Add(append(bytes.Clone(key), cert...), append(bytes.Clone(cert), key...), append(a.PEM(), a.PEM()...))
	files := Files{Cert: "c", Key: "k", CA: "a", CertName: "tls-cert", KeyName: "tls-key", CAName: "tls-client-ca"}
	f.Fuzz(func(t *testing.T, cert, key, ca []byte) {
		m, err := files.parseFiles([][]byte{cert, key, ca})
		if err == nil && (m.cert.Leaf == nil || m.cas == nil) {
			t.Error("accepted, and nothing was read")
		}
		if err == nil {
			NamesOf(m.cert.Leaf)
		}
	})
}
