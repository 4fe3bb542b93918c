//go:build unix

package subprocess

import "syscall"

// checkSystem returns nil: this system can run workers.
func checkSystem() error { return nil }

// ownGroup makes a process the leader of a new process group.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// ownSession makes a process the leader of a new session.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// signalGroup sends a signal to all processes of a group.
func signalGroup(group int, sig syscall.Signal) error { return syscall.Kill(-group, sig) }
