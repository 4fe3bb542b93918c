package pebble

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	lsm "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/rousehq/rouse"
)

// Examine reads all of the store, and records and returns damage that it finds: a table that cannot be read
// from the disk, or rows, indexes, counters and records that do not agree. It is for a store of which a copy
// was found damaged: the copy may have tables of the store, and may have a fault that the store has not.
func (s *Store) Examine(ctx context.Context) error {
	if err := s.beginStoreCall(ctx); err != nil {
		return err
	}
	defer s.life.RUnlock()
	must := s.notes.lastAcknowledged()
	if err := s.checkTables(ctx); err != nil {
		return s.faults.Note(err)
	}
	t, err := tallyStore(ctx, s.db)
	if err == nil && t.last < must {
		err = fmt.Errorf("%w: it ends at revision %d, and revision %d was acknowledged", rouse.ErrCorrupt, t.last, must)
	}
	return s.faults.Note(err)
}

// checkTables reads the tables from the disk: reads of rows may find their blocks in the cache.
func (s *Store) checkTables(ctx context.Context) error {
	levels, err := s.db.SSTables()
	if err != nil {
		return err
	}
	for _, t := range slices.Concat(levels...) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.checkTable(&t); err != nil {
			if now, e := s.db.SSTables(); errors.Is(err, fs.ErrNotExist) && e == nil && !hasTable(now, &t) {
				continue // removed by a compaction in the meantime
			}
			return fmt.Errorf("%06d.sst: %w", uint64(t.BackingSSTNum), err)
		}
	}
	return nil
}

func (s *Store) checkTable(t *lsm.SSTableInfo) (err error) {
	f, err := s.room.disk.Open(s.room.disk.PathJoin(s.dir, fmt.Sprintf("%06d.sst", uint64(t.BackingSSTNum))))
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !t.Virtual && info.Size() != int64(t.Size) {
		err = fmt.Errorf("%w: it has %d bytes, and had %d; %s", rouse.ErrCorrupt, info.Size(), t.Size, restoreCure)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	content, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(context.Background(), content, sstable.ReaderOptions{}) // on an error it closes the file
	if err != nil {
		return err
	}
	return errors.Join(r.ValidateBlockChecksums(), r.Close())
}

func hasTable(levels [][]lsm.SSTableInfo, t *lsm.SSTableInfo) bool {
	same := func(o lsm.SSTableInfo) bool { return o.BackingSSTNum == t.BackingSSTNum }
	return slices.ContainsFunc(slices.Concat(levels...), same)
}
