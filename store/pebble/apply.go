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
	if err := s.beginStoreCall(ctx); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	results := make([]rouse.Result, len(changes))
	done, err := s.commitBatch(ctx, func(w *write) error { return w.makeChanges(changes, results) })
	if err != nil {
		return nil, err
	}
	if err := waitUntilDurable(ctx, done); err != nil {
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

// commitBatch takes its turn, calls build to fill a batch, and passes it to the log. The returned channel
// reports when the batch is durable; it is nil if there was nothing to write. If build fails, nothing was
// changed.
func (s *Store) commitBatch(ctx context.Context, build func(*write) error) (<-chan error, error) {
	if err := s.turn.Take(ctx); err != nil {
		return nil, err
	}
	defer s.turn.Release()
	if err := s.faults.Broken(); err != nil {
		return nil, err
	}
	w := &s.write
	w.beginBatch()
	if err := build(w); err != nil {
		w.abandonBatch()
		return nil, s.faults.Note(err)
	}
	if w.isBatchEmpty() {
		w.abandonBatch()
		return nil, nil
	}
	if err := w.finishBatch(); err != nil {
		w.abandonBatch()
		return nil, s.faults.Note(err)
	}
	p := pending{batch: w.batch, revision: w.revision, done: make(chan error, 1)}
	if err := s.db.ApplyNoSyncWait(w.batch, lsm.Sync); err != nil {
		return nil, s.faults.Break(err)
	}
	w.rememberWritten()
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
			s.notes.noteDurable(p.revision) // before any writer is notified
			_ = p.batch.Close()
		}
		p.done <- err
	}
}

func waitUntilDurable(ctx context.Context, done <-chan error) error {
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
