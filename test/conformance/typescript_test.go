//go:build unix

package conformance

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rousehq/rouse/test/harness"
)

// errNoPackages is the error of project where the packages that the TypeScript client is built with cannot be
// had.
var errNoPackages = errors.New("the packages of the TypeScript client cannot be had")

// project makes a project that has the TypeScript client as its users have it, installed from the tarball
// that npm packs, and the tests of the client, which are compiled: their types are checked. It returns the
// directory.
var project = sync.OnceValues(func() (string, error) {
	script := exec.Command("../../scripts/node-packages")
	script.Stderr = os.Stderr
	out, err := script.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 75 {
		return "", errNoPackages
	} else if err != nil {
		return "", err
	}
	modules := filepath.Join(strings.TrimSpace(string(out)), "node_modules")
	clients, err := filepath.Abs("../../clients")
	if err != nil {
		return "", err
	}
	source, dir := filepath.Join(harness.Scratch(), "typescript"), filepath.Join(harness.Scratch(), "typescript-project")
	for from, to := range map[string]string{"typescript/src": filepath.Join(source, "src"),
		"typescript/tests": dir, "typescript/examples": filepath.Join(dir, "apps")} {
		if err := os.CopyFS(to, os.DirFS(filepath.Join(clients, from))); err != nil {
			return "", err
		}
	}
	for _, name := range []string{"package.json", "tsconfig.json", "tsconfig.edge.json", "README.md", "LICENSE", ".npmrc"} {
		text, err := os.ReadFile(filepath.Join(clients, "typescript", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(source, name), text, 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private": true, "type": "module"}`), 0o644); err != nil {
		return "", err
	}
	if err := os.Symlink(modules, filepath.Join(source, "node_modules")); err != nil {
		return "", err
	}
	run := func(dir, name string, args ...string) error {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return errors.New(cmd.String() + ": " + err.Error() + "\n" + string(out))
		}
		return nil
	}
	if err := run(source, "npm", "pack", "--pack-destination", dir); err != nil {
		return "", err
	}
	tarballs, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(tarballs) != 1 {
		return "", errors.New("npm pack did not write one tarball")
	}
	if err := run(dir, "npm", "install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", tarballs[0]); err != nil {
		return "", err
	}
	packages, err := os.ReadDir(modules)
	if err != nil {
		return "", err
	}
	for _, p := range packages {
		if err := os.Symlink(filepath.Join(modules, p.Name()), filepath.Join(dir, "node_modules", p.Name())); err != nil && !errors.Is(err, os.ErrExist) {
			return "", err
		}
	}
	if err := run(dir, "node", "examples.mjs", filepath.Join(clients, "typescript"), filepath.Join(clients, "../docs")); err != nil {
		return "", err
	}
	if err := run(dir, filepath.Join(modules, ".bin/tsc"), "-p", "tsconfig.apps.json"); err != nil { // types of frameworks need a browser's
		return "", err
	}
	return dir, run(dir, filepath.Join(modules, ".bin/tsc"), "-p", ".")
})

// node returns a command of Node in the project of the TypeScript client. Where the client cannot be built,
// the test is skipped.
func node(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	binary, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := project()
	if errors.Is(err, errNoPackages) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "ROUSE_BINARY="+binary)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	harness.EndWithParent(cmd.SysProcAttr)
	return cmd
}

// TestTypeScript runs the tests of the TypeScript client, its examples among them.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"client", "server", "subscribe", "handlers", "examples"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := node(t, "--test", "built/"+name+".test.js").CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	lock, err := os.ReadFile("../../clients/typescript/package-lock.json")
	if err != nil || strings.Contains(string(lock), `"resolved"`) {
		t.Errorf("package-lock.json names a registry: npm install --omit-lockfile-registry-resolved (%v)", err)
	}
}
