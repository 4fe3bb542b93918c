package harness

import (
	"fmt"
	"os"
	"testing"
)

// scratch is where binaries and data are. Unlike testing's own directories every user may enter it: some
// servers run as another one.
var scratch string

// Main runs the tests of a package, and returns the exit code. first runs before them, in the process that
// has the tests; nil: nothing does.
func Main(m *testing.M, first func()) int {
	if code, ended := runInMountNamespace(); ended {
		return code
	}
	var err error
	if scratch, err = os.MkdirTemp("", "rouse-test-"); err == nil {
		err = os.Chmod(scratch, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	if first != nil {
		first()
	}
	return m.Run()
}

// Scratch returns the directory of all tests, which is removed when they end.
func Scratch() string { return scratch }

// TempDir returns a new directory that is removed with the test.
func TempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
