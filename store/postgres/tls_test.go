package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rousehq/rouse/internal/certs"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// TestTLSWithFiles: verify-full checks the authority and the name of a PostgreSQL, and a certificate of the
// client is presented.
func TestTLSWithFiles(t *testing.T) {
	a, err := certs.NewAuthority("authority of a test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	dir, until := t.TempDir(), time.Now().Add(time.Hour)
	ca := filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(ca, a.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key, err := a.Issue(certs.Request{Names: []string{"127.0.0.1"}, NotAfter: until, Server: true})
	if err != nil {
		t.Fatal(err)
	}
	mine, mineKey, err := a.Write(dir, "client", certs.Request{Name: "postgres", NotAfter: until})
	if err != nil {
		t.Fatal(err)
	}
	server := servers.StartPostgres(t)
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var data string
	if err := conn.QueryRow(t.Context(), "SHOW data_directory").Scan(&data); err != nil {
		t.Fatal(err)
	}
	sql := []string{}
	for name, text := range map[string][]byte{"s.crt": cert, "s.key": key, "s.ca": a.PEM()} { // the server's user writes them, so that it may read them
		lines := "'" + strings.Join(strings.Split(strings.TrimSpace(string(text)), "\n"), "','") + "'"
		sql = append(sql, fmt.Sprintf("COPY (SELECT unnest(ARRAY[%s])) TO PROGRAM 'umask 077; cat > %s/%s'", lines, data, name))
	}
	for _, one := range append(sql, "ALTER SYSTEM SET ssl_cert_file = 's.crt'", "ALTER SYSTEM SET ssl_key_file = 's.key'", "ALTER SYSTEM SET ssl_ca_file = 's.ca'",
		"ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()") {
		if _, err := conn.Exec(t.Context(), one); err != nil {
			t.Fatalf("%s: %v", one, err)
		}
	}
	base := strings.TrimSuffix(server.URL(), "?sslmode=disable")
	good := fmt.Sprintf("%s?sslmode=verify-full&sslrootcert=%s&sslcert=%s&sslkey=%s", base, ca, mine, mineKey)
	poll.Until(t, "the server has TLS", func() bool {
		c, err := pgx.Connect(t.Context(), good)
		if err != nil {
			return false
		}
		defer c.Close(t.Context())
		var serial string // of the client's certificate
		return c.QueryRow(t.Context(), "SELECT client_serial::text FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl").Scan(&serial) == nil && serial != ""
	})
	s, err := Open(t.Context(), good, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	for name, url := range map[string]string{
		"the system's authorities": base + "?sslmode=verify-full",
		"another name":             strings.Replace(good, "127.0.0.1", "localhost", 1),
	} {
		if s, err := Open(t.Context(), url, Options{}); err == nil {
			s.Close()
			t.Errorf("%s: it is opened", name)
		}
	}
}
