package sqlite

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/storekit"
)

// resultCode returns SQLite's result code in an error, or 0.
func resultCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

// isFull reports whether an error means that the disk is full.
func isFull(err error) bool {
	c := resultCode(err)
	return c&0xff == sqlite3.SQLITE_FULL || c == sqlite3.SQLITE_IOERR_SHMSIZE || storekit.IsFull(err)
}

// isFatal reports whether, after an error other than a full disk, the content of the disk is unknown.
func isFatal(err error) bool {
	switch resultCode(err) & 0xff {
	case sqlite3.SQLITE_IOERR:
		return resultCode(err) != sqlite3.SQLITE_IOERR_DATA
	}
	return false
}

const restoreCure = "restore the store from a backup"

// addCure adds the cure to errors that an operator can fix.
func addCure(err error) error {
	switch c := resultCode(err) & 0xff; {
	case err == nil:
		return nil
	case errors.Is(err, rouse.ErrCorrupt):
		return err
	case resultCode(err) == sqlite3.SQLITE_IOERR_DATA:
		return fmt.Errorf("%w: the page at byte %d is not as it was written, or another program has written to the file; %s",
			rouse.ErrCorrupt, system.damaged.Load(), restoreCure)
	case c == sqlite3.SQLITE_CORRUPT || c == sqlite3.SQLITE_NOTADB:
		return fmt.Errorf(
			"%w: %w; %s, or move the file away, with those that begin with its name, to begin with an empty one",
			rouse.ErrCorrupt, err, restoreCure)
	case c == sqlite3.SQLITE_READONLY || c == sqlite3.SQLITE_CANTOPEN || c == sqlite3.SQLITE_PERM,
		errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("cannot be written: %w; make the file and its directory writable for this user, or name another",
			err)
	case c == sqlite3.SQLITE_BUSY || c == sqlite3.SQLITE_LOCKED:
		return fmt.Errorf("is locked by another program: %w; end it", err)
	}
	return err
}
