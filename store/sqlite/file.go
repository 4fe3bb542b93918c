package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lock keeps other processes, and other stores of this one, from a file. It is held on a file beside it, because SQLite's
// own locks come and go with its transactions.
type lock struct{ f *os.File }

func (l *lock) release() error {
	if l == nil {
		return nil
	}
	return l.f.Close()
}

// enter checks a path, locks it, and makes the store if there is none. Where something else is, or where nothing can be
// written, it makes nothing.
func enter(path string) (string, *lock, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", nil, err
	}
	wrong := func(err error) (string, *lock, error) {
		return "", nil, fmt.Errorf("store %s: %w", path, explain(err))
	}
	if _, err := inspect(path); err != nil {
		return wrong(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return wrong(err)
	}
	l, err := take(path + ".lock")
	if err != nil {
		return wrong(err)
	}
	// Look again: another process may have made the store before this one had the lock.
	format, err := inspect(path)
	if err == nil && format == 0 {
		err = build(path)
	}
	if err != nil {
		_ = l.release()
		return wrong(err)
	}
	return path, l, nil
}

func take(path string) (*lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o640)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.New("is in use by another rouse; stop the other one, or give each its own file")
		}
		return nil, err
	}
	return &lock{f}, nil
}

// inspect returns the format of the store that is there; 0 if nothing is. Its header is read without SQLite, which would create
// files beside it.
func inspect(path string) (format int64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, errors.New("is no file; name one that does not exist yet")
	case info.Size() == 0:
		return 0, errors.New("is empty, and no store of rouse; name a file that does not exist yet, or remove this one")
	}
	var header [100]byte
	if _, err := io.ReadFull(f, header[:]); err != nil || string(header[:16]) != "SQLite format 3\x00" {
		return 0, errors.New("is no SQLite file, or is damaged; name a file that does not exist yet, or restore this one from a copy")
	}
	number := func(at int) int64 { return int64(binary.BigEndian.Uint32(header[at:])) }
	if number(68) != applicationID {
		return 0, errors.New("is an SQLite file of another application; name a file that does not exist yet")
	}
	switch format = number(60); {
	case format == 0:
		return 0, errors.New("is damaged: it has no format; restore it from a copy")
	case format > formatVersion:
		return 0, fmt.Errorf("has format %d, this rouse knows formats up to %d; run the newer rouse that wrote it", format, formatVersion)
	}
	page := int64(binary.BigEndian.Uint16(header[16:]))
	if page == 1 {
		page = 65536
	}
	if _, err := os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) && info.Size() < number(28)*page {
		return 0, fmt.Errorf("is damaged: it has %d bytes of %d; restore it from a copy", info.Size(), number(28)*page)
	}
	return format, nil
}

// build makes a store beside its place and moves it there when it is whole.
func build(path string) error {
	temp := path + ".new"
	for _, left := range []string{temp, temp + "-journal"} { // by a start that was interrupted
		if err := os.Remove(left); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := create(temp); err != nil {
		_ = os.Remove(temp)
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncFile(filepath.Dir(path))
}
