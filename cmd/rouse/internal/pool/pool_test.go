package pool

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// TestPoolListenersAreNamedAsInTheFile: errors about the listener name the settings of the file of pools.
func TestPoolListenersAreNamedAsInTheFile(t *testing.T) {
	for listener, want := range map[string][]string{
		"listen: 0.0.0.0:7413":  {`listen: "0.0.0.0:7413" can be reached from other machines`, "neither has TLS nor authenticates", "tls_client_ca", "insecure: true"},
		"listen: nowhere":       {`listen: "nowhere" is no address`, "127.0.0.1:"},
		"tls_cert: c.pem":       {"tls_key"},
		"tls_client_ca: ca.pem": {"tls_client_ca: is for listeners with TLS", "tls_cert and tls_key"},
		"listen: 0.0.0.0:7413\ntls_cert: none.pem\ntls_key: none.pem": {"tls_cert", "does not authenticate its callers"},
	} {
		file := filepath.Join(t.TempDir(), "pools.yaml")
		text := listener + "\npools:\n  - name: core\n    amqp: amqp://guest:guest@127.0.0.1:1/\n    driver: {noop: {}}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := (&poolRunCmd{Config: file, LogLevel: "error", LogFormat: "text"}).Run(&cli.App{Ctx: t.Context(), Out: io.Discard, ErrOut: io.Discard})
		if err == nil {
			t.Errorf("%s is taken", listener)
			continue
		}
		for _, text := range want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: the error does not have %q: %v", listener, text, err)
			}
		}
		for _, text := range []string{"admin", "tls-", "insecure="} {
			if strings.Contains(strings.ReplaceAll(err.Error(), file, ""), text) {
				t.Errorf("%s: the error names %q, which the file does not have: %v", listener, text, err)
			}
		}
	}
}
