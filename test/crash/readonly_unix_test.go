//go:build unix

package crash

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rousehq/rouse/test/harness"
)

// unprivileged is a user without files.
const unprivileged = 65534

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
					data := filepath.Join(harness.TempDir(t), "data")
					if err := os.Mkdir(data, 0o755); err != nil {
						t.Fatal(err)
					}
					return data
				}},
				{"no directory", func() string { return filepath.Join(harness.TempDir(t), "data") }},
			} {
				t.Run(c.name, func(t *testing.T) {
					data := c.data()
					s := newServer(t, data, st.place(data))
					permit(t, filepath.Dir(data), 0o444, 0o222)
					if os.Geteuid() == 0 { // root ignores permissions
						s.Attr.Credential = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
					}
					s.refuses("permission denied", "writable", "or name another")
				})
			}
		})
	}
}

// permit gives and takes permissions of everything in a directory, until the end of the test. Who may read a
// directory may enter it.
func permit(t testing.TB, dir string, give, take os.FileMode) {
	t.Helper()
	for path := range tree(t, dir) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		mode := info.Mode().Perm() | give
		if info.IsDir() {
			mode |= give >> 2
		}
		if err := os.Chmod(path, mode&^take); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(path, info.Mode().Perm()) })
	}
}
