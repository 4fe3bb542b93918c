// Package private keeps files from other users of the machine.
package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// others are the rights of a file's group and of everybody.
const others fs.FileMode = 0o077

// Path removes the permissions of all but the owner from a file or directory. Nothing at the path is no
// error.
func Path(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Perm()&others == 0 {
		return nil
	}
	if err := os.Chmod(path, info.Mode().Perm()&^others); err != nil {
		return fmt.Errorf("others may read or write %s, and that cannot be taken away: %w; make this user its owner", path,
			err)
	}
	return nil
}

// Dir does so with a directory of a program's own. One that others may write to, as /tmp, is no such
// directory, and left as it is.
func Dir(path string) error {
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeSticky != 0 {
		return nil
	}
	return Path(path)
}

// CreateFile makes a file, and the directories above it that do not exist. It survives a power cut: secrets
// that are in use, and whose file is gone, are lost. A file that exists is left as it is, with fs.ErrExist.
func CreateFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close(), SyncDir(filepath.Dir(path)))
}

// SyncDir makes the names in a directory survive a power cut.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // which has nothing of the kind
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// IsReadOnly reports whether a file cannot be changed because it is on a volume that is not to be written, as
// orchestrators give secrets, or another user's: its owner decides about its readers.
func IsReadOnly(err error) bool {
	return errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission)
}

// Tree does so with a directory, and with the files and directories in it. A directory that belongs to
// another user, such as the root of a volume, is left as it is: only the files count.
func Tree(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed since it was listed
			return nil
		case err != nil:
			return err
		case !e.IsDir() && !e.Type().IsRegular():
			return nil
		}
		err = Path(path)
		if e.IsDir() && errors.Is(err, fs.ErrPermission) {
			return nil
		}
		return err
	})
}
