package pebble

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/storetest"
)

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// makeStore creates a store with some rows on disk, and closes it.
func makeStore(t *testing.T, dir string) {
	t.Helper()
	s := openTest(t, dir)
	var changes []rouse.Change
	for i := range 2000 {
		changes = append(changes, create(fmt.Sprintf("t%04d-%s", i, strings.Repeat("x", 100))))
	}
	if _, err := s.Apply(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsNoStoreIsRefusedAndLeftAlone(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, dir string)
		parts   []string
	}{
		{"a file", func(t *testing.T, dir string) { writeFile(t, dir, "x") }, []string{"no directory", "name one"}},
		{"files of another program", func(t *testing.T, dir string) {
			_ = os.Mkdir(dir, 0o700)
			writeFile(t, filepath.Join(dir, "letter.txt"), "x")
		}, []string{"not empty", "no store of rouse", "name a directory"}},
		{"another Pebble", func(t *testing.T, dir string) {
			makeStore(t, dir)
			_ = os.Remove(filepath.Join(dir, markerName))
			_ = os.Remove(filepath.Join(dir, witnessName))
		}, []string{"not empty", "no store of rouse"}},
		{"a store without its marker", func(t *testing.T, dir string) {
			makeStore(t, dir)
			_ = os.Remove(filepath.Join(dir, markerName))
		}, []string{"damaged", markerName, "restore"}},
		{"an unreadable marker", func(t *testing.T, dir string) {
			_ = os.Mkdir(dir, 0o700)
			writeFile(t, filepath.Join(dir, markerName), "\x00\x00")
		}, []string{"damaged", "restore"}},
		{"a newer format", func(t *testing.T, dir string) {
			makeStore(t, dir)
			writeFile(t, filepath.Join(dir, markerName), fmt.Sprintf(markerText, storeFormat+1, "ready"))
		}, []string{fmt.Sprintf("format %d", storeFormat+1), "newer rouse"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			c.prepare(t, dir)
			storetest.Refuses(t, dir, func() (rouse.Store, error) { return Open(dir, Options{}) }, append(c.parts, dir)...)
		})
	}
}

// TestALostStoreIsNotReplaced: a directory that was a store and lost its files does not become an empty
// store.
func TestALostStoreIsNotReplaced(t *testing.T) {
	for _, lost := range []string{"MANIFEST-*", "*.sst", "*"} {
		dir := filepath.Join(t.TempDir(), "store")
		makeStore(t, dir)
		files, err := filepath.Glob(filepath.Join(dir, lost))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, f := range files {
			if filepath.Base(f) != markerName {
				if err := os.Remove(f); err != nil {
					t.Fatal(err)
				}
			}
		}
		s, err := Open(dir, Options{})
		if err == nil {
			_ = s.Close()
			t.Errorf("without %s it was opened", lost)
		} else if !strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), "restore") {
			t.Errorf("without %s: %q names no cure", lost, err)
		}
	}
}

func TestDamageIsNoticed(t *testing.T) {
	for _, file := range []string{"MANIFEST-*", "*.sst"} {
		dir := filepath.Join(t.TempDir(), "store")
		makeStore(t, dir)
		files, err := filepath.Glob(filepath.Join(dir, file))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, name := range files {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for i := range min(4096, len(b)/2) {
				b[len(b)/4+i] ^= 0x5a
			}
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Open(dir, Options{})
		if err == nil {
			_, err = s.List(t.Context(), rouse.Query{Limit: 10_000})
			_ = s.Close()
		}
		if err == nil {
			t.Errorf("no error for a damaged %s", file)
		} else if !strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), "restore") {
			t.Errorf("damaged %s: %q names no cure", file, err)
		}
	}
}

func TestAnInterruptedStartIsBegunAgain(t *testing.T) {
	for _, left := range []map[string]string{
		{},
		{markerTemp: "half a mark"},
		{"LOCK": "", markerTemp: ""},
		{markerName: fmt.Sprintf(markerText, storeFormat, "new")},
		{markerName: fmt.Sprintf(markerText, storeFormat, "new"), "LOCK": ""},
	} {
		dir := t.TempDir()
		for name, text := range left {
			writeFile(t, filepath.Join(dir, name), text)
		}
		makeStore(t, dir)
		s := openTest(t, dir)
		if n, err := s.Count(t.Context(), rouse.Query{}); err != nil || n != 2000 {
			t.Errorf("after %v: %d rows, %v", left, n, err)
		}
		_ = s.Close()
	}
}

func TestAStoreIsOpenedOnce(t *testing.T) { storetest.OpenedOnce(t, openDir) }

// readOnlyDisk refuses all changes.
type readOnlyDisk struct{ vfs.FS }

func (readOnlyDisk) Create(string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, syscall.EROFS
}
func (readOnlyDisk) MkdirAll(string, os.FileMode) error { return syscall.EROFS }
func (readOnlyDisk) Lock(string) (io.Closer, error)     { return nil, syscall.EROFS }

func TestADiskThatCannotBeWrittenIsNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	for range 2 {
		_, err := openOnFS(dir, Options{}, readOnlyDisk{vfs.Default})
		if err == nil || !strings.Contains(err.Error(), "cannot be written") || !strings.Contains(err.Error(), dir) {
			t.Errorf("%v", err)
		}
		makeStore(t, dir)
	}
}
