package pebble

import (
	"context"
	"fmt"

	lsm "github.com/cockroachdb/pebble/v2"

	"github.com/rousehq/rouse"
)

// Apply makes the changes in one durable step.
func (s *Store) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	if err := checkChanges(changes); err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	results := make([]rouse.Result, len(changes))
	done, err := s.commit(ctx, func(w *write) error { return w.all(changes, results) })
	if err != nil {
		return nil, err
	}
	if err := wait(ctx, done); err != nil {
		return nil, err
	}
	return results, nil
}

func checkChanges(changes []rouse.Change) error {
	for i := range changes {
		c := &changes[i]
		var labels map[string]string
		if c.To != nil {
			labels = c.To.Labels
		}
		if err := checkRow("key", c.Key, labels); err != nil {
			return err
		}
		for j := range c.Also {
			if err := checkRow("also", c.Also[j].Key, c.Also[j].Labels); err != nil {
				return err
			}
		}
		for j := range c.Log {
			if err := checkRow("log", rouse.Key{Namespace: c.Log[j].Namespace, Name: c.Log[j].Name}, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// commit takes its turn, calls build to fill a batch, and passes it to the log. The returned channel reports
// when the batch is durable; it is nil if there was nothing to write. If build fails, nothing was changed.
func (s *Store) commit(ctx context.Context, build func(*write) error) (<-chan error, error) {
	if err := s.turn.Take(ctx); err != nil {
		return nil, err
	}
	defer s.turn.Release()
	if err := s.faults.Broken(); err != nil {
		return nil, err
	}
	w := &s.write
	w.begin()
	if err := build(w); err != nil {
		w.abandon()
		return nil, s.faults.Note(err)
	}
	if w.empty() {
		w.abandon()
		return nil, nil
	}
	if err := w.finish(); err != nil {
		w.abandon()
		return nil, s.faults.Note(err)
	}
	p := pending{batch: w.batch, revision: w.revision, done: make(chan error, 1)}
	if err := s.db.ApplyNoSyncWait(w.batch, lsm.Sync); err != nil {
		return nil, s.faults.Break(err)
	}
	w.written()
	s.syncing <- p // the syncer receives them in the order of the log, in which they become durable
	return p.done, nil
}

// pending is a batch that is in the log, but perhaps not on disk yet.
type pending struct {
	batch    *lsm.Batch
	revision uint64 // the last revision of the batch
	done     chan error
}

// syncLoop notifies writers when their batches are durable.
func (s *Store) syncLoop() {
	for p := range s.syncing {
		err := p.batch.SyncWait()
		if err != nil {
			err = s.faults.Break(fmt.Errorf("the log was not written: %w", err))
		} else {
			s.notes.reached(p.revision) // before any writer is notified
			_ = p.batch.Close()
		}
		p.done <- err
	}
}

func wait(ctx context.Context, done <-chan error) error {
	if done == nil {
		return nil
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
