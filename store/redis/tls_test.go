package redis

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/certs"
	"github.com/rousehq/rouse/test/servers"
)

// TestTLSWithFiles: a Redis with TLS that asks for certificates is reached with the files of the address, and
// not without them.
func TestTLSWithFiles(t *testing.T) {
	a, err := certs.NewAuthority("redis", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	dir, until := t.TempDir(), time.Now().Add(time.Hour)
	ca := filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(ca, a.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key, err := a.Write(dir, "server", certs.Request{Names: []string{"127.0.0.1"}, NotAfter: until, Server: true})
	if err != nil {
		t.Fatal(err)
	}
	mine, mineKey, err := a.Write(dir, "client", certs.Request{Name: "client", NotAfter: until})
	if err != nil {
		t.Fatal(err)
	}
	addr := servers.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	servers.StartRedis(t, "tls-port="+port, "tls-cert-file="+cert, "tls-key-file="+key, "tls-ca-cert-file="+ca, "tls-auth-clients=yes")
	for name, c := range map[string]struct{ query, why string }{
		"with all files":   {fmt.Sprintf("?ca=%s&cert=%s&key=%s", ca, mine, mineKey), ""},
		"no certificate":   {"?ca=" + ca, addr}, // with TLS 1.3 the server refuses it after the handshake: the reason may be lost with the connection
		"no authority":     {fmt.Sprintf("?cert=%s&key=%s", mine, mineKey), "unknown authority"},
		"a missing file":   {"?ca=/nowhere/ca.crt", "/nowhere/ca.crt"},
		"a key of another": {fmt.Sprintf("?ca=%s&cert=%s&key=%s", ca, mine, key), "not the key"},
	} {
		s, err := Open(t.Context(), "rediss://"+addr+"/0"+c.query, Options{})
		if err == nil {
			if _, err = s.Now(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			s.Close()
		}
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := parseAddress("redis://" + addr + "/0?ca=" + ca); err == nil || !strings.Contains(err.Error(), "rediss") {
		t.Errorf("without TLS: %v", err)
	}
	for _, form := range []string{"rediss+cluster://h1:1,h2:2?ca=" + ca, "rediss+sentinel://h1:1,h2:2/main?ca=" + ca} {
		a, err := parseAddress(form)
		if err != nil || a.cluster != nil && a.cluster.Dialer == nil || a.cluster == nil && a.servers[0].failover.Dialer == nil {
			t.Errorf("%s: %v", form, err)
		}
	}
}
