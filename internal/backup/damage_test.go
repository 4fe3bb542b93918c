package backup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/store/storetest"
)

// stored creates a store of 3000 rows in tables, or in the file, whose files are brought into a shape then.
// It returns its directory.
func stored(t *testing.T, kind string, shape storetest.Shape) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := places[kind](filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		var changes []rouse.Change
		for j := range 100 {
			r := row(fmt.Sprintf("t%04d", i*100+j), states[j%len(states)])
			changes = append(changes, rouse.Change{Key: r.Key, If: rouse.NoRow, To: &r})
		}
		apply(t, s, changes...)
	}
	for range 2 { // opening it again flushes the log to tables
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = places[kind](filepath.Join(dir, "store")); err != nil {
			t.Fatal(err)
		}
	}
	shape.Make(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// shapeOfToday returns one of the shapes, each day another.
func shapeOfToday() storetest.Shape {
	for i, shape := range storetest.Shapes {
		if poll.Today(i, len(storetest.Shapes)) {
			return shape
		}
	}
	panic("a day without a shape")
}

// biggest returns the largest file of a directory and its subdirectories.
func biggest(t *testing.T, dir string) (name string, content []byte) {
	t.Helper()
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() && info.Size() > int64(len(content)) {
			name = path
			content, err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return name, content
}

func listed(t *testing.T, s rouse.Store) int {
	t.Helper()
	page, err := s.List(t.Context(), rouse.Query{States: states, Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Rows)
}

// archiveOf makes an archive of the unchanged files of a closed store, with the counts that the store had
// before the damage.
func archiveOf(t *testing.T, kind, path string, m Manifest) []byte {
	t.Helper()
	if k, _ := kindNamed(kind); k.Checkpoint != "" {
		dir := t.TempDir()
		if err := os.Link(path, k.storePath(dir)); err != nil {
			t.Fatal(err)
		}
		path = dir
	}
	var err error
	if m.Files, err = describeFiles(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := writeArchive(t.Context(), &archive, path, &m); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

// TestDamageIsNotBackedUp: a backup of a store with a changed byte fails and the store reports the damage, or
// it has all rows; and an archive of a damaged store can be neither verified nor restored.
func TestDamageIsNotBackedUp(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		from := stored(t, kind, shapeOfToday())
		s := open(t, kind, filepath.Join(from, "store"))
		var first bytes.Buffer
		if err := Write(t.Context(), s, &first, Info{}); err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		m, err := Verify(t.Context(), &first)
		if err != nil {
			t.Fatal(err)
		}
		const parts = 12
		refused := 0
		for i := range parts {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "store")
			name, b := biggest(t, dir)
			at := i*len(b)/parts + 77
			b[at] ^= 4
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
			what := fmt.Sprintf("byte %d of %d", at, len(b))
			checkArchive(t, kind, what, archiveOf(t, kind, path, m))
			if !backedUp(t, kind, what, path) {
				refused++
			}
		}
		if refused < parts/6 { // free pages of padding may be most of the file
			t.Errorf("of %d changed bytes %d were met", parts, refused)
		}
	})
}

// checkArchive verifies and restores an archive of files that may be damaged.
func checkArchive(t *testing.T, kind, what string, archive []byte) {
	t.Helper()
	if _, err := Verify(t.Context(), bytes.NewReader(archive)); err != nil {
		t.Errorf("%s: the archive itself: %v", what, err)
	}
	_, verified := VerifyRows(t.Context(), bytes.NewReader(archive), t.TempDir())
	place := filepath.Join(t.TempDir(), "store")
	_, restored := Restore(t.Context(), bytes.NewReader(archive), kind, place)
	switch {
	case verified == nil && restored == nil:
		if n := listed(t, open(t, kind, place)); n != 3000 {
			t.Errorf("%s: what was restored has %d rows", what, n)
		}
	case !errors.Is(verified, rouse.ErrCorrupt) || !errors.Is(restored, rouse.ErrCorrupt):
		t.Errorf("%s: verified with %v, restored with %v", what, verified, restored)
	}
}

// backedUp reports whether a backup could be taken; then it has all rows.
func backedUp(t *testing.T, kind, what, path string) bool {
	t.Helper()
	s, err := places[kind](path)
	if err != nil {
		if !errors.Is(err, rouse.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
		return false
	}
	defer s.Close()
	var archive bytes.Buffer
	if err := Write(t.Context(), s, &archive, Info{}); err != nil {
		if told := s.(rouse.Checked).Corrupted(); !errors.Is(err, rouse.ErrCorrupt) || !errors.Is(told, rouse.ErrCorrupt) {
			t.Errorf("%s: the backup failed with %v, and the store tells of %v", what, err, told)
		}
		return false
	}
	place := filepath.Join(t.TempDir(), "store")
	if _, err := Restore(t.Context(), &archive, kind, place); err != nil {
		t.Fatal(err)
	}
	if n := listed(t, open(t, kind, place)); n != 3000 {
		t.Errorf("%s: a backup was taken and has %d rows", what, n)
	}
	return true
}

// TestADamagedCopyIsNoDamageOfTheStore damages each file of a copy, in which tables are those of the store:
// the damaged ones have taken their places.
func TestADamagedCopyIsNoDamageOfTheStore(t *testing.T) {
	eachShape(t, func(t *testing.T, kind string, shape storetest.Shape) {
		s := open(t, kind, filepath.Join(t.TempDir(), "store"))
		fill(t, s)
		shape.Make(t, s)
		k, _ := kindNamed(kind)
		copies := t.TempDir()
		whole := filepath.Join(copies, "whole")
		if err := s.(rouse.Checkpointer).Checkpoint(t.Context(), whole); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(whole)
		if err != nil {
			t.Fatal(err)
		}
		refused := 0
		for _, e := range entries {
			dir := filepath.Join(copies, "without-"+e.Name())
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			name := filepath.Join(dir, e.Name())
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, b[:len(b)/3], 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, fault := k.countContents(t.Context(), dir)
			if fault == nil {
				continue
			}
			refused++
			err = copyFault(t.Context(), s, fault)
			if told := s.(rouse.Checked).Corrupted(); told != nil {
				t.Fatalf("a copy with a damaged %s: the store tells of %v", e.Name(), told)
			}
			if !errors.Is(err, rouse.ErrCorrupt) {
				continue // it has a format that there is not
			}
			text := err.Error()
			for part, want := range map[string]bool{dir: true, "the copy is damaged": true, "the store is damaged": false,
				"restore the store": false, "accept-loss": false} {
				if strings.Contains(text, part) != want {
					t.Errorf("%s: %q in %s", e.Name(), part, text)
				}
			}
		}
		if refused < 1 || kind == "pebble" && refused < 4 {
			t.Errorf("%d of %d damaged files were refused", refused, len(entries))
		}
		var b bytes.Buffer
		if err := Write(t.Context(), s, &b, Info{}); err != nil {
			t.Errorf("a backup after that: %v", err)
		}
	})
}
