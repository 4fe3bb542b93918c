package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/servers"
)

// TestFullDisk puts the table on a disk of 8 MiB. A call without space is refused completely; existing rows
// can be read and settled; and when there is space again, everything works.
func TestFullDisk(t *testing.T) {
	server := servers.StartPostgres(t)
	s := openTest(t, server.URL(), Options{})
	defer s.Close()
	disk := filepath.Join(server.Dir(), "small")
	owner, err := os.Stat(filepath.Join(server.Dir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("a small disk cannot be made here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	as := owner.Sys().(*syscall.Stat_t)
	if err := os.Chown(disk, int(as.Uid), int(as.Gid)); err != nil {
		t.Fatal(err)
	}
	admin(t, server.URL(), fmt.Sprintf(`CREATE TABLESPACE small LOCATION '%s'`, disk))
	admin(t, server.URL(), `ALTER TABLE rouse.timers SET TABLESPACE small`)

	var there []rouse.Change
	var full []rouse.Change
	for i := 0; full == nil; i++ {
		if i == 1000 {
			t.Fatal("the disk does not get full")
		}
		changes := timers(fmt.Sprintf("b%04d-", i), 500)
		results, err := s.Apply(t.Context(), changes)
		switch {
		case errors.Is(err, rouse.ErrFull):
			full = changes
		case err != nil:
			t.Fatal(err)
		default:
			for j := range changes {
				changes[j].If, changes[j].To = results[j].Revision, nil
			}
			there = append(there, changes...)
		}
	}
	if n, err := s.Count(t.Context(), rouse.Query{}); err != nil || n != int64(len(there)) {
		t.Errorf("the count is %d, %v; %d were acknowledged", n, err, len(there))
	}
	if rows, err := s.Get(t.Context(), []rouse.Key{full[0].Key, there[0].Key}); err != nil || rows[0].Revision != 0 || rows[1].Revision != there[0].If {
		t.Errorf("%+v, %v", rows, err)
	}
	create(t, s, there) // removes them
	if err := unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT, "size=16m"); err != nil {
		t.Fatal(err)
	}
	admin(t, server.URL(), `VACUUM rouse.timers`)
	create(t, s, full)
	if n, err := s.Count(t.Context(), rouse.Query{}); err != nil || n != int64(len(full)) {
		t.Errorf("the count is %d, %v, want %d", n, err, len(full))
	}
}
