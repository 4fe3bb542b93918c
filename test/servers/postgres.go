//go:build unix

package servers

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// StartPostgres starts a PostgreSQL with its own data directory. Its commits are on disk (fsync and
// synchronous_commit are on, as they are by default). Settings are name=value, as in postgresql.conf. The URL
// has the superuser and the database postgres.
func StartPostgres(t testing.TB, settings ...string) *Server {
	t.Helper()
	p, err := startPostgres(findPostgres(t), parseSettings(t, settings))
	if err != nil {
		t.Fatal(err)
	}
	return newServer(t, p, postgresURL(p.ports[0].claimedAddr(), "postgres"), p.ports[0].claimedAddr())
}

// Postgres returns the URL of a fresh, empty database. All such databases of a test binary are on one server,
// which does not sync (fsync is off): use it for every test except those of a crash of the machine. The
// database is dropped when the test ends.
func Postgres(t testing.TB) string {
	t.Helper()
	bin := findPostgres(t)
	sharedPostgres.once.Do(func() {
		sharedPostgres.p, sharedPostgres.err = startPostgres(bin, [][2]string{
			{"fsync", "off"}, {"full_page_writes", "off"}, {"max_connections", "400"},
		})
	})
	if sharedPostgres.err != nil {
		t.Fatal(sharedPostgres.err)
	}
	addr := sharedPostgres.p.ports[0].claimedAddr()
	name := fmt.Sprintf("test_%d", sharedPostgres.databases.Add(1))
	admin := func(sql string) error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return postgresExec(ctx, postgresURL(addr, "postgres"), sql)
	}
	if err := admin("CREATE DATABASE " + name + " TEMPLATE template0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return postgresURL(addr, name)
}

var sharedPostgres struct {
	once      sync.Once
	p         *process
	err       error
	databases atomic.Int64
}

func postgresURL(addr, database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", addr, database)
}

func startPostgres(bin string, settings [][2]string, more ...func(*process) error) (*process, error) {
	as, err := asUser("postgres") // it refuses root
	if err != nil {
		return nil, err
	}
	return launchServer("postgres", 1, as, func(p *process) error {
		data := filepath.Join(p.dir, "data")
		if err := initPostgres(bin, p, data); err != nil {
			return err
		}
		servePostgres(p, bin, data, settings)
		for _, do := range more {
			if err := do(p); err != nil {
				return err
			}
		}
		return nil
	})
}

// servePostgres describes a server of a data directory.
func servePostgres(p *process, bin, data string, settings [][2]string) {
	p.path = filepath.Join(bin, "postgres")
	p.args = []string{"-D", data}
	for _, s := range append([][2]string{
		{"listen_addresses", "127.0.0.1"},
		{"port", fmt.Sprint(p.ports[0].port)},
		{"unix_socket_directories", ""},
		{"dynamic_shared_memory_type", "mmap"}, // files in the data directory, which go with it
	}, settings...) {
		p.args = append(p.args, "-c", s[0]+"="+s[1])
	}
	url := postgresURL(p.ports[0].claimedAddr(), "postgres")
	p.ready = func(ctx context.Context) error { return postgresExec(ctx, url, "SELECT 1") }
	p.stopSignal = syscall.SIGINT // "fast": ends sessions, writes a checkpoint
	p.endSignal = syscall.SIGQUIT // "immediate": no checkpoint, but shared memory is given back
}

// initPostgres makes an empty data directory.
func initPostgres(bin string, p *process, data string) error {
	return runPostgres(p, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres",
		"--auth=trust", "--encoding=UTF8", "--locale=C")
}

// runPostgres runs one of PostgreSQL's programs as the server's user.
func runPostgres(p *process, path string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = p.dir
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "HOME=" + p.dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as, Setpgid: true}
	endWithParent(cmd.SysProcAttr)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(path), err, out)
	}
	return nil
}

func postgresExec(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return errors.Join(err, conn.Close(ctx))
}
