package subprocess

import "syscall"

// endWithParent makes the kernel kill the child when the thread that starts it ends.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
