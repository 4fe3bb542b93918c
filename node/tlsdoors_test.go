package node

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/certs"
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
