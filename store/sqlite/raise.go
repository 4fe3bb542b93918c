package sqlite

import (
	"context"
	"fmt"

	"github.com/rousehq/rouse"
)

// mostRevision limits Raise: all stores can represent it, and it leaves room for more writes than will ever
// be made.
const mostRevision = 1 << 62

// Raise makes revisions continue above the given one, if they are lower.
func (s *Store) Raise(ctx context.Context, revision uint64) error {
	if revision > mostRevision {
		return rouse.Refuse("revision", fmt.Sprint(revision), "is too high", fmt.Sprintf("use at most %d", uint64(mostRevision)))
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.life.RUnlock()
	return s.commit(ctx, func(w *write) error {
		if revision > w.revision {
			w.revision, w.changed = revision, true // finish writes it
		}
		return nil
	})
}
