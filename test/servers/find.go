//go:build unix

package servers

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// places are directories of servers in addition to those of PATH: Debian keeps some out of the PATH of users.
var places = []string{"/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin"}

// requireProgram returns the path of a program. If it is missing, the test fails, or is skipped if servers
// are optional.
func requireProgram(t testing.TB, program string) string {
	t.Helper()
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	for _, dir := range places {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path
		}
	}
	reportMissing(t, program)
	return ""
}

// Find returns the path of a program that tests use and do not serve with, such as a browser. If it is
// missing, the test fails, or is skipped if servers are optional.
func Find(t testing.TB, name string) string {
	t.Helper()
	return requireProgram(t, name)
}

// findPostgres returns the directory of PostgreSQL's programs: that of ROUSE_POSTGRES, or the newest if there
// are several.
func findPostgres(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("ROUSE_POSTGRES"); dir != "" {
		return dir
	}
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is well-formed
	version := func(dir string) float64 {
		v, _ := strconv.ParseFloat(filepath.Base(filepath.Dir(dir)), 64) // a name that is no version is the oldest
		return v
	}
	slices.SortFunc(dirs, func(a, b string) int { return int(10 * (version(b) - version(a))) })
	for _, dir := range dirs {
		if _, err := exec.LookPath(filepath.Join(dir, "postgres")); err != nil {
			continue
		}
		if _, err := exec.LookPath(filepath.Join(dir, "initdb")); err == nil {
			return dir
		}
	}
	path, err := filepath.EvalSymlinks(requireProgram(t, "initdb")) // its neighbours are of the same version
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(path)
}

func reportMissing(t testing.TB, program string) {
	t.Helper()
	if os.Getenv("ROUSE_SERVERS") == "optional" {
		t.Skipf("%s is not installed, and servers are optional (ROUSE_SERVERS)", program)
	}
	t.Fatalf(
		"%s is not installed: `make servers` installs it; with ROUSE_SERVERS=optional, tests that need it are skipped",
		program)
}
