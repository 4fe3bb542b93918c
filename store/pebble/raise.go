package pebble

import (
	"context"
	"encoding/binary"

	"github.com/rousehq/rouse/internal/storekit"
)

// Raise makes revisions continue above the given one, if they are lower.
func (s *Store) Raise(ctx context.Context, revision uint64) error {
	if err := storekit.CheckRevision(revision); err != nil {
		return err
	}
	if err := s.beginStoreCall(ctx); err != nil {
		return err
	}
	defer s.life.RUnlock()
	done, err := s.commitBatch(ctx, func(w *write) error {
		if revision <= w.revision {
			return nil
		}
		w.revision = revision
		return w.batch.Set(revisionKey, binary.BigEndian.AppendUint64(nil, revision), nil)
	})
	if err != nil {
		return err
	}
	return waitUntilDurable(ctx, done)
}
