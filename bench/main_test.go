package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// scratch is where the binary is.
var scratch string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "rouse-bench-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	return m.Run()
}

// binary is the rouse that is measured.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "rouse")
	if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", path, "github.com/rousehq/rouse/cmd/rouse").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})
