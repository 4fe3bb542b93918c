package front

import (
	"context"
	"fmt"
	"time"

	"github.com/rousehq/rouse"
)

// All nodes fill an empty index at the same time, row by row:
//
// The first node that finds an index without an id gives it one, the current sync id. A row is missing from
// the index if its last_sync_id is a different one. To take some of these rows, a node writes the id there,
// and its own name as sync_owner, so two nodes never take the same rows. Then it adds them to the index. Rows
// of higher criticality go first; when a node finds no more rows of a criticality, it reports that, and the
// index's level falls.
//
// Nothing is lost, whichever node dies when. A batch is recorded in the index before its rows are marked, and
// the record is deleted in the same step that adds the last of them. While there is a batch of a criticality,
// the level stays above it. A batch that exceeds its age limit belongs to a dead node: another node finds its
// rows by sync_owner.
//
// Rows that are written during the sync are added by their writers. A marked row counts as written, so that a
// reader that passed its position while it was missing from the index finds it with a token.

// syncing is the progress of a store.
type syncing struct {
	id     int64 // ID of the index
	level  int   // the current criticality
	clean  int   // the lowest criticality at and above which it found no unmarked row
	after  rouse.Position
	won    int // rows marked in this pass through a criticality
	left   int
	locked int // consecutive passes in which others had locked all remaining rows
	batch  int

	period       uint64    // of its last beat
	last         int64     // value of its last beat
	beat, copied time.Time // when this store did each of them last
}

// lockedPasses is how often a store retries rows that others have locked. They are about to write them.
const lockedPasses, lockedPause = 20, 50 * time.Millisecond

// syncStep adds a batch of rows to the index, and returns the time until the next one.
func (s *Store) syncStep(ctx context.Context, v view) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, s.pace.call)
	defer cancel()
	y := &s.sync
	if y.id != v.id {
		*y = syncing{id: v.id, level: rouse.MaxCriticality, clean: rouse.MaxCriticality + 1, period: y.period, last: y.last,
			beat: y.beat, copied: y.copied}
	}
	if y.clean == 0 { // others have batches that are not in the index yet
		_, dead, err := s.sendHeartbeat(ctx, v, nil)
		if err == nil && len(dead) > 0 {
			err = s.takeOver(ctx, v, dead)
		}
		return lockedPause, ignoreIndex(err)
	}
	y.batch++
	owner := fmt.Sprint(s.owner, "/", y.batch)
	if _, _, err := s.sendHeartbeat(ctx, v, &batch{owner, y.level}); err != nil {
		return 0, ignoreIndex(err)
	}
	began := time.Now()
	p, err := s.SyncNext(ctx, v.id, owner, uint8(y.level), y.after, s.pace.scan, s.pace.batch)
	if err != nil {
		return 0, err // the batch may be marked: its rows are found by their owner
	}
	if s.pace.marked != nil && len(p.Won) > 0 {
		s.pace.marked()
	}
	err = s.askFor(ctx, v, s.pace.call/2, func(ctx context.Context) error {
		return s.index.putEntries(ctx, v.id,
			p.Won, owner)
	})
	if err != nil {
		return 0, ignoreIndex(err)
	}
	if s.arrivedLate(began) {
		s.pending.addPending(keysOf(p.Won)...)
	}
	s.counts.synced.Add(uint64(len(p.Won)))
	y.after, y.won, y.left = p.After, y.won+len(p.Won), y.left+p.Left
	if !p.Ended {
		return 0, nil
	}
	return s.endPass(), nil
}

// endPass ends a pass through the rows of a criticality, and returns the time until the next one.
func (s *Store) endPass() (wait time.Duration) {
	y := &s.sync
	switch {
	case y.won > 0:
		y.locked = 0
	case y.left > 0 && y.locked < lockedPasses:
		y.locked++
		wait = lockedPause
	default:
		y.clean, y.locked = y.level, 0
		y.level = max(0, y.level-1)
	}
	y.after, y.won, y.left = rouse.Position{}, 0, 0
	return wait
}

// takeOver adds the rows to the index that dead nodes have marked. They are marked again, as tokens may be
// newer than the dead node's mark.
func (s *Store) takeOver(ctx context.Context, v view, dead []string) error {
	var after rouse.Key
	for {
		rows, next, err := s.SyncOf(ctx, v.id, dead, after, s.pace.scan)
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			if _, err := s.correctEntries(ctx, v, keysOf(rows)); err != nil {
				return err
			}
		}
		s.counts.synced.Add(uint64(len(rows)))
		if next == nil {
			break
		}
		after = *next
	}
	return s.askFor(ctx, v, s.pace.call/2, func(ctx context.Context) error { return s.index.endBatches(ctx, v.id, dead) })
}
