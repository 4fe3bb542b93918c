package sqlite

import (
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/witness"
)

// Apply makes the changes in one transaction.
func (s *Store) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	results := make([]rouse.Result, len(changes))
	err := s.writeInTransaction(ctx, func(w *write) error {
		for i := range changes {
			if err := w.makeChange(&changes[i], &results[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// writeInTransaction takes its turn and calls work to write in one transaction. If that fails, nothing was
// changed. Once begun, it ignores the context: an interrupted statement would roll back the whole
// transaction.
func (s *Store) writeInTransaction(ctx context.Context, work func(*write) error) error {
	if err := s.turn.Take(ctx); err != nil {
		return err
	}
	defer s.turn.Release()
	if err := s.faults.Broken(); err != nil {
		return err
	}
	w := s.tx
	w.ctx = context.WithoutCancel(ctx)
	err := w.beginTransaction()
	if err == nil {
		if err = work(w); err == nil {
			err = w.commitTransaction()
		}
		if err != nil {
			w.rollbackTransaction()
		}
	}
	switch {
	case err == nil:
		if w.changed && s.witness != nil { // if the note fails, the previous one still holds
			_ = s.witness.Write(witness.Note{Revision: w.revision})
		}
		return nil
	case isFull(err):
		return rouse.ErrFull
	case isFatal(err):
		return s.faults.Break(addCure(err))
	}
	return s.faults.Note(err)
}
