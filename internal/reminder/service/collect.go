package service

import (
	"context"
	"errors"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/reminder/allocation"
	"github.com/rousehq/rouse/internal/reminder/convert"
)

// collectLoop looks for buckets without tokens and without reminders, and for aliases of reminders that are
// no more, while this instance leads.
func (s *Service) collectLoop(ctx context.Context) {
	for backoff.Sleep(ctx, s.opts.Collect) {
		if !s.opts.Leader() {
			continue
		}
		if err := s.collectUnused(ctx); err != nil {
			s.logFailure(ctx, "look for buckets without reminders", err)
		}
	}
}

func (s *Service) collectUnused(ctx context.Context) error {
	table, _ := s.currentTable()
	empty := map[string]bool{}
	for i := range table.Rows {
		b := &table.Rows[i].Bucket
		if b.State.Gives() || b.Kept {
			continue
		}
		some, err := s.hasReminders(ctx, b)
		if err != nil {
			return err
		}
		if !some {
			empty[b.ID] = true
		}
	}
	if len(empty) > 0 {
		s.mu.Lock()
		s.empty = empty
		s.mu.Unlock()
		s.Kick()
	}
	return s.opts.Notes.EachAlias(ctx, func(id, name string) error {
		_, err := s.opts.Timers.Get(ctx, s.keyOfReminder(name))
		if errors.Is(err, rouse.ErrNotFound) {
			err = s.opts.Notes.DropAlias(ctx, id)
		}
		return err
	})
}

// takeEmptied returns the empty token buckets that collectUnused has found, once.
func (s *Service) takeEmptied() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	empty := s.empty
	s.empty = nil
	return empty
}

// hasReminders reports whether reminders exist that were created in a bucket, or in one that it was a part
// of. It checks their names, so a divided bucket is kept as long as any of its reminders exists, in whichever
// bucket.
func (s *Service) hasReminders(ctx context.Context, b *allocation.Bucket) (bool, error) {
	states := append([]rouse.State{rouse.StateDead, rouse.StateFiring}, rouse.ListedStates...)
	for _, name := range append([]string{b.ID}, b.Of...) {
		q := rouse.Query{Namespace: s.opts.Namespace, States: states,
			Labels: map[string]string{convert.LabelBucket: name}, Limit: 1}
		for {
			found, next, err := s.opts.Timers.List(ctx, q)
			if err != nil || len(found) > 0 {
				return true, err
			}
			if next == nil {
				break
			}
			q.After = *next
		}
	}
	return false, nil
}
