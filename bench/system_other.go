//go:build !linux

package bench

import "syscall"

// endWithParent does nothing: only Linux ends a process when its parent is killed.
func endWithParent(a *syscall.SysProcAttr, _ syscall.Signal) *syscall.SysProcAttr { return a }
