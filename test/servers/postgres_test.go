//go:build unix

package servers

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

func addrOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err)
	}
	return u.Host
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) }) // may have been cut off
	return conn
}

func queryString(t *testing.T, conn *pgx.Conn, sql string, args ...any) string {
	t.Helper()
	var s string
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&s); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return s
}

// TestPostgresIsFresh: databases of one server are independent, and are removed with their tests.
func TestPostgresIsFresh(t *testing.T) {
	t.Parallel()
	conn := connect(t, Postgres(t))
	var gone string
	t.Run("another", func(t *testing.T) {
		other := connect(t, Postgres(t))
		if err := postgresExec(t.Context(), other.Config().ConnString(), "CREATE TABLE mine (n int)"); err != nil {
			t.Fatal(err)
		}
		if got := queryString(t, conn, "SELECT count(*)::text FROM pg_tables WHERE tablename = 'mine'"); got != "0" {
			t.Error("a table of one database is in another")
		}
		gone = other.Config().Database
	})
	if got := queryString(t, conn, "SELECT count(*)::text FROM pg_database WHERE datname = $1", gone); got != "0" {
		t.Errorf("database %s has outlived its test", gone)
	}
}

// TestPostgresSettings: durability is on for a separate server, and settings are applied.
func TestPostgresSettings(t *testing.T) {
	t.Parallel()
	conn := connect(t, StartPostgres(t, "work_mem=5MB", "application_name=a b=c").URL())
	for name, want := range map[string]string{
		"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "work_mem": "5MB",
	} {
		if got := queryString(t, conn, "SHOW "+name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := queryString(t, conn, "SELECT reset_val FROM pg_settings WHERE name = 'application_name'"); got != "a b=c" {
		t.Errorf("application_name is %q, want %q", got, "a b=c")
	}
}

// TestPostgresPause: a pause includes sessions, which are separate processes.
func TestPostgresPause(t *testing.T) {
	t.Parallel()
	s := StartPostgres(t)
	paused, resumed := connect(t, s.URL()), connect(t, s.URL())
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	if err := paused.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a session of a paused server: %v; want no answer in time", err)
	}
	s.Resume()
	if err := resumed.Ping(t.Context()); err != nil {
		t.Errorf("a session after the pause: %v", err)
	}
}

// TestPgBouncer: sessions through PgBouncer share those of the server, one transaction at a time.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	direct := Postgres(t)
	through := PgBouncer(t, direct)
	if addrOf(through) == addrOf(direct) {
		t.Fatalf("%s does not go through PgBouncer", through)
	}
	config, err := pgx.ParseConfig(through)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	const backend = "SELECT pg_backend_pid()::text || '/' || current_database()"
	var backends [2]string
	for i := range backends { // both are open
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(t.Context()) })
		backends[i] = queryString(t, conn, backend)
	}
	if backends[0] != backends[1] {
		t.Errorf("two clients, one after the other, are served by %q: the mode is not transaction", backends)
	}
	if want := "/" + config.Database; !strings.HasSuffix(backends[0], want) {
		t.Errorf("the database is %s, want %s", backends[0], want)
	}
}
