package storetest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
)

// Private tests that only the owner can read or write the files of a store in a directory, both those that it
// creates and those that others could read when it was opened.
func Private(t *testing.T, open func(dir string) (rouse.Store, error)) {
	dir := filepath.Join(t.TempDir(), "deep", "store")
	session := func() {
		t.Helper()
		s, err := open(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range numberedRows(50) {
			if _, err := s.Apply(t.Context(), []rouse.Change{{Key: r.Key, To: &r}}); err != nil {
				t.Fatal(err)
			}
		}
		checkPrivate(t, dir)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		checkPrivate(t, dir)
	}
	session()
	for _, file := range listFiles(t, dir) {
		if err := os.Chmod(filepath.Join(dir, file), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	session()
}

func checkPrivate(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Dir(dir), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 && !strings.HasSuffix(path, ".tmp") {
			t.Errorf("%s is %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
