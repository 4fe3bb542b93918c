package brokertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse/sink/broker"
)

// Files are PEM files of an authority, and of a certificate that it has signed for 127.0.0.1 and for clients.
type Files struct{ CA, Cert, Key string }

// NewFiles makes such files, which are removed when the test ends.
func NewFiles(t testing.TB) Files {
	t.Helper()
	dir := t.TempDir()
	f := Files{filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	caKey, key := newKey(t), newKey(t)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "broker"},
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	writePEM(t, f.CA, "CERTIFICATE", signCertificate(t, ca, ca, caKey, caKey))
	writePEM(t, f.Cert, "CERTIFICATE", signCertificate(t, leaf, ca, key, caKey))
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, f.Key, "EC PRIVATE KEY", der)
	return f
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func signCertificate(t testing.TB, c, by *x509.Certificate, key, byKey *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, byKey)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func writePEM(t testing.TB, name, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Front terminates TLS, with client certificates, in front of a server without TLS. It ends with the test.
func Front(t testing.TB, f Files, server string) (addr string) {
	t.Helper()
	config, err := (&broker.Connection{URL: "amqps://127.0.0.1", CA: f.CA, Cert: f.Cert, Key: f.Key}).TLS()
	if err != nil {
		t.Fatal(err)
	}
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, config.RootCAs
	l, err := tls.Listen("tcp4", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { copyBothWays(c, server) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// copyBothWays copies both ways until either side ends.
func copyBothWays(client net.Conn, server string) {
	defer client.Close() //nolint:errcheck // of a test
	s, err := net.Dial("tcp4", server)
	if err != nil {
		return
	}
	defer s.Close() //nolint:errcheck // of a test
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, s)
		_ = client.Close()
	})
	_, _ = io.Copy(s, client)
	_ = s.Close()
	back.Wait()
}

// Obstacle waits until a publisher reports an obstacle that contains the given words, and returns its text.
func Obstacle(t testing.TB, p broker.Publisher, words string) (why string) {
	t.Helper()
	for end := time.Now().Add(patience); why == "" || !strings.Contains(why, words); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v %q is in its way, and nothing with %q", patience, why, words)
		}
		why = p.Obstacle()
	}
	return why
}

// TLS tests certificates: open returns a publisher for a connection to a broker at addr that requires a
// certificate and has one of the files' authority; publish publishes one message by a sink. Without the
// authority or a certificate, nothing is published.
func TLS(t *testing.T, f Files, url string, open func(c broker.Connection) (broker.Publisher, error),
	publish func(t *testing.T, s *broker.Sink)) {
	for name, c := range map[string]broker.Connection{
		"no authority":   {Cert: f.Cert, Key: f.Key},
		"no certificate": {CA: f.CA},
		"both":           {CA: f.CA, Cert: f.Cert, Key: f.Key},
	} {
		t.Run(name, func(t *testing.T) {
			c.Name, c.URL = "there", url
			if err := c.Check(); err != nil {
				t.Fatal(err)
			}
			p, err := open(c)
			if err != nil {
				t.Fatal(err)
			}
			s := broker.New()
			s.Add(c, p)
			defer closeIt(t, s)
			if name == "both" {
				publish(t, s)
				return
			}
			words := "certificate"
			if name == "no certificate" {
				words = "unavailable" // the broker may disconnect before it reports the reason
			}
			Obstacle(t, p, words)
		})
	}
}
