package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
	"github.com/rousehq/rouse/test/servers"
)

// TestStoreIsFull fills the disk of the store under load: it refuses writes, or ends and must be restarted.
// The nodes refuse new timers, and continue by themselves when there is room again.
func TestStoreIsFull(t *testing.T) {
	t.Parallel()
	for _, d := range []struct {
		what      string
		dir       string // of the server: what is on the disk
		megabytes int
		play
	}{
		{"tables", "data", 256, play{strategy: "bucket", storage: postgres}},
		{"log", "data/pg_wal", 80, play{strategy: "bucket", storage: postgres}}, // it gives up without room for that
		// With appendfsync always, Redis ends at the first write that fails.
		{"log", "appendonlydir", 64, play{strategy: "bucket", storage: redis, settings: []string{"appendfsync=everysec"}}},
	} {
		t.Run(d.storage.name+"/"+d.what, func(t *testing.T) {
			t.Parallel()
			d.fills(t, d.dir, d.megabytes)
		})
	}
}

// fills fills the disk that has a directory of the store.
func (y play) fills(t *testing.T, dir string, megabytes int) {
	if !harness.MayMount() {
		t.Skip("a small disk can only be mounted by root in a mount namespace of its own")
	}
	if y.storage.name == postgres.name {
		y.settings = []string{"min_wal_size=32MB", "max_wal_size=64MB"}
	}
	var disk string
	y.prepare = func(s *servers.Server) {
		disk = filepath.Join(s.Dir(), dir)
		moveToSmallDisk(t, s, disk, megabytes)
	}
	s := y.set(t)

	heal := s.Fault("store-full", "", 0)
	filler := filepath.Join(disk, "filler")
	n := 0
	refused := func() bool {
		n++
		_, res := s.Put(fmt.Sprintf("no-room-%d", n), s.URL, harness.When{Text: "@after 1h", Spec: history.Spec{Delay: time.Hour}}, false)
		return res != history.OK
	}
	full := func() bool {
		fill(t, filler) // what the server has freed in the meantime, too
		if filepath.Base(dir) == "pg_wal" {
			s.useUpLog()
		}
		return refused()
	}
	harness.Until(t, harness.Always("timers are still created on a full disk"), full)
	// A write that fits into what another one has left makes a node well again, until its next one.
	unhealthy := map[*node]bool{}
	harness.Until(t, harness.Always("nodes say that they are well although hardly anything can be written"), func() bool {
		full()
		for _, n := range s.f.nodes {
			unhealthy[n] = unhealthy[n] || !n.Ready()
		}
		return !slices.ContainsFunc(s.f.nodes, func(n *node) bool { return !unhealthy[n] })
	})
	s.lasts(lease)
	harness.Until(t, harness.Always("timers are created again on a full disk"), full)
	for _, n := range s.f.nodes {
		if !n.Runs() {
			t.Fatalf("%s ended: %v\n%s", n.Name, n.Cmd.ProcessState, n.Output())
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if y.storage.name == postgres.name && !s.answers() {
		t.Log("PostgreSQL has given up, and is started again")
		s.store.Kill() // what is left of it
		s.store.Start()
	}
	harness.Until(t, harness.Always("no timer is created although there is room again"), func() bool { return !refused() })
	heal()
	s.finish(50)
}

// useUpLog has PostgreSQL begin the next file of its log, of which it keeps a few ready that have their room
// already.
func (s *scene) useUpLog() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if conn, err := pgx.Connect(ctx, s.store.URL()); err == nil {
		_, _ = conn.Exec(ctx, `SELECT pg_switch_wal()`) // fails when the room has ended
		_ = conn.Close(ctx)
	}
}

// answers reports whether PostgreSQL takes connections.
func (s *scene) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.store.URL())
	if err != nil {
		return false
	}
	return conn.Close(ctx) == nil
}

// moveToSmallDisk puts a directory of a server on a disk of so many megabytes.
func moveToSmallDisk(t *testing.T, s *servers.Server, dir string, megabytes int) {
	t.Helper()
	s.Stop()
	aside := filepath.Join(s.Dir(), "aside")
	owner, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(dir, aside), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0700", megabytes)); err != nil {
		t.Skipf("a small disk cannot be made here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	as := owner.Sys().(*syscall.Stat_t)
	if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", aside+"/.", dir).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	s.Start()
}

// fill lets a file grow until there is no room left.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for chunk := make([]byte, 1<<20); len(chunk) >= 512; {
		if _, err := f.Write(chunk); errors.Is(err, syscall.ENOSPC) {
			chunk = chunk[:len(chunk)/2]
		} else if err != nil && !errors.Is(err, io.ErrShortWrite) {
			t.Fatal(err)
		}
	}
}
