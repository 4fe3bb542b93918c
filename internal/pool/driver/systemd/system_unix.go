//go:build unix

package systemd

import (
	"io/fs"
	"os"
	"syscall"
)

// How a file is locked, and the error of lockFile if another process has locked it.
const (
	shared    = syscall.LOCK_SH
	exclusive = syscall.LOCK_EX
	errLocked = syscall.EWOULDBLOCK
)

// lockFile locks a file until it is closed.
func lockFile(f *os.File, how int) error { return syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB) }

// fileOwner returns the owner of a file.
func fileOwner(info fs.FileInfo) (user int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
