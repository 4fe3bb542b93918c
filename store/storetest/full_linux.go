package storetest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
)

// Full runs a store out of disk space. Below the store's reserve, which open sets to 8 MiB, it adds no rows
// and continues with everything else; with no space at all, calls wait or get rouse.ErrFull, and nothing is
// lost or half-written; with space again, everything works. It needs root, for a small disk. Call it from a
// test that does nothing else: Full runs that test again.
func Full(t *testing.T, open OpenDir) {
	inNamespace(t, func() {
		disk := t.TempDir()
		runOrFail(t, "mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", disk)
		t.Cleanup(func() { runOrFail(t, "umount", "-l", disk) })
		dir := filepath.Join(disk, "store")
		s, err := open(dir)
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{T: t, Store: s}
		rows := b.mustCreate(numberedRows(200)...)

		ballast := filepath.Join(disk, "ballast")
		fillFile(t, ballast, freeSpaceBytes(t, disk)-4<<20)
		refused := dueRow("refused", 0)
		poll.Until(t, "a create is refused", func() bool {
			_, err := s.Apply(t.Context(), []rouse.Change{
				{Key: rows[0].Key, If: rows[0].Revision, Keep: true,
					Log: []rouse.Record{{Namespace: "ns", Name: "x", Ended: start}}},
				{Key: refused.Key, If: rouse.NoRow, To: &refused}})
			if err == nil {
				b.mustApply(rouse.Change{Key: refused.Key, If: rouse.AnyRevision})
			} else if !errors.Is(err, rouse.ErrFull) {
				t.Fatal(err)
			}
			return err != nil
		})
		if got := b.mustGet(refused.Key)[0]; got.Revision != 0 {
			t.Error("the refused row is there")
		}
		replace := rows[1]
		replace.Due++
		r := b.mustApply(
			rouse.Change{Key: rows[0].Key, If: rows[0].Revision,
				Log: []rouse.Record{{Namespace: "ns", Name: "t", Ended: start}}},
			rouse.Change{Key: replace.Key, If: rows[1].Revision, To: &replace})
		if !r[0].Applied || !r[1].Applied {
			t.Errorf("settle and update within the reserve: %+v", r)
		}

		fillFile(t, ballast, freeSpaceBytes(t, disk))
		stuck, done := make(chan struct{}, 1), make(chan error, 1)
		go func() { done <- updateRows(t, s, rows[2:], stuck) }()
		select {
		case <-stuck:
		case err := <-done:
			t.Fatalf("the disk was not filled: %v", err)
		case <-time.After(3 * time.Second): // the call waits for space
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		poll.Until(t, "a create is taken again", func() bool {
			_, err := s.Apply(t.Context(), []rouse.Change{{Key: refused.Key, If: rouse.NoRow, To: &refused}})
			if err != nil && !errors.Is(err, rouse.ErrFull) {
				t.Fatal(err)
			}
			return err == nil
		})
		for range 2 {
			if n := b.mustCount(rouse.Query{}); n != 200 {
				t.Errorf("count is %d", n)
			}
			for _, got := range b.mustList(rouse.Query{Prefix: "t"}) {
				if got.Key.Name >= "t0002" && len(got.Body) != updateBytes {
					t.Errorf("%s has %d bytes, its update was acknowledged", got.Key.Name, len(got.Body))
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = open(dir); err != nil {
				t.Fatal(err)
			}
			b.Store = s
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

const updateBytes = 150 << 10

// updateRows writes large bodies, one after another, and retries while the store is full. It reports the
// first refusal.
func updateRows(t *testing.T, s rouse.Store, rows []rouse.Row, stuck chan<- struct{}) error {
	for i := range rows {
		to := rows[i]
		to.Body = make([]byte, updateBytes)
		for j := range to.Body {
			to.Body[j] = byte(j*j>>8 ^ j*i)
		}
		for {
			_, err := s.Apply(t.Context(), []rouse.Change{{Key: to.Key, If: rouse.AnyRevision, To: &to}})
			if err == nil {
				break
			}
			if !errors.Is(err, rouse.ErrFull) {
				return err
			}
			select {
			case stuck <- struct{}{}:
			default:
			}
			time.Sleep(10 * time.Millisecond) // as callers do before they retry
		}
	}
	return nil
}

func freeSpaceBytes(t *testing.T, dir string) int64 {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Bavail) * st.Bsize
}

// fillFile extends a file as far as there is space.
func fillFile(t *testing.T, name string, n int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 4096)
	for ; n > 0; n -= int64(len(block)) {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
