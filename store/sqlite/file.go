package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/private"
)

// lock keeps other processes, and other stores in this process, from a file. It locks a separate file next to
// it, because SQLite's own locks last only for its transactions.
type lock struct{ f *os.File }

func (l *lock) closeLock() error {
	if l == nil {
		return nil
	}
	return l.f.Close()
}

// lockStoreFile checks a path, locks it, and creates the store if it does not exist. It creates nothing if
// the path contains something else or is not writable.
func lockStoreFile(path string) (string, *lock, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", nil, err
	}
	wrong := func(err error) (string, *lock, error) {
		return "", nil, fmt.Errorf("store %s: %w", path, addCure(err))
	}
	if _, err := inspectFormat(path); err != nil {
		return wrong(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return wrong(err)
	}
	l, err := takeLock(path + ".lock")
	if err != nil {
		return wrong(err)
	}
	for _, end := range []string{"", "-wal", "-shm", "-journal", ".lock", witnessEnd} { // for a store of an older rouse
		if err := private.Path(path + end); err != nil {
			_ = l.closeLock()
			return wrong(err)
		}
	}
	// Check again: another process may have created the store before this one had the lock.
	format, err := inspectFormat(path)
	if err == nil && format == 0 {
		err = buildStore(path)
	}
	if err != nil {
		_ = l.closeLock()
		return wrong(err)
	}
	return path, l, nil
}

func takeLock(path string) (*lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		_ = f.Close()
		if errors.Is(err, errLocked) {
			return nil, errors.New("is in use by another rouse; stop the other one, or give each its own file")
		}
		return nil, err
	}
	return &lock{f}, nil
}

// inspectFormat returns the format of the existing store, or 0. It reads the header without SQLite, which
// would create files next to it.
func inspectFormat(path string) (format int64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		for _, end := range []string{"-wal", witnessEnd} {
			if fileExists(path + end) {
				return 0, fmt.Errorf("%w: it is missing, and %s%s is there; %s, or remove that one, too", rouse.ErrCorrupt, path,
					end, restoreCure)
			}
		}
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
		if fileExists(path + witnessEnd) {
			return 0, fmt.Errorf("%w: it is empty; %s", rouse.ErrCorrupt, restoreCure)
		}
		return 0, errors.New("is empty, and no store of rouse; name a file that does not exist yet, or remove this one")
	}
	h, err := readHead(path)
	if err != nil {
		return 0, err
	}
	if wrong := h.refusalReason(); wrong != "" {
		if h.hasMark() || fileExists(path+witnessEnd) {
			return 0, fmt.Errorf("%w: it %s; %s", rouse.ErrCorrupt, wrong, restoreCure)
		}
		return 0, errors.New(wrong + "; name a file that does not exist yet")
	}
	switch format = h.readNumber(60); {
	case format == 0:
		return 0, fmt.Errorf("%w: it has no format; %s", rouse.ErrCorrupt, restoreCure)
	case format > formatVersion:
		return 0, fmt.Errorf("has format %d, this rouse knows formats up to %d; run the newer rouse that wrote it", format,
			formatVersion)
	}
	if must := h.readNumber(28) * pageSize; !fileExists(path+"-wal") && info.Size() < must {
		return 0, fmt.Errorf("%w: it has %d bytes of %d; %s", rouse.ErrCorrupt, info.Size(), must, restoreCure)
	}
	return format, nil
}

func fileExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// head is the first page of a file, or as much of it as exists.
type head struct{ b []byte }

func readHead(path string) (h head, err error) {
	f, err := os.Open(path)
	if err != nil {
		return h, err
	}
	defer f.Close()
	h.b, err = io.ReadAll(io.LimitReader(f, pageSize))
	return h, err
}

// readNumber returns a number in the header of SQLite's file format.
func (h head) readNumber(at int) int64 { return int64(binary.BigEndian.Uint32(h.b[at:])) }

// hasChecksums reports whether pages end with checksums.
func (h head) hasChecksums() bool { return len(h.b) > 20 && h.b[20] == reserved }

// hasMark reports whether the page ends with the mark of a checksum.
func (h head) hasMark() bool {
	return len(h.b) == pageSize && binary.BigEndian.Uint32(h.b[pageSize-reserved:]) == pageMark
}

// refusalReason returns why this is not a store; "" if it is one.
func (h head) refusalReason() string {
	switch {
	case len(h.b) < pageSize || string(h.b[:16]) != "SQLite format 3\x00":
		return "is no SQLite file, or is damaged"
	case h.readNumber(68) != applicationID:
		return "is an SQLite file of another application"
	case binary.BigEndian.Uint16(h.b[16:]) != pageSize:
		return "has pages of another size than 4096"
	case h.hasMark() != h.hasChecksums():
		return "has a damaged header"
	}
	return ""
}

// buildStore creates a store under a temporary name and moves it to its path when it is complete.
func buildStore(path string) error {
	temp := path + ".new"
	for _, left := range []string{temp, temp + "-journal"} { // by an interrupted start
		if err := os.Remove(left); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := createStoreFile(temp); err != nil {
		_ = os.Remove(temp)
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncFile(filepath.Dir(path))
}
