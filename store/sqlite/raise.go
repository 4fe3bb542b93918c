package sqlite

import (
	"context"

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
	return s.writeInTransaction(ctx, func(w *write) error {
		if revision > w.revision {
			w.revision, w.changed = revision, true // commitTransaction writes it
		}
		return nil
	})
}
