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

// format is the format of Pebble's files. It is pinned: an upgrade must be deliberate, because older versions
// can no longer read the store then, and requires a new storeFormat.
const format = lsm.FormatWALSyncChunks

// pebbleOptions returns Pebble's options for a queue: most rows are written once, read once in order, and
// deleted soon.
func (s *Store) pebbleOptions(o Options, fresh bool) *lsm.Options {
	opts := &lsm.Options{
		FS:                 s.room.newPatientFS(s.notes),
		Lock:               s.lock,
		ErrorIfNotExists:   !fresh,
		FormatMajorVersion: format,
		CacheSize:          o.CacheBytes + 3*o.MemTableBytes,
		Logger:             quiet{},
		MaxOpenFiles:       1000,

		// In a large memtable, a short-lived timer is deleted before it is ever flushed to disk; with three
		// of them, writers continue during a flush.
		MemTableSize:                uint64(o.MemTableBytes),
		MemTableStopWritesThreshold: 4,

		// Every lookup reads level 0. It is kept short, but not so short that the same hour of the history is
		// written again and again, and can grow during a burst before writers are stopped.
		L0CompactionThreshold: 8,
		L0StopWritesThreshold: 40,
		LBaseMaxBytes:         128 << 20,
		TargetFileSizes:       [7]int64{4 << 20},
		FlushSplitBytes:       8 << 20,

		// Sync files as they grow, so that syncs of the log do not wait behind megabytes of other files.
		BytesPerSync:    1 << 20,
		WALBytesPerSync: 1 << 20,

		CompactionConcurrencyRange: func() (int, int) { return 1, 2 },

		// A damaged block is an error for the call that reads it; by default it would end the process. A key
		// that was deleted as set once, and was not, may have its earlier value again.
		EventListener: &lsm.EventListener{
			DataCorruption: func(i lsm.DataCorruptionInfo) {
				s.faults.Note(fmt.Errorf("%w: %s: %w", rouse.ErrCorrupt, i.Path, i.Details))
			},
			PossibleAPIMisuse: func(i lsm.PossibleAPIMisuseInfo) {
				if i.Kind == lsm.NondeterministicSingleDelete {
					s.faults.Note(fmt.Errorf("%w: a row that was deleted may be there again; %s", rouse.ErrCorrupt, restoreCure))
				}
			},
		},
	}
	for i := range opts.Levels {
		l := &opts.Levels[i]
		// A create looks up a key that does not exist; ten bits a key avoid 99 of 100 of these reads.
		l.FilterPolicy = bloom.FilterPolicy(10)
		l.BlockSize = 16 << 10
		l.IndexBlockSize = 64 << 10
		l.Compression = func() *sstable.CompressionProfile { return sstable.FastestCompression }
		if i == 0 { // is soon written again
			l.Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
		}
	}
	return opts
}

// quiet drops Pebble's log messages. A fatal error, such as a manifest that cannot be written, ends the
// process: the log contains all acknowledged writes.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(
		"the store cannot go on: "+format+" (what was acknowledged is safe; see to the disk and start again)", args...))
}

// addCure adds the cure to errors that an operator can fix.
func addCure(err error) error {
	switch {
	case err == nil:
		return nil
	case lsm.IsCorruptionError(err) || errors.Is(err, lsm.ErrDBDoesNotExist) || errors.Is(err, lsm.ErrDBNotPristine) ||
		errors.Is(err, os.ErrNotExist) ||
		strings.Contains(err.Error(), "object size mismatch"): // a truncated table; Pebble has no name for this error
		if errors.Is(err, rouse.ErrCorrupt) {
			return err
		}
		return fmt.Errorf("%w: %w; %s, or move the directory away to begin with an empty one", rouse.ErrCorrupt, err,
			restoreCure)
	case errors.Is(err, syscall.EROFS), errors.Is(err, os.ErrPermission):
		return fmt.Errorf("the directory cannot be written: %w; make the directory writable for this user, or name another",
			err)
	}
	return err
}
