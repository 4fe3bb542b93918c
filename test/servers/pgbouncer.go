//go:build unix

package servers

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// PgBouncer returns a URL for the same database as a URL of PostgreSQL, through a PgBouncer in transaction
// mode: a session lasts for one transaction, so neither prepared statements nor advisory locks of a session
// outlive it.
func PgBouncer(t testing.TB, postgres string) string {
	t.Helper()
	u, err := url.Parse(postgres)
	if err != nil {
		t.Fatalf("PgBouncer: %v", err)
	}
	path := requireProgram(t, "pgbouncer")
	as, err := asUser("postgres") // it refuses root
	if err != nil {
		t.Fatal(err)
	}
	through := *u
	p, err := launchServer("pgbouncer", 1, as, func(p *process) error {
		ini := filepath.Join(p.dir, "pgbouncer.ini")
		text := fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 1000
default_pool_size = 20
ignore_startup_parameters = extra_float_digits
`, u.Hostname(), u.Port(), u.User.Username(), p.ports[0].port)
		if err := os.WriteFile(ini, []byte(text), 0o644); err != nil {
			return err
		}
		p.path, p.args = path, []string{ini}
		through.Host = p.ports[0].claimedAddr()
		p.ready = func(ctx context.Context) error { return postgresExec(ctx, through.String(), "SELECT 1") }
		p.stopSignal = syscall.SIGTERM
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return newServer(t, p, through.String(), through.Host).URL()
}
