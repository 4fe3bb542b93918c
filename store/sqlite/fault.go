package sqlite

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/rousehq/rouse"
)

// code returns SQLite's result code of an error, 0 if it has none.
func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// isFull says whether an error means that the disk has no room.
func isFull(err error) bool {
	c := code(err)
	return c&0xff == sqlite3.SQLITE_FULL || c == sqlite3.SQLITE_IOERR_SHMSIZE || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// isFatal says whether, after an error that is not for want of room, it is not known what the disk has.
func isFatal(err error) bool {
	switch code(err) & 0xff {
	case sqlite3.SQLITE_IOERR:
		return code(err) != sqlite3.SQLITE_IOERR_DATA
	}
	return false
}

const restoreCure = "restore the store from a backup"

// explain adds the cure to the errors that people can do something about.
func explain(err error) error {
	switch c := code(err) & 0xff; {
	case err == nil:
		return nil
	case errors.Is(err, rouse.ErrCorrupt):
		return err
	case code(err) == sqlite3.SQLITE_IOERR_DATA:
		return fmt.Errorf("%w: the page at byte %d is not as it was written, or another program has written to the file; %s", rouse.ErrCorrupt, system.damaged.Load(), restoreCure)
	case c == sqlite3.SQLITE_CORRUPT || c == sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w; %s, or move the file away, with those that begin with its name, to begin with an empty one", rouse.ErrCorrupt, err, restoreCure)
	case c == sqlite3.SQLITE_READONLY || c == sqlite3.SQLITE_CANTOPEN || c == sqlite3.SQLITE_PERM, errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("cannot be written: %w; make the file and its directory writable for this user, or name another", err)
	case c == sqlite3.SQLITE_BUSY || c == sqlite3.SQLITE_LOCKED:
		return fmt.Errorf("is locked by another program: %w; end it", err)
	}
	return err
}

// disk watches the free space around the file.
type disk struct {
	path    string
	reserve int64
	measure func(path string) (int64, error)

	mu      sync.Mutex
	checked time.Time
	avail   int64
}

// roomCheck is how often the disk is asked for its free space.
const roomCheck = 100 * time.Millisecond

// low says whether there is too little room to add rows.
func (d *disk) low() bool {
	if d.reserve <= 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); d.checked.IsZero() || now.Sub(d.checked) >= roomCheck {
		d.checked, d.avail = now, 1<<63-1 // a disk that does not tell is not full
		if n, err := d.measure(d.path); err == nil {
			d.avail = n
		}
	}
	return d.avail < d.reserve
}
