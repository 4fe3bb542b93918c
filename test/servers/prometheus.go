//go:build unix

package servers

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// StartPrometheus starts a Prometheus with a configuration, whose files of rules have absolute paths.
func StartPrometheus(t testing.TB, config string) *Server {
	t.Helper()
	path := requireProgram(t, "prometheus")
	p, err := launchServer("prometheus", 1, nil, func(p *process) error {
		file := filepath.Join(p.dir, "prometheus.yml")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			return err
		}
		addr := p.ports[0].claimedAddr()
		p.path = path
		p.args = []string{"--config.file", file, "--storage.tsdb.path", filepath.Join(p.dir, "data"), "--web.listen-address",
			addr, "--log.level", "warn"}
		p.ready = func(ctx context.Context) error { return prometheusReady(ctx, "http://"+addr+"/-/ready") }
		p.stopSignal, p.endSignal = syscall.SIGTERM, syscall.SIGTERM
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	addr := p.ports[0].claimedAddr()
	return newServer(t, p, "http://"+addr, addr)
}

func prometheusReady(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", resp.Status)
	}
	return nil
}

// Promtool returns the path of the tool that comes with Prometheus.
func Promtool(t testing.TB) string {
	t.Helper()
	return requireProgram(t, "promtool")
}
