package bench

import "syscall"

// endWithParent makes the kernel end a process when this one ends.
func endWithParent(a *syscall.SysProcAttr, sig syscall.Signal) *syscall.SysProcAttr {
	a.Pdeathsig = sig
	return a
}
