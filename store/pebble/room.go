package pebble

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rousehq/rouse/internal/private"
	"github.com/rousehq/rouse/internal/storekit"
)

// room watches the free space of the disk. Below the reserve no rows are added; when the reserve is used up,
// too, writes wait until there is space, because an error would end the process.
type room struct {
	storekit.Space
	disk vfs.FS
	dir  string

	leaving chan struct{} // closed by stopWaiting
	once    sync.Once
	waits   atomic.Int64
}

// The interval of retrying a write that waits for space, and how long
// a table waits before it fails: a failed table is removed, which frees space, and is retried later.
const (
	roomRetry = 50 * time.Millisecond
	tableWait = time.Second
)

func newRoom(disk vfs.FS, dir string, reserve int64) *room {
	r := &room{disk: disk, dir: dir, leaving: make(chan struct{})}
	r.Reserve = reserve
	r.Measure = func() (int64, error) {
		u, err := disk.GetDiskUsage(dir)
		return int64(min(u.AvailBytes, math.MaxInt64)), err
	}
	return r
}

// makePrivate removes other users' access to a file, or to a directory and its files. It does nothing on a
// virtual disk.
func (r *room) makePrivate(path string) error {
	switch {
	case r.disk != vfs.Default:
		return nil
	case path == r.dir:
		return private.Tree(path)
	}
	return private.Path(path)
}

// stopWaiting makes writes that wait for space fail.
func (r *room) stopWaiting() { r.once.Do(func() { close(r.leaving) }) }

// retryWhileFull retries do while it fails for lack of space, for at most the patience (0: no limit).
func (r *room) retryWhileFull(patience time.Duration, do func() error) error {
	err := do()
	if !storekit.IsFull(err) {
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
		if err = do(); !storekit.IsFull(err) {
			return err
		}
	}
	return err
}
