package pebble

import (
	"context"
	"fmt"

	lsm "github.com/cockroachdb/pebble/v2"
)

// Checkpoint writes a consistent copy of the store into a directory that does not exist yet. On the same file
// system the copy shares its files with the store and costs little. The marker comes last: an interrupted
// copy is not a store. An error that is rouse.ErrCorrupt is about the copy; Examine examines the store.
func (s *Store) Checkpoint(ctx context.Context, dir string) error {
	if err := s.beginStoreCall(ctx); err != nil {
		return err
	}
	defer s.life.RUnlock()
	must := s.notes.lastAcknowledged()
	err := s.db.Checkpoint(dir, lsm.WithFlushedWAL())
	if err == nil {
		err = s.witnessCopy(dir, must)
	}
	if err == nil {
		err = writeMarker(s.room.disk, dir, "ready")
	}
	if err != nil {
		return fmt.Errorf("checkpoint to %s: %w", dir, addCure(err))
	}
	return nil
}

// witnessCopy creates the witness of a copy, which requires everything that the copy contains.
func (s *Store) witnessCopy(dir string, revision uint64) error {
	x := examined{has: noted{revision: revision, logs: map[uint64]bool{}}}
	if err := x.examineFiles(s.room.disk, dir); err != nil {
		return err
	}
	for _, log := range x.logs {
		x.has.logs[log] = true
	}
	w, err := makeWitness(s.room.disk, dir, x.has.witnessNote())
	if err != nil {
		return err
	}
	return w.Close()
}
