//go:build unix

package sqlite

import (
	"os"

	"golang.org/x/sys/unix"
)

// errLocked is the error of lockFile when another process has the lock.
const errLocked = unix.EWOULDBLOCK

// lockFile locks a file until it is closed or the process ends.
func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// freeDiskBytes returns the free space for this user on the disk of a path.
func freeDiskBytes(path string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:unconvert // their types differ between systems
}
