//go:build unix

package conformance

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rousehq/rouse/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m, nil)) }

// python returns a command of the Python that has the packages which the client needs. Where they cannot be
// had, the test is skipped.
func python(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	binary, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	venv := exec.Command("../../scripts/python-venv")
	venv.Stderr = os.Stderr
	out, err := venv.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 75 {
		t.Skip("the packages of the Python client cannot be had")
	} else if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(strings.TrimSpace(string(out)), "bin", "python"), args...)
	cmd.Dir = "../../clients/python"
	cmd.Env = append(os.Environ(), "ROUSE_BINARY="+binary, "PYTHONPATH=src", "PYTHONDONTWRITEBYTECODE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	harness.EndWithParent(cmd.SysProcAttr)
	return cmd
}

// TestPython runs the tests of the Python client, its examples among them, and checks its types.
func TestPython(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, module, arguments string }{
		{"the tests pass", "unittest", "discover -s tests"},
		{"the types are right", "mypy", "--cache-dir=" + filepath.Join(harness.Scratch(), "mypy")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"-m", c.module}, strings.Fields(c.arguments)...)
			if out, err := python(t, args...).CombinedOutput(); err != nil {
				t.Errorf("%v: %v\n%s", args, err, out)
			}
		})
	}
}

// TestConformance runs the conformance script with the client of each language.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sync", "async"} {
		t.Run("Python "+kind, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			out, err := python(t, "tests/conformance.py", kind, s.proxy.URL, s.controls.URL, s.receiver.URL, "../conformance/steps.json").CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	steps, err := filepath.Abs("../../clients/conformance/steps.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"sync", "async"} {
		t.Run("Java "+kind, func(t *testing.T) {
			t.Parallel()
			cmd := java(t, "io.github.rousehq.rouse.Conformance", kind) // before the stage: it may skip the test
			s := newStage(t)
			cmd.Args = append(cmd.Args, s.proxy.URL, s.controls.URL, s.receiver.URL, steps)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	t.Run("TypeScript", func(t *testing.T) {
		t.Parallel()
		cmd := node(t, "built/conformance.js") // before the stage: it may skip the test
		s := newStage(t)
		cmd.Args = append(cmd.Args, s.proxy.URL, s.controls.URL, s.receiver.URL, steps)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}
