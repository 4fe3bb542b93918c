package front

import (
	"context"
	"fmt"
	"time"

	"github.com/rousehq/rouse"
)

// An index that was empty is filled by all nodes at the same time, row by row:
//
// Whoever finds the index without an id gives it one, the current sync id. A row whose last_sync_id is another one is not in the index.
// A node takes some of those rows by writing the id there, and its own name as sync_owner: two nodes never take the same. Then it
// puts them into the index. Rows of higher criticality go first; when a node finds none of a criticality any more, it says so, and the
// index's level falls.
//
// Nothing is lost, whatever dies when. A batch is noted in the index before its rows are marked, and the note goes in the same step in
// which the last of them come in. While there is one of a criticality, the level stays above it. A batch that is older than it may be
// belongs to a node that is dead: another one finds its rows by sync_owner.
//
// What is written meanwhile its writer puts in. A row that was marked counts as written, so that who reads by position, and has passed
// it while the index did not know of it, finds it by its token.

// syncing is how far a store has come.
type syncing struct {
	id     int64 // of the index that it is about
	level  int   // the criticality that it is at
	clean  int   // the least criticality, with all above it, of which it found no row that is not marked
	after  rouse.Position
	won    int // in this pass through the rows of a criticality
	left   int
	locked int // passes on end in which others kept all rows locked that were left
	batch  int

	period       uint64    // in which it had a beat last
	last         int64     // what it was
	beat, copied time.Time // when this store did so last
}

// lockedPasses is how often a store looks again at rows that others keep locked. They are about to write them.
const lockedPasses, lockedPause = 20, 50 * time.Millisecond

// syncStep puts a batch of rows into the index, and says how long to wait before the next.
func (s *Store) syncStep(ctx context.Context, v view) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, s.pace.call)
	defer cancel()
	y := &s.sync
	if y.id != v.id {
		*y = syncing{id: v.id, level: rouse.MaxCriticality, clean: rouse.MaxCriticality + 1, period: y.period, last: y.last,
			beat: y.beat, copied: y.copied}
	}
	if y.clean == 0 { // others have batches that are not in the index yet
		_, dead, err := s.report(ctx, v, nil)
		if err == nil && len(dead) > 0 {
			err = s.takeOver(ctx, v, dead)
		}
		return lockedPause, ignoreIndex(err)
	}
	y.batch++
	owner := fmt.Sprint(s.owner, "/", y.batch)
	if _, _, err := s.report(ctx, v, &batch{owner, y.level}); err != nil {
		return 0, ignoreIndex(err)
	}
	p, err := s.SyncNext(ctx, v.id, owner, uint8(y.level), y.after, s.pace.scan, s.pace.batch)
	if err != nil {
		return 0, err // the batch may be marked: it is found by its owner
	}
	if s.pace.marked != nil && len(p.Won) > 0 {
		s.pace.marked()
	}
	err = s.askFor(ctx, v, s.pace.call/2, func(ctx context.Context) error { return s.index.put(ctx, v.id, p.Won, owner) })
	if err != nil {
		return 0, ignoreIndex(err)
	}
	s.counts.synced.Add(uint64(len(p.Won)))
	y.after, y.won, y.left = p.After, y.won+len(p.Won), y.left+p.Left
	if !p.Ended {
		return 0, nil
	}
	return s.endPass(), nil
}

// endPass ends a pass through the rows of a criticality, and says how long to wait before the next.
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

// takeOver puts the rows into the index that the batches of dead nodes have marked.
func (s *Store) takeOver(ctx context.Context, v view, dead []string) error {
	var after rouse.Key
	for {
		rows, next, err := s.SyncOf(ctx, v.id, dead, after, s.pace.scan)
		if err != nil {
			return err
		}
		if err := s.askFor(ctx, v, s.pace.call/2, func(ctx context.Context) error { return s.index.put(ctx, v.id, rows, "") }); err != nil {
			return err
		}
		s.counts.synced.Add(uint64(len(rows)))
		if next == nil {
			break
		}
		after = *next
	}
	return s.askFor(ctx, v, s.pace.call/2, func(ctx context.Context) error { return s.index.end(ctx, v.id, dead) })
}
