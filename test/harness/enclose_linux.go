package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

const enclosed = "ROUSE_TEST_ENCLOSED"

// runInMountNamespace runs the tests in a process of their own, in a mount namespace of its own, if this user
// may mount: their mounts are seen by no other process, and are gone when they end, even if they are killed.
// It returns how that process ended.
func runInMountNamespace() (code int, ended bool) {
	if os.Geteuid() != 0 || os.Getenv(enclosed) != "" {
		return 0, false
	}
	self, err := os.Executable()
	if err != nil {
		return 0, false
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), enclosed+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, false // a root without the right to do so: the tests that mount report why they are skipped
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), true
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

// MayMount reports whether the tests run where they may mount.
func MayMount() bool { return os.Getenv(enclosed) != "" && os.Geteuid() == 0 }

// EndWithParent lets a child be killed when this process ends without having done so.
func EndWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
