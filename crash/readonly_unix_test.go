//go:build unix

package crash

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// nobody is a user who owns nothing.
const nobody = 65534

// TestReadOnly starts the server where it may not write.
func TestReadOnly(t *testing.T) {
	for _, st := range stores {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range []struct {
				name string
				data func() string
			}{
				{"a store", func() string { return filled(t, st.place) }},
				{"an empty directory", func() string {
					data := filepath.Join(tempDir(t), "data")
					if err := os.Mkdir(data, 0o755); err != nil {
						t.Fatal(err)
					}
					return data
				}},
				{"no directory", func() string { return filepath.Join(tempDir(t), "data") }},
			} {
				t.Run(c.name, func(t *testing.T) {
					data := c.data()
					s := newServer(t, data, st.place(data))
					if os.Geteuid() == 0 { // whom no permission stops
						s.attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
					} else {
						forbid(t, filepath.Dir(data))
					}
					s.refuses("permission denied", "writable", "or name another")
				})
			}
		})
	}
}

// forbid takes the permission to write from everything in a directory, until the end of the test.
func forbid(t testing.TB, dir string) {
	t.Helper()
	for path := range tree(t, dir) {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		mode := info.Mode().Perm()
		if err := os.Chmod(path, mode&^0o222); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(path, mode) })
	}
}
