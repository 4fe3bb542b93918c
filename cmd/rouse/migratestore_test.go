package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/store"
	"github.com/rousehq/rouse/store/pebble"
	"github.com/rousehq/rouse/test/servers"
)

// fillStore makes a store with so many timers and records.
func fillStore(t *testing.T, dir string, n int) {
	t.Helper()
	s, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var changes []rouse.Change
	for i := range n {
		tm := rouse.Timer{Key: rouse.Key{Namespace: "default", Name: fmt.Sprintf("t%05d", i)}, Created: 1, Visible: rouse.MaxInstant, Due: rouse.MaxInstant,
			Spec: rouse.Spec{Schedule: "2099-01-01T00:00:00Z", Target: "stream:x"}}
		row := tm.Row()
		changes = append(changes, rouse.Change{Key: row.Key, To: &row,
			Log: []rouse.Record{{Namespace: "default", Name: tm.Key.Name, Generation: 1, Ending: rouse.EndFired, Ended: rouse.Instant(1_750_000_000_000 + i/100)}}})
	}
	if _, err := s.Apply(context.Background(), changes); err != nil {
		t.Fatal(err)
	}
}

// migrateStore runs the command to its end.
func migrateStore(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("rouse", append([]string{"migrate-store"}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GORACE=atexit_sleep_ms=0"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// TestAKilledMigrationGoesOn kills the command while it copies rows, and while it copies records, and lets it
// go on.
func TestAKilledMigrationGoesOn(t *testing.T) {
	const n = 2500
	dir := t.TempDir()
	fillStore(t, filepath.Join(dir, "from"), n)
	from, to := "pebble:"+filepath.Join(dir, "from"), "sqlite:"+filepath.Join(dir, "to.db")
	for _, phase := range []string{"pass 1, rows", "pass 1, records"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, "rouse", "migrate-store", from, to, "--batch", "1") // slow enough to be killed on its way
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GORACE=atexit_sleep_ms=0"}
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(stderr); lines.Scan() && lines.Text() != phase; {
		}
		_ = cmd.Process.Kill()
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("in %s: it was done before it was killed: %v", phase, err)
		}
		cancel()
		out := migrateStore(t, from, to, "--dry-run")
		var rows, removed, records int
		_, would, _ := strings.Cut(out, "there would be ")
		if _, err := fmt.Sscanf(would, "%d rows written, %d rows removed, %d records written", &rows, &removed, &records); err != nil {
			t.Fatalf("%v in %q", err, out)
		}
		switch left := map[string]int{"pass 1, rows": rows, "pass 1, records": records}[phase]; {
		case left == 0, phase == "pass 1, rows" && left == n, phase == "pass 1, records" && rows != 0:
			t.Errorf("killed in %s: %s", phase, out)
		}
	}
	if out := migrateStore(t, from, to, "--final"); !strings.Contains(out, fmt.Sprintf("verified: both have %d rows and %d records", n, n)) {
		t.Error(out)
	}
	if out := migrateStore(t, from, to, "--verify-only"); !strings.Contains(out, "has all that") {
		t.Error(out)
	}
}

// TestAMigrationSharesTimersOut: the first node sets the number of buckets of a store that nodes share.
func TestAMigrationSharesTimersOut(t *testing.T) {
	dir := t.TempDir()
	fillStore(t, filepath.Join(dir, "from"), 300)
	from, shared, back := "pebble:"+filepath.Join(dir, "from"), servers.StartPostgres(t).URL(), "sqlite:"+filepath.Join(dir, "back.db")
	buckets := func(url string) map[uint32]int {
		s, err := store.Open(t.Context(), url, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		page, err := s.List(t.Context(), rouse.Query{Limit: 1000})
		if err != nil || len(page.Rows) != 300 {
			t.Fatalf("%d rows: %v", len(page.Rows), err)
		}
		n, err := node.Buckets(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		of := map[uint32]int{}
		for i := range page.Rows {
			r := &page.Rows[i]
			if of[r.Bucket]++; r.Bucket != rouse.BucketOf(r.Key, n) {
				t.Fatalf("%q is in bucket %d, of %d", r.Key, r.Bucket, n)
			}
		}
		if locks, ok := s.(rouse.Shared); ok {
			if settings, _, err := locks.Leases(t.Context(), "setting/buckets"); err != nil || len(settings) != 1 {
				t.Errorf("the number of buckets is not written down: %v %v", settings, err)
			}
		}
		return of
	}
	migrateStore(t, from, shared, "--final")
	if of := buckets(shared); len(of) < 32 {
		t.Errorf("300 timers are in %d buckets", len(of))
	}
	migrateStore(t, from, shared, "--verify-only")
	migrateStore(t, shared, back, "--final")
	if of := buckets(back); len(of) != 1 {
		t.Errorf("a store of one node has %d buckets", len(of))
	}
}

// TestAMigrationIntoAServedStoreIsRefused before anything is written into it: while nodes serve it, and when
// they have left their secrets.
func TestAMigrationIntoAServedStoreIsRefused(t *testing.T) {
	dir := t.TempDir()
	fillStore(t, filepath.Join(dir, "from"), 3)
	from, to := "pebble:"+filepath.Join(dir, "from"), servers.StartPostgres(t).URL()
	place, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	place.Path = "/other"
	other := place.String()
	conn, err := pgx.Connect(t.Context(), to)
	if err == nil {
		_, err = conn.Exec(t.Context(), "CREATE DATABASE other TEMPLATE template0")
		err = errors.Join(err, conn.Close(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
	migrate := func(args ...string) (told string, err error) {
		var out bytes.Buffer
		a := &cli.App{Ctx: t.Context(), In: strings.NewReader(""), Out: &out, ErrOut: &out}
		k, err := parseCommand(a, append([]string{"migrate-store"}, args...))
		if err == nil {
			err = k.Run(a)
		}
		return out.String(), err
	}
	serve := func(url string) (stop func()) {
		n, err := node.Open(t.Context(), url, node.WithSecrets(filepath.Join(t.TempDir(), "webhook.secret")))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- n.Run(ctx) }()
		s, err := store.Open(t.Context(), url, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for names := []string{}; len(names) == 0; time.Sleep(10 * time.Millisecond) {
			if names, err = node.Living(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	stop := serve(to)
	for _, args := range [][]string{{}, {"--dry-run"}, {"--final"}} {
		if _, err := migrate(append([]string{from, to}, args...)...); err == nil || !strings.Contains(err.Error(), "is served by ") {
			t.Errorf("%v into a store that is served: %v", args, err)
		}
	}
	stop()
	serve(other)()
	if _, err := migrate(other, to); err == nil || !strings.Contains(err.Error(), "other webhook secrets") {
		t.Errorf("into a store with other secrets: %v", err)
	}
	s, err := store.Open(t.Context(), to, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n, err := s.Count(t.Context(), rouse.Query{Namespace: "default", States: []rouse.State{rouse.StateNote, rouse.StateScheduled}}); n != 0 || err != nil {
		t.Errorf("%d rows were written, %v", n, err)
	}
	if told, err := migrate(from, to, "--dry-run"); err != nil || !strings.Contains(told, "need one of its webhook secrets") {
		t.Errorf("into a store that was served: %q, %v", told, err)
	}
}
