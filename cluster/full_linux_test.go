package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rousehq/rouse/internal/servers"
	"github.com/rousehq/rouse/rousetest/history"
)

// TestStoreIsFull fills the disk of PostgreSQL under load: it refuses what is written, or gives up and must be started again by
// somebody. The nodes refuse new timers, and go on by themselves when there is room again.
func TestStoreIsFull(t *testing.T) {
	t.Parallel()
	if !mayMount() {
		t.Skip("a small disk can only be mounted by root in a mount namespace of its own")
	}
	y := plain
	y.settings = []string{"min_wal_size=32MB", "max_wal_size=64MB"}
	y.prepare = func(s *servers.Server) { moveToSmallDisk(t, s, 256) }
	s := y.set(t)

	heal := s.fault("store-full", "", 0)
	filler := filepath.Join(s.store.Dir(), "data", "filler")
	fill(t, filler)
	n := 0
	refused := func() bool {
		n++
		_, e := s.put(s.c, fmt.Sprintf("no-room-%d", n), s.url, when{text: "@after 1h", spec: history.Spec{Delay: time.Hour}}, false)
		return e.Res != history.OK
	}
	until(t, always("timers are still created on a full disk"), refused)
	s.lasts(2 * lease)
	if !refused() {
		t.Error("a timer is created on a full disk")
	}
	for _, n := range s.f.nodes {
		if !n.runs() {
			t.Fatalf("%s ended: %v\n%s", n.name, n.cmd.ProcessState, n.errOut.String())
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if !s.answers() {
		s.store.Kill() // what is left of it
		s.store.Start()
	}
	until(t, always("no timer is created although there is room again"), func() bool { return !refused() })
	heal()
	s.finish(50)
}

// answers says whether PostgreSQL takes connections.
func (s *scene) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.store.URL())
	if err != nil {
		return false
	}
	return conn.Close(ctx) == nil
}

// moveToSmallDisk puts the data of a PostgreSQL on a disk of so many megabytes.
func moveToSmallDisk(t *testing.T, s *servers.Server, megabytes int) {
	t.Helper()
	s.Stop()
	data, aside := filepath.Join(s.Dir(), "data"), filepath.Join(s.Dir(), "aside")
	owner, err := os.Stat(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(data, aside), os.Mkdir(data, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0700", megabytes)); err != nil {
		t.Skipf("a small disk cannot be made here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(data, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	as := owner.Sys().(*syscall.Stat_t)
	if err := os.Chown(data, int(as.Uid), int(as.Gid)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", aside+"/.", data).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	s.Start()
}

// fill writes a file until there is no room left.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o644)
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
