// Package private keeps files from other users of the machine.
package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
