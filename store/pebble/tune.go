package pebble

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	lsm "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/rousehq/rouse"
)

// format is the format of Pebble's files. It is pinned: a newer rouse decides on purpose when older ones can no longer read
// its stores, and then it also raises storeFormat.
const format = lsm.FormatWALSyncChunks

// tune returns Pebble's options for a queue: much is written once, read once in order, and deleted soon.
func (s *Store) tune(o Options, fresh bool) *lsm.Options {
	opts := &lsm.Options{
		FS:                 s.room.fs(s.notes),
		Lock:               s.lock,
		ErrorIfNotExists:   !fresh,
		FormatMajorVersion: format,
		CacheSize:          o.CacheBytes + 3*o.MemTableBytes,
		Logger:             quiet{},
		MaxOpenFiles:       1000,

		// A large memtable lets a short-lived timer die before it is ever sorted out to disk, and three of them let writers
		// go on while one is flushed.
		MemTableSize:                uint64(o.MemTableBytes),
		MemTableStopWritesThreshold: 4,

		// Level 0 is read by every lookup. It is kept short, but a burst is allowed to be long before writers are stopped.
		L0CompactionThreshold: 4,
		L0StopWritesThreshold: 40,
		LBaseMaxBytes:         128 << 20,
		TargetFileSizes:       [7]int64{4 << 20},
		FlushSplitBytes:       8 << 20,

		// Sync files as they grow, so that the syncs of the log do not wait behind megabytes of somebody else's pages.
		BytesPerSync:    1 << 20,
		WALBytesPerSync: 1 << 20,

		CompactionConcurrencyRange: func() (int, int) { return 1, 2 },

		// A damaged block is an error for the call that reads it; by default it would end the process.
		EventListener: &lsm.EventListener{DataCorruption: func(i lsm.DataCorruptionInfo) {
			s.met(fmt.Errorf("%w: %s: %w", rouse.ErrCorrupt, i.Path, i.Details))
		}},
	}
	for i := range opts.Levels {
		l := &opts.Levels[i]
		// Creating a timer looks up a key that is not there; ten bits a key spare 99 of 100 of these reads.
		l.FilterPolicy = bloom.FilterPolicy(10)
		l.BlockSize = 16 << 10
		l.IndexBlockSize = 64 << 10
		l.Compression = func() *sstable.CompressionProfile { return sstable.FastestCompression }
	}
	return opts
}

// quiet drops Pebble's chatter. What it cannot survive, such as a manifest that cannot be written, ends the process: the
// log has everything that was acknowledged.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf("the store cannot go on: "+format+" (what was acknowledged is safe; see to the disk and start again)", args...))
}

// explain adds the cure to the errors that people can do something about.
func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case lsm.IsCorruptionError(err) || errors.Is(err, lsm.ErrDBDoesNotExist) || errors.Is(err, lsm.ErrDBNotPristine) || errors.Is(err, os.ErrNotExist) ||
		strings.Contains(err.Error(), "object size mismatch"): // a table that was cut short; Pebble has no name for this error
		if errors.Is(err, rouse.ErrCorrupt) {
			return err
		}
		return fmt.Errorf("%w: %w; %s, or move the directory away to begin with an empty one", rouse.ErrCorrupt, err, restoreCure)
	case errors.Is(err, syscall.EROFS), errors.Is(err, os.ErrPermission):
		return fmt.Errorf("the directory cannot be written: %w; make the directory writable for this user, or name another", err)
	}
	return err
}
