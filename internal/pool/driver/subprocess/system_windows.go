package subprocess

import (
	"errors"
	"syscall"
)

// checkSystem returns why this system cannot run workers: a worker and its child processes are ended by a
// signal to their process group, which Windows does not have.
func checkSystem() error {
	return errors.New(
		"workers cannot be processes on Windows, which has no process groups: use the driver docker or kubernetes")
}

func ownGroup() *syscall.SysProcAttr   { return nil }
func ownSession() *syscall.SysProcAttr { return nil }

func signalGroup(int, syscall.Signal) error { return checkSystem() }
