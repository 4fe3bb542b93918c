package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// Binary returns the path of the rouse that users have. It is built once a run.
var Binary = sync.OnceValues(func() (string, error) {
	if given := os.Getenv("ROUSE_BINARY"); given != "" {
		return filepath.Abs(given)
	}
	return Build("rouse")
})

// Mortal returns the path of a rouse that dies at the place that ROUSE_FAILPOINT names.
var Mortal = sync.OnceValues(func() (string, error) { return Build("rouse-mortal", "-tags", "failpoint") })

// Build builds a rouse of that name with more flags of go build, and returns its path.
func Build(name string, flags ...string) (string, error) {
	path := filepath.Join(scratch, name)
	args := append(append([]string{"build", "-ldflags=-w", "-o", path}, flags...), "github.com/rousehq/rouse/cmd/rouse")
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}
