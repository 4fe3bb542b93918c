package pebble

import (
	"context"
	"encoding/binary"
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
	done, err := s.commit(ctx, func(w *write) error {
		if revision <= w.revision {
			return nil
		}
		w.revision = revision
		return w.batch.Set(revisionKey, binary.BigEndian.AppendUint64(nil, revision), nil)
	})
	if err != nil {
		return err
	}
	return wait(ctx, done)
}
