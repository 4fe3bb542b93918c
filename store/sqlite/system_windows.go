package sqlite

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// errLocked is the error of lockFile when another process has the lock.
const errLocked = windows.ERROR_LOCK_VIOLATION

// lockFile locks a file until it is closed or the process ends.
func lockFile(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0,
		1, 0, new(windows.Overlapped))
}

// freeDiskBytes returns the free space for this user on the disk of a path.
func freeDiskBytes(path string) (int64, error) {
	dir, err := windows.UTF16PtrFromString(filepath.Dir(path))
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(dir, &free, nil, nil); err != nil {
		return 0, err
	}
	return int64(min(free, 1<<62)), nil
}
