package subprocess

import (
	"errors"
	"syscall"
)

// supported returns why this system cannot run workers: a worker and the processes that it starts end together by a signal to their process
// group, which Windows has not.
func supported() error {
	return errors.New("workers cannot be processes on Windows, which has no process groups: use the driver docker or kubernetes")
}

func ownGroup() *syscall.SysProcAttr   { return nil }
func ownSession() *syscall.SysProcAttr { return nil }

func signalGroup(int, syscall.Signal) error { return supported() }
