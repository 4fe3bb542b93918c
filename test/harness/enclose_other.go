//go:build !linux

package harness

import "syscall"

func runInMountNamespace() (code int, ended bool) { return 0, false }

// EndWithParent does nothing on this system.
func EndWithParent(*syscall.SysProcAttr) {}
