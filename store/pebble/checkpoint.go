package pebble

import (
	"context"
	"fmt"

	lsm "github.com/cockroachdb/pebble/v2"
)

// Checkpoint writes a copy of the store, as of one moment, into a directory that does not exist yet. On the same file system
// the copy shares its files with the store and costs little. The marker comes last: a copy that was interrupted is no store.
func (s *Store) Checkpoint(ctx context.Context, dir string) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.life.RUnlock()
	if err := s.db.Checkpoint(dir, lsm.WithFlushedWAL()); err != nil {
		return fmt.Errorf("checkpoint to %s: %w", dir, explain(err))
	}
	if err := writeMarker(s.room.disk, dir, "ready"); err != nil {
		return fmt.Errorf("checkpoint to %s: %w", dir, explain(err))
	}
	return nil
}
