package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/store/postgres"
	"github.com/rousehq/rouse/test/servers"
)

// schema runs a command about the schema, and returns its exit code and what it printed.
func schema(t *testing.T, url string, args ...string) (code int, out string) {
	t.Helper()
	cmd := exec.Command("rouse", append([]string{"schema"}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GORACE=atexit_sleep_ms=0", "ROUSE_STORE=" + url}
	body, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), string(body)
	} else if err != nil {
		t.Fatal(err)
	}
	return 0, string(body)
}

// TestSchema walks the schema of a PostgreSQL up and down.
func TestSchema(t *testing.T) {
	url := servers.Postgres(t)
	latest := postgres.Latest()
	step := func(wantCode int, want string, args ...string) {
		t.Helper()
		code, out := schema(t, url, args...)
		if code != wantCode || !strings.Contains(out, want) {
			t.Errorf("%v: exit code %d, want %d with %q:\n%s", args, code, wantCode, want, out)
		}
	}
	has := func(version int) {
		t.Helper()
		if have, err := postgres.SchemaVersion(t.Context(), url, postgres.Options{AllowUnsafe: true}); err != nil || have != version {
			t.Errorf("the schema has version %d, not %d: %v", have, version, err)
		}
	}
	step(0, "rouse schema up makes it", "show")
	step(cli.ExitUsage, "rouse schema up makes it", "roles", "--app", "x", "--apply")
	step(cli.ExitUsage, "is no version that this rouse knows", "up", "--to", "99")
	step(cli.ExitUsage, "is no version that this rouse knows", "up", "--to", "0")
	step(cli.ExitUsage, "is newer than the schema", "down", "--to", "1")
	step(0, "has version 1 now", "up", "--to", "1")
	has(1)
	step(0, "rouse schema up brings it there", "show")
	step(cli.ExitUsage, "say so with --yes", "down", "--to", "0")
	has(1)
	step(0, "now", "up")
	step(0, "already", "up")
	step(0, `"state":"current"`, "show", "--json")
	step(cli.ExitUsage, "rouse schema down goes back", "up", "--to", "1")
	has(latest)

	// What nodes live on is not taken away.
	cfg := node.Defaults()
	cfg.Listen, cfg.Data, cfg.Store, cfg.Node, cfg.Unsafe, cfg.Lease = "127.0.0.1:0", t.TempDir(), url, "living", true, 2*time.Second
	cfg.Admin = "127.0.0.1:0"
	ctx, cancel := context.WithCancel(t.Context())
	up, down := make(chan struct{}), make(chan error, 1)
	admin := ""
	go func() {
		down <- node.Run(ctx, cfg, slog.New(slog.DiscardHandler), func(_, addr string) { admin = addr; close(up) })
	}()
	select {
	case <-up:
	case err := <-down:
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		code, out := schema(t, url, "down", "--to", "0")
		if code == cli.ExitConflict && strings.Contains(out, "nodes live on the schema: living") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("exit code %d: %s", code, out)
		}
	}
	has(latest)

	// A node whose schema is migrated to a version that it does not work with reports that.
	ready := func(want int, text string) {
		t.Helper()
		poll.Until(t, "the node answers "+text, func() bool {
			answer, err := http.Get("http://" + admin + "/readyz")
			if err != nil {
				return false
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			return err == nil && answer.StatusCode == want && strings.Contains(string(body), text)
		})
	}
	ready(http.StatusOK, "")
	move := func(to int) {
		t.Helper()
		if err := postgres.Migrate(t.Context(), url, postgres.Options{AllowUnsafe: true}, to); err != nil {
			t.Fatal(err)
		}
	}
	move(latest - 1)
	ready(http.StatusServiceUnavailable, fmt.Sprintf("has version %d, this rouse needs %d", latest-1, latest))
	move(latest)
	ready(http.StatusOK, "")
	cancel()
	if err := <-down; err != nil {
		t.Error(err)
	}
	// A node that could not give its lease back in time, on a busy machine, lives until the lease ends.
	poll.Until(t, "the node has left", func() bool {
		_, out := schema(t, url, "down", "--to", "0")
		return !strings.Contains(out, "nodes live on the schema")
	})
	has(latest)
	step(0, "has version 1 now", "down", "--to", "1", "--yes")
	has(1)
	step(0, "the schema is gone", "down", "--to", "0", "--yes")
	has(0)
}

// TestSchemaRoles gives roles their rights, which hold, and refuses where the SQL would do nothing.
func TestSchemaRoles(t *testing.T) {
	server := servers.StartPostgres(t)
	root, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close(context.Background())
	for _, sql := range []string{`CREATE ROLE owner LOGIN`, `CREATE ROLE "App role" LOGIN`, `CREATE DATABASE d OWNER owner TEMPLATE template0`} {
		if _, err := root.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	as := func(role string) string { return "postgres://" + role + "@" + server.Addr() + "/d?sslmode=disable" }
	apply := []string{"roles", "--app", "App role", "--reader", "reader", "--caller", "one,two", "--apply"}
	if code, out := schema(t, as("owner"), "up"); code != 0 {
		t.Fatal(out)
	}
	if code, out := schema(t, as("owner"), apply...); code != cli.ExitUsage || !strings.Contains(out, `CREATE ROLE "reader" LOGIN`) {
		t.Errorf("exit code %d: %s", code, out)
	}
	for _, role := range []string{"reader", "one", "two"} {
		if _, err := root.Exec(t.Context(), `CREATE ROLE `+role+` LOGIN`); err != nil {
			t.Fatal(err)
		}
	}
	if code, out := schema(t, as("postgres"), apply...); code != cli.ExitUsage || !strings.Contains(out, "belongs to owner") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if code, out := schema(t, as("owner"), apply...); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
	for role, may := range map[string][]bool{"App role": {true, true}, "reader": {true, false}, "one": {false, false}, "two": {false, false}} {
		on, err := pgx.Connect(t.Context(), as(strings.ReplaceAll(role, " ", "%20")))
		if err != nil {
			t.Fatal(err)
		}
		for i, sql := range []string{`SELECT 1 FROM rouse.timers LIMIT 1`, `DELETE FROM rouse.timers WHERE false`} {
			if _, err := on.Exec(t.Context(), sql); (err == nil) != may[i] {
				t.Errorf("%s: %s: %v", role, sql, err)
			}
		}
		on.Close(t.Context())
	}
	if code, out := schema(t, "", "roles", "--app", `a"b`); code != 0 || !strings.Contains(out, `GRANT USAGE ON SCHEMA "rouse" TO "a""b";`) {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// TestSchemaIsOfAPostgreSQL refuses what is none, and shows no password.
func TestSchemaIsOfAPostgreSQL(t *testing.T) {
	for url, want := range map[string]string{"": "ROUSE_STORE", "redis://:hush@h/0": "is no PostgreSQL", "postgres": "is no PostgreSQL"} {
		code, out := schema(t, url, "show")
		if code != cli.ExitUsage || !strings.Contains(out, want) || strings.Contains(out, "hush") {
			t.Errorf("%q: exit code %d: %s", url, code, out)
		}
	}
	if code, out := schema(t, "postgres://me:hush@127.0.0.1:1/d", "show"); code != cli.ExitUnavailable || strings.Contains(out, "hush") {
		t.Errorf("exit code %d: %s", code, out)
	}
}
