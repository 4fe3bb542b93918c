//go:build !linux

package subprocess

import "syscall"

// endWithParent can do nothing here: there is the reaper alone.
func endWithParent(*syscall.SysProcAttr) {}
