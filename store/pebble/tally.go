package pebble

import (
	"context"
	"fmt"

	lsm "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rousehq/rouse"
)

// Dir returns the directory of the store.
func (s *Store) Dir() string { return s.dir }

// Tally returns how many rows a checkpoint has in each state, and how many records, without changing it. Nobody has it open.
func Tally(ctx context.Context, dir string) (rows map[rouse.State]int64, records int64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("store %s: %w", dir, explain(err))
		}
	}()
	if h, err := inspect(vfs.Default, dir); err != nil || h.fresh {
		if err == nil {
			err = lsm.ErrDBDoesNotExist
		}
		return nil, 0, err
	}
	s := &Store{dir: dir, room: newRoom(vfs.Default, dir, -1), notes: newNotes(), report: func(error) {}}
	opts := s.tune(Options{CacheBytes: 1 << 20, MemTableBytes: 16 << 20}, false)
	opts.ReadOnly = true
	db, err := lsm.Open(dir, opts)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if e := db.Close(); err == nil {
			err = e
		}
	}()
	rows = map[rouse.State]int64{}
	it, err := db.NewIterWithContext(ctx, &lsm.IterOptions{LowerBound: []byte{tagCount}, UpperBound: []byte{tagCount + 1}})
	if err != nil {
		return nil, 0, err
	}
	for it.First(); it.Valid() && err == nil; it.Next() {
		if len(it.Key()) < 2 {
			err = errDamaged
			break
		}
		var n int64
		n, err = readCount(it.Value())
		rows[rouse.State(it.Key()[1])] += n
	}
	if e := it.Close(); err == nil {
		err = e
	}
	if err != nil {
		return nil, 0, err
	}
	hours, err := loadHours(db)
	for _, n := range hours {
		records += n
	}
	return rows, records, err
}
