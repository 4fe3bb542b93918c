//go:build !linux

package subprocess

import "syscall"

// endWithParent does nothing on this system, which has only the reaper.
func endWithParent(*syscall.SysProcAttr) {}
