package crash

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// scratch is where binaries and data are. Unlike testing's own directories everybody may enter it: some servers run as nobody.
var scratch string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if code, ended := enclose(); ended {
		return code
	}
	var err error
	if scratch, err = os.MkdirTemp("", "rouse-crash-"); err == nil {
		err = os.Chmod(scratch, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	return m.Run()
}

// tempDir returns a new directory that is removed with the test.
func tempDir(t testing.TB) string {
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

// binary is the rouse that users have.
var binary = sync.OnceValues(func() (string, error) {
	if given := os.Getenv("ROUSE_BINARY"); given != "" {
		return filepath.Abs(given)
	}
	return build("rouse")
})

// mortal is a rouse that can be told where to die.
var mortal = sync.OnceValues(func() (string, error) { return build("rouse-mortal", "-tags", "failpoint") })

func build(name string, flags ...string) (string, error) {
	path := filepath.Join(scratch, name)
	args := append(append([]string{"build", "-ldflags=-w", "-o", path}, flags...), "github.com/rousehq/rouse/cmd/rouse")
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}

// rounds is how often a test does what it does; short runs do less.
func rounds(t testing.TB, usual, short int) int {
	t.Helper()
	if text := os.Getenv("ROUSE_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("ROUSE_ROUNDS=%q is no number of rounds", text)
		}
		return n
	}
	if testing.Short() {
		return short
	}
	return usual
}

// seed is what a test's dice begin with.
func seed(t testing.TB) uint64 {
	t.Helper()
	n := uint64(time.Now().UnixNano())
	if text := os.Getenv("ROUSE_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("ROUSE_SEED=%q is no number", text)
		}
	}
	t.Logf("ROUSE_SEED=%d", n)
	return n
}
