package cluster

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
)

// scratch is where binaries and data are. Unlike testing's own directories everybody may enter it: some servers run as another
// user.
var scratch string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if code, ended := enclose(); ended {
		return code
	}
	var err error
	if scratch, err = os.MkdirTemp("", "rouse-cluster-"); err == nil {
		err = os.Chmod(scratch, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	flag.Parse()
	sideBySide()
	return m.Run()
}

// sideBySide lets more tests than usual run at a time, if nobody says how many: most of the time they wait for leases to end.
func sideBySide() {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)+1))
	}
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

// users is the rouse that users have.
var users = sync.OnceValues(func() (string, error) {
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
	if n, ok := number(t, "ROUSE_ROUNDS"); ok {
		return n
	}
	if testing.Short() {
		return short
	}
	return usual
}

// seconds is how long a test goes on that does one thing all the time; short runs for less.
func seconds(usual, short int) time.Duration {
	if testing.Short() {
		usual = short
	}
	return time.Duration(usual) * time.Second
}

// minutes is how long a loop is to go on, 0 if nobody says.
func minutes(t testing.TB) time.Duration {
	t.Helper()
	n, _ := number(t, "ROUSE_MINUTES")
	return time.Duration(n) * time.Minute
}

func number(t testing.TB, name string) (n int, ok bool) {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: want a whole number from 1", name, text)
	}
	return n, true
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
