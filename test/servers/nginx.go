//go:build unix

package servers

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// StartNginx starts an nginx with one server, whose directives config has, without listen.
func StartNginx(t testing.TB, config string) *Server {
	t.Helper()
	path := requireProgram(t, "nginx")
	p, err := launchServer("nginx", 1, nil, func(p *process) error {
		addr := p.ports[0].claimedAddr()
		text := "daemon off;\nmaster_process off;\npid nginx.pid;\nevents {}\nhttp {\naccess_log off;\n"
		for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			text += kind + "_temp_path " + kind + ";\n"
		}
		text += fmt.Sprintf("server {\nlisten %s;\n%s\n}\n}\n", addr, config)
		file := filepath.Join(p.dir, "nginx.conf")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		p.path, p.args = path, []string{"-p", p.dir, "-c", file, "-e", "stderr"}
		p.ready = func(ctx context.Context) error {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err != nil {
				return err
			}
			return c.Close()
		}
		p.stopSignal, p.endSignal = syscall.SIGTERM, syscall.SIGTERM
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	addr := p.ports[0].claimedAddr()
	return newServer(t, p, "http://"+addr, addr)
}
