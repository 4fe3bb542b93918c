package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rousehq/rouse"
)

// Apply makes the changes, usually in one transaction and one round trip.
//
// A transaction has each key once, in one statement whose rows are in the order of their keys, so that
// concurrent calls wait for each other in one direction only. Changes with a key that occurred before, as a
// change or as an additional row, go into a following transaction, which sees the effect of the previous one:
// in the same transaction they would wait for rows while holding others that come later in the order.
func (s *Store) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	all := make([]rouse.Result, len(changes))
	results := all // results that are not filled in yet
	parts, err := splitChanges(changes)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", s.name, err)
	}
	if len(parts) == 0 {
		return all, s.checkUsable(ctx)
	}
	writer, err := s.drawWriter(ctx)
	if err != nil {
		return nil, err
	}
	for i, p := range parts {
		if err := s.applyPart(ctx, p, writer, results[:len(p.changes)]); err != nil {
			// Some or all of it may be written, or may be written later. Claims must return that, so it no
			// longer counts as this store's.
			s.writer.CompareAndSwap(writer, 0)
			if i > 0 && errors.Is(err, rouse.ErrFull) { // which would mean that nothing was written
				err = fmt.Errorf("store %s: some of the changes were written, then: %v", s.name, err)
			}
			return nil, err
		}
		results = results[len(p.changes):]
	}
	return all, nil
}

// drawWriter returns the number under which this store writes now.
func (s *Store) drawWriter(ctx context.Context) (int64, error) {
	if n := s.writer.Load(); n != 0 || s.o.ShowOwn {
		return n, nil
	}
	var n int64
	err := s.callLeases(ctx, []*call{newCall(s.sql.writer)}, func(_ int, row [][]byte) error {
		n = readInt(row[0])
		return nil
	})
	if err != nil {
		return 0, err
	}
	if !s.writer.CompareAndSwap(0, n) {
		n = s.writer.Load() // another call was first; if that has failed since, no writer has 0
	}
	return n, nil
}

// carefulFor is how many statements check for existing rows before they create them, after a create has met
// one.
const carefulFor = 256

// movedFor is how many statements search rows by their keys after one has found a row elsewhere than it was:
// a failed statement costs a round trip, which is long for a node that is far from its store.
const movedFor = 64

// A transaction that conflicted with another one is retried, after pauses that double on average:
// concurrentTries times concurrently with others, and then exclusively, so that it succeeds.
const (
	concurrentTries = 4
	maxTries        = 8
)

func (s *Store) applyPart(ctx context.Context, p *part, writer int64, results []rouse.Result) error {
	bold := p.plain && s.careful.Add(-1) < 0
	if bold && s.moved.Add(-1) < 0 {
		err := s.tryAt(ctx, p, writer, results)
		switch {
		case sqlState(err) == "23505": // a row exists already
			s.careful.Store(carefulFor)
			bold = false
		case !wasRolledBack(err):
			return err
		default: // others change rows at the same time
			s.moved.Store(movedFor)
		}
	}
	for try := 0; ; try++ {
		err := s.tryPart(ctx, p, writer, bold, results, try >= concurrentTries)
		if bold && sqlState(err) == "23505" { // a row exists already
			s.careful.Store(carefulFor)
			bold = false
			continue
		}
		// The server has rolled back the call with these codes: nothing was written.
		if err == nil || !wasRolledBack(err) || try == maxTries {
			return err
		}
		pause := time.NewTimer(time.Duration(rand.Int64N(int64(time.Millisecond) << try)))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
	}
}

func (s *Store) tryPart(ctx context.Context, p *part, writer int64, bold bool, results []rouse.Result,
	alone bool) error {
	c, err := p.buildStatement(&s.sql, writer, bold)
	if err != nil {
		return err
	}
	calls := []*call{c}
	if alone {
		calls = []*call{newCall(s.sql.alone), c}
	}
	return s.writePart(ctx, p, calls, func(row [][]byte) error { return p.parseResults(row, results) })
}

// writePart makes calls, of which the last one writes a part, and passes its answer to read.
func (s *Store) writePart(ctx context.Context, p *part, calls []*call, read func(row [][]byte) error) error {
	answered := false
	err := s.callTimers(ctx, calls, func(i int, row [][]byte) error {
		if i < len(calls)-1 {
			return nil
		}
		answered = true
		return read(row)
	})
	if err == nil && !answered {
		err = fmt.Errorf("store %s: the server did not answer for %d changes", s.name, len(p.changes))
	}
	return err
}

// checkUsable reports whether a call could be made.
func (s *Store) checkUsable(ctx context.Context) error {
	err := s.beginStoreCall(ctx)
	if err == nil {
		s.life.RUnlock()
	}
	return err
}
