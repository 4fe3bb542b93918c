package pebble

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rousehq/rouse/internal/private"
)

// room watches the free space of the disk. Below the reserve no rows are added; when the reserve is used up,
// too, writes wait until there is space, because an error would end the process.
type room struct {
	disk    vfs.FS
	dir     string
	reserve int64

	mu      sync.Mutex
	checked time.Time
	avail   int64

	leaving chan struct{} // closed by giveUp
	once    sync.Once
	waits   atomic.Int64
}

// The interval of reading the free space, the interval of retrying a write that waits for space, and how long
// a table waits before it fails: a failed table is removed, which frees space, and is retried later.
const (
	roomCheck = 100 * time.Millisecond
	roomRetry = 50 * time.Millisecond
	tableWait = time.Second
)

func newRoom(disk vfs.FS, dir string, reserve int64) *room {
	return &room{disk: disk, dir: dir, reserve: reserve, leaving: make(chan struct{})}
}

// free returns the recently read number of free bytes.
func (r *room) free() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.checked.IsZero() || now.Sub(r.checked) >= roomCheck {
		r.checked = now
		r.avail = 1<<63 - 1 // a disk that does not report its space is not full
		if u, err := r.disk.GetDiskUsage(r.dir); err == nil && u.AvailBytes < 1<<62 {
			r.avail = int64(u.AvailBytes)
		}
	}
	return r.avail
}

// low reports whether there is too little space to add rows.
func (r *room) low() bool { return r.reserve > 0 && r.free() < r.reserve }

// private removes other users' access to a file, or to a directory and its files. It does nothing on a
// virtual disk.
func (r *room) private(path string) error {
	switch {
	case r.disk != vfs.Default:
		return nil
	case path == r.dir:
		return private.Tree(path)
	}
	return private.Path(path)
}

// giveUp makes writes that wait for space fail.
func (r *room) giveUp() { r.once.Do(func() { close(r.leaving) }) }

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// insist retries do while it fails for lack of space, for at most the patience (0: no limit).
func (r *room) insist(patience time.Duration, do func() error) error {
	err := do()
	if !isFull(err) {
		return err
	}
	r.waits.Add(1)
	tick := time.NewTicker(roomRetry)
	defer tick.Stop()
	for began := time.Now(); patience == 0 || time.Since(began) < patience; {
		select {
		case <-r.leaving:
			return err
		case <-tick.C:
		}
		if err = do(); !isFull(err) {
			return err
		}
	}
	return err
}
