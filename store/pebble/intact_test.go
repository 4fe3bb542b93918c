package pebble

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rousehq/rouse"
)

// noCopies is a disk on which nothing can be created in the directory "copy".
type noCopies struct{ vfs.FS }

func (d noCopies) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.Contains(name, "copy/") {
		return nil, &os.PathError{Op: "create", Path: name, Err: os.ErrNotExist}
	}
	return d.FS.Create(name, category)
}

// TestACopyThatFailsIsNoDamage: the directory of a copy may disappear, and a missing file looks like damage.
func TestACopyThatFailsIsNoDamage(t *testing.T) {
	s, err := openOnFS("store", Options{Reserve: -1}, noCopies{vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	writeOne(t, s, "a")
	err = s.Checkpoint(t.Context(), "store/copy")
	if err == nil || !strings.Contains(err.Error(), "checkpoint to store/copy") {
		t.Error(err)
	}
	if err := errors.Join(s.Corrupted(), s.Examine(t.Context())); err != nil {
		t.Errorf("the store: %v", err)
	}
}

// TestFilesOfACopyAreNotNoted: they have the names of the store's files, which its witness records.
func TestFilesOfACopyAreNotNoted(t *testing.T) {
	disk := vfs.NewMem()
	s, err := openOnFS("store", Options{Reserve: -1}, disk)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	writeOne(t, s, "a")
	want, current := s.notes.has.witnessNote(), s.notes.current
	if err := disk.MkdirAll("store/copy", 0o700); err != nil {
		t.Fatal(err)
	}
	fs := s.room.newPatientFS(s.notes)
	const manifest = "MANIFEST-000098"
	for _, name := range []string{"000099.log", manifest, "marker.manifest.000009." + manifest, manifest} {
		f, err := fs.Create("store/copy/"+name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = f.Write(make([]byte, 100)); err == nil {
			err = f.Sync()
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for log := range maps.Keys(s.notes.has.logs) {
		if err := fs.Remove("store/copy/" + logName(log)); !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if got := s.notes.has.witnessNote(); fmt.Sprint(got, s.notes.current) != fmt.Sprint(want, current) {
		t.Errorf("the witness has %v, and had %v", got, want)
	}
}

// TestExamineReadsTheDisk: the blocks of a table that was changed may be in the cache.
func TestExamineReadsTheDisk(t *testing.T) {
	for what, change := range map[string]func(name string, b []byte) error{
		"a changed byte": func(name string, b []byte) error { b[len(b)/2] ^= 1; return os.WriteFile(name, b, 0o600) },
		"a cut table":    func(name string, b []byte) error { return os.WriteFile(name, b[:len(b)/2], 0o600) },
		"a lost table":   func(name string, _ []byte) error { return os.Remove(name) },
	} {
		dir := t.TempDir()
		s := openTest(t, dir)
		var changes []rouse.Change
		for i := range 2000 {
			changes = append(changes, create(fmt.Sprintf("t%04d-%s", i, strings.Repeat("x", 100))))
		}
		if _, err := s.Apply(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.db.Flush(), s.Examine(t.Context())); err != nil {
			t.Fatal(err)
		}
		if n := countAll(t, s); n != 2000 {
			t.Fatal(n)
		}
		tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
		if err != nil || len(tables) == 0 {
			t.Fatal(tables, err)
		}
		b, err := os.ReadFile(tables[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := change(tables[0], b); err != nil {
			t.Fatal(err)
		}
		err = s.Examine(t.Context())
		if told := s.Corrupted(); !errors.Is(err, rouse.ErrCorrupt) || !errors.Is(told, rouse.ErrCorrupt) ||
			!strings.Contains(err.Error(), filepath.Base(tables[0])) {
			t.Errorf("%s: %v; the store tells of %v", what, err, told)
		}
		_ = s.Close()
	}
}
