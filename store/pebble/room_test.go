package pebble

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/storetest"
)

// smallDisk is a disk in memory whose free space the test sets.
type smallDisk struct {
	vfs.FS
	avail atomic.Int64
	full  atomic.Bool
	once  sync.Once
	met   chan struct{} // closed by the first write that finds no space
}

func newSmallDisk() *smallDisk {
	d := &smallDisk{FS: vfs.NewMem(), met: make(chan struct{})}
	d.avail.Store(1 << 30)
	return d
}

func (d *smallDisk) Unwrap() vfs.FS { return d.FS }

func (d *smallDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: uint64(d.avail.Load()), TotalBytes: 1 << 30}, nil
}

func (d *smallDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	return &smallFile{f, d}, err
}

func (d *smallDisk) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.ReuseForWrite(from, to, c)
	return &smallFile{f, d}, err
}

type smallFile struct {
	vfs.File
	disk *smallDisk
}

// Write writes only a part when the disk is full, as a real disk may.
func (f *smallFile) Write(b []byte) (int, error) {
	if f.disk.full.Load() {
		f.disk.once.Do(func() { close(f.disk.met) })
		n, err := f.File.Write(append([]byte(nil), b[:min(len(b), 7)]...))
		if err == nil {
			err = syscall.ENOSPC
		}
		return n, err
	}
	return f.File.Write(b)
}

func openSmall(t *testing.T, d *smallDisk) *Store {
	t.Helper()
	s, err := openOnFS("store", Options{MemTableBytes: 1 << 20, CacheBytes: 1 << 20, Reserve: 100 << 20}, d)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func testRow(name string) *rouse.Row {
	return &rouse.Row{Key: rouse.Key{Namespace: "ns", Name: name}, Visible: 5, Due: 5, State: rouse.StateScheduled, Body: []byte(name)}
}

func create(name string) rouse.Change {
	r := testRow(name)
	return rouse.Change{Key: r.Key, If: rouse.NoRow, To: r}
}

// TestTheDoctorSeesTheRoom that is left.
func TestTheDoctorSeesTheRoom(t *testing.T) {
	d := newSmallDisk()
	s := openSmall(t, d)
	defer s.Close()
	for _, c := range []struct {
		free     int64
		severity string
	}{{2 << 30, rouse.SeverityOK}, {1 << 30, rouse.SeverityWarning}, {99 << 20, rouse.SeverityCritical}} {
		d.avail.Store(c.free)
		s.room.Expire()
		if list, err := s.Diagnose(t.Context()); err != nil || len(list) != 2 || list[1].Severity != c.severity {
			t.Errorf("%d bytes free: %+v, %v", c.free, list, err)
		}
	}
}

func TestBelowTheReserveRowsAreNotAdded(t *testing.T) {
	d := newSmallDisk()
	s := openSmall(t, d)
	defer s.Close()
	storetest.Reserve(t, s, func(bytes int64) {
		d.avail.Store(bytes)
		s.room.Expire()
	})
}

func TestAWriteWaitsForRoom(t *testing.T) {
	d := newSmallDisk()
	s := openSmall(t, d)
	if _, err := s.Apply(t.Context(), []rouse.Change{create("a")}); err != nil {
		t.Fatal(err)
	}
	d.full.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := s.Apply(ctx, []rouse.Change{create("b")})
		done <- err
	}()
	<-d.met
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that gave up: %v", err)
	}
	go func() {
		_, err := s.Apply(t.Context(), []rouse.Change{create("c")})
		done <- err
	}()
	d.full.Store(false)
	if err := <-done; err != nil {
		t.Errorf("with room again: %v", err)
	}
	if s.room.waits.Load() == 0 {
		t.Error("the wait is not in the figures")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openSmall(t, d)
	defer s.Close()
	if n, err := s.Count(t.Context(), rouse.Query{}); err != nil || n != 3 {
		t.Errorf("count is %d, %v", n, err)
	}
}

func TestCloseDoesNotWaitForRoom(t *testing.T) {
	d := newSmallDisk()
	s := openSmall(t, d)
	if _, err := s.Apply(t.Context(), []rouse.Change{create("a")}); err != nil {
		t.Fatal(err)
	}
	d.full.Store(true)
	done := make(chan error)
	go func() {
		_, err := s.Apply(t.Context(), []rouse.Change{create("b")})
		done <- err
	}()
	<-d.met
	_ = s.Close() // may report that the log has no space
	if err := <-done; err == nil {
		t.Error("a write was acknowledged that the disk does not have")
	}
	d.full.Store(false)
	s = openSmall(t, d)
	defer s.Close()
	if rows, err := s.Get(t.Context(), []rouse.Key{testRow("a").Key}); err != nil || rows[0].Revision == 0 {
		t.Errorf("%+v, %v", rows, err)
	}
}

// TestAfterAFailedSyncNothingIsWritten: a failed sync is not retried and taken for a success, and what it may
// have lost is not read.
func TestAfterAFailedSyncNothingIsWritten(t *testing.T) {
	d := &brokenDisk{FS: vfs.NewMem()}
	s, err := openOnFS("store", Options{MemTableBytes: 1 << 20, CacheBytes: 1 << 20}, d)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), []rouse.Change{create("a")}); err != nil {
		t.Fatal(err)
	}
	d.broken.Store(true)
	if _, err := s.Apply(t.Context(), []rouse.Change{create("b")}); err == nil {
		t.Error("acknowledged without a sync")
	}
	d.broken.Store(false)
	if _, err := s.Apply(t.Context(), []rouse.Change{create("c")}); err == nil {
		t.Error("acknowledged after a sync that failed")
	}
	if rows, err := s.Get(t.Context(), []rouse.Key{testRow("b").Key}); err == nil {
		t.Errorf("what may never have reached the disk is shown: %+v", rows)
	}
	_ = s.Close()
}

// brokenDisk has syncs that fail.
type brokenDisk struct {
	vfs.FS
	broken atomic.Bool
}

func (d *brokenDisk) Unwrap() vfs.FS { return d.FS }

func (d *brokenDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	return &brokenFile{f, d}, err
}

type brokenFile struct {
	vfs.File
	disk *brokenDisk
}

func (f *brokenFile) SyncData() error {
	if f.disk.broken.Load() {
		return syscall.EIO
	}
	return f.File.SyncData()
}

func (f *brokenFile) Sync() error {
	if f.disk.broken.Load() {
		return syscall.EIO
	}
	return f.File.Sync()
}
