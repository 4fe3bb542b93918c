package node

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/certs"
	"github.com/rousehq/rouse/internal/dapr/identity/identitytest"
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// TestDoorsRefuseOldTLS: with a certificate, the API, the admin port and the listener of a node that manages
// pools only take TLS 1.2 and 1.3, and nothing else; the last one from clients with a certificate only.
func TestDoorsRefuseOldTLS(t *testing.T) {
	dir := t.TempDir()
	a, err := certs.NewAuthority("test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := a.Write(dir, "server", certs.Request{Names: []string{"127.0.0.1"}, Server: true, NotAfter: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(dir, "authority.crt")
	if err := os.WriteFile(ca, a.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	clientCert, clientKey, err := a.Write(dir, "client", certs.Request{Names: []string{"spiffe://test/client"}, NotAfter: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	mine, err := tls.LoadX509KeyPair(clientCert, clientKey)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.PEM())

	whole := Defaults()
	whole.Store, whole.Listen, whole.Admin, whole.Data = "mem:", "127.0.0.1:0", "127.0.0.1:0", t.TempDir()
	pools, tr := poolsOnly(t)
	tr.state.Store("leading")
	for _, c := range []*Config{&whole, &pools} {
		c.TLSCert, c.TLSKey, c.TLSClientCA = cert, key, ca
	}
	api, admin, stop := serve(t, whole)
	defer stop()
	_, pool, stopPools := serve(t, pools)
	defer stopPools()

	get := func(at string, version uint16, show ...tls.Certificate) error {
		transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: show, MinVersion: version, MaxVersion: version}}
		answer, err := (&http.Client{Transport: transport}).Get("https://" + at)
		if err == nil {
			answer.Body.Close()
		}
		return err
	}
	for door, at := range map[string]string{"the API": api + "/v1/version", "the admin port": admin + "/livez", "the listener of pools": pool + "/livez"} {
		for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12, tls.VersionTLS13} {
			if err := get(at, version, mine); (err == nil) != (version >= tls.VersionTLS12) {
				t.Errorf("%s with %s: %v", door, tls.VersionName(version), err)
			}
		}
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			if err := get(at, version); (err == nil) == (at == pool+"/livez") {
				t.Errorf("%s with %s, without a certificate: %v", door, tls.VersionName(version), err)
			}
		}
		if answer, err := http.Get("http://" + at); err == nil {
			if answer.Body.Close(); answer.StatusCode != http.StatusBadRequest {
				t.Errorf("%s in plain text: %s", door, answer.Status)
			}
		}
	}
}

// tlsDoor is a listener with TLS, and what docs/tls.md has about it.
type tlsDoor struct {
	name, at string
	least    uint16          // version
	asks     bool            // for a certificate, without which nothing is served
	roots    *x509.CertPool  // of its own certificate
	mine     tls.Certificate // of a caller whom it serves
	others   map[string]tls.Certificate
}

// enter makes a connection, and returns the certificate of the server; an error if it is refused, which
// clients learn from the first answer with TLS 1.3.
func (d *tlsDoor) enter(c *tls.Config) (*x509.Certificate, error) {
	c.RootCAs, c.NextProtos, c.ServerName = d.roots, []string{"h2"}, "127.0.0.1"
	if d.asks { // its certificate has a name of its own, which is not compared here
		c.InsecureSkipVerify = true
		c.VerifyConnection = func(s tls.ConnectionState) error {
			between := x509.NewCertPool()
			for _, c := range s.PeerCertificates[1:] {
				between.AddCert(c)
			}
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: d.roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
			return err
		}
	}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: poll.Patience}, "tcp", d.at, c)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(poll.Patience))
	if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		return nil, err
	}
	_, err = conn.Read(make([]byte, 1))
	return conn.ConnectionState().PeerCertificates[0], err
}

// TestDoorsHoldToTheirTLS tries the doors of a node for clients, sidecars and other nodes with each version,
// each cipher suite and each kind of certificate, and replaces the files of their own.
func TestDoorsHoldToTheirTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority := func() (*certs.Authority, string, *x509.CertPool) {
		a, err := certs.NewAuthority("test", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		pool, file := x509.NewCertPool(), filepath.Join(t.TempDir(), "ca.crt")
		pool.AppendCertsFromPEM(a.PEM())
		if err := os.WriteFile(file, a.PEM(), 0o600); err != nil {
			t.Fatal(err)
		}
		return a, file, pool
	}
	load := func(cert, key string) tls.Certificate {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	a, ca, roots := authority()
	stranger, _, _ := authority()
	write := func(a *certs.Authority, dir, name string, lasts time.Duration, names ...string) (cert, key string) {
		cert, key, err := a.Write(dir, name, certs.Request{Names: names, Server: name == "server", NotAfter: time.Now().Add(lasts)})
		if err != nil {
			t.Fatal(err)
		}
		return cert, key
	}
	of := func(a *certs.Authority, lasts time.Duration, names ...string) tls.Certificate {
		return load(write(a, t.TempDir(), "client", lasts, names...))
	}
	apps, foreign := identitytest.NewCA(t), identitytest.NewCA(t)
	const app, scheduler, peer = "spiffe://localhost/ns/default/shop", "spiffe://localhost/ns/default/dapr-scheduler", "spiffe://test/node"
	anchors, err := os.ReadFile(apps.AnchorsFile)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(anchors)

	c := placed(t, servers.Redis(t), "n")
	c.Admin, c.Reminders, c.NodesListen, c.NodeNames = "127.0.0.1:0", true, "127.0.0.1:0", Names{peer}
	c.TLSCert, c.TLSKey = write(a, dir, "server", time.Hour, "127.0.0.1", peer)
	c.TLSClientCA = ca
	c.DaprListen, c.DaprTrustAnchors = "127.0.0.1:0", apps.AnchorsFile
	c.DaprCert, c.DaprKey = apps.Issue(dir, scheduler)
	n, err := assembleNode(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	run(t, n)
	nodes := ""
	poll.Until(t, "the node publishes its address for others", func() bool {
		list, err := n.cluster.nodes(t.Context())
		if err == nil && len(list) == 1 {
			nodes = parts.PublishedBy(list[0].Data).Peer
		}
		return nodes != ""
	})
	strangers := map[string]tls.Certificate{"of another authority": of(stranger, time.Hour, peer), "that has expired": of(a, -time.Minute, peer)}
	doors := []tlsDoor{
		{"the API", n.Addr(), tls.VersionTLS12, false, roots, of(a, time.Hour, "spiffe://test/client"), strangers},
		{"the admin port", n.AdminAddr(), tls.VersionTLS12, false, roots, of(a, time.Hour, "spiffe://test/client"), strangers},
		{"the door of nodes", nodes, tls.VersionTLS13, true, roots, of(a, time.Hour, peer), map[string]tls.Certificate{"of another authority": strangers["of another authority"],
			"that has expired": strangers["that has expired"], "of a client": of(a, time.Hour, "spiffe://test/client"), "of an app": load(apps.Issue(t.TempDir(), app))}},
		{"the door of sidecars", daprAddr(n), tls.VersionTLS12, true, trusted, load(apps.Issue(t.TempDir(), app)), map[string]tls.Certificate{
			"of another authority": load(foreign.Issue(t.TempDir(), app)), "that has expired": load(apps.IssueFor(t.TempDir(), app, -time.Minute)), "of a node": of(a, time.Hour, peer)}},
	}
	strong := map[uint16]bool{}
	for _, s := range tls.CipherSuites() {
		strong[s.ID] = strings.HasPrefix(s.Name, "TLS_ECDHE_ECDSA_") && (strings.Contains(s.Name, "_GCM_") || strings.Contains(s.Name, "_CHACHA20_")) // these keys are of ECDSA
	}
	for _, d := range doors {
		for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12, tls.VersionTLS13} {
			if _, err := d.enter(&tls.Config{Certificates: []tls.Certificate{d.mine}, MinVersion: version, MaxVersion: version}); (err == nil) != (version >= d.least) {
				t.Errorf("%s with %s: %v", d.name, tls.VersionName(version), err)
			}
		}
		for _, s := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
			if slices.Contains(s.SupportedVersions, tls.VersionTLS13) {
				continue // they cannot be chosen
			}
			_, err := d.enter(&tls.Config{Certificates: []tls.Certificate{d.mine}, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{s.ID}})
			if (err == nil) != (d.least <= tls.VersionTLS12 && strong[s.ID]) {
				t.Errorf("%s with %s: %v", d.name, s.Name, err)
			}
		}
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			if version < d.least {
				continue
			}
			if _, err := d.enter(&tls.Config{MinVersion: version, MaxVersion: version}); (err == nil) == d.asks {
				t.Errorf("%s with %s, without a certificate: %v", d.name, tls.VersionName(version), err)
			}
			for who, other := range d.others {
				shows := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &other, nil } // also if the server does not ask for one of its authority
				if _, err := d.enter(&tls.Config{GetClientCertificate: shows, MinVersion: version, MaxVersion: version}); err == nil {
					t.Errorf("%s with %s, with a certificate %s", d.name, tls.VersionName(version), who)
				}
			}
		}
		plain, err := net.Dial("tcp", d.at)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = plain.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
		_ = plain.SetDeadline(time.Now().Add(poll.Patience))
		if got, _ := io.ReadAll(plain); strings.Contains(string(got), "HTTP/1.1 2") || len(got) > 8 && got[3] == 4 { // a frame of settings
			t.Errorf("%s in plain text: %q", d.name, got)
		}
		plain.Close()
	}

	// New files are used for new connections; files that cannot be used change nothing.
	before := map[string]*x509.Certificate{}
	serials := func(d tlsDoor) *x509.Certificate {
		got, err := d.enter(&tls.Config{Certificates: []tls.Certificate{d.mine}})
		if err != nil {
			t.Errorf("%s: %v", d.name, err)
		}
		return got
	}
	for _, d := range doors {
		before[d.name] = serials(d)
	}
	write(a, dir, "server", time.Hour, "127.0.0.1", peer)
	apps.Issue(dir, scheduler)
	for _, d := range doors {
		poll.Until(t, d.name+" has its new certificate", func() bool { now := serials(d); return t.Failed() || !now.Equal(before[d.name]) })
		before[d.name] = serials(d)
	}
	for _, file := range []string{c.TLSCert, c.DaprCert} {
		if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	poll.Until(t, "the node tells that its files cannot be used", func() bool {
		code, metrics := fetch(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}, "https://"+n.AdminAddr()+"/metrics")
		return code == http.StatusOK && strings.Contains(metrics, "rouse_tls_files_stale 1")
	})
	for _, d := range doors {
		if now := serials(d); !now.Equal(before[d.name]) {
			t.Errorf("%s has another certificate than before its file was spoiled", d.name)
		}
	}
}

// fetch reads a page.
func fetch(t *testing.T, c *http.Client, at string) (int, string) {
	t.Helper()
	answer, err := c.Get(at)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
	}
	return answer.StatusCode, string(text)
}
