package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rousehq/rouse"
)

// Apply makes the changes in one transaction, in one round trip.
//
// A statement has each key once. Changes that meet a key again, as a change or as a row beside, begin a next one: it sees what the
// one before it did. Within a statement all rows are in the order of their keys, so that calls that run at a time wait for each
// other in one direction only.
func (s *Store) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	for try := 0; ; try++ {
		results, err := s.apply(ctx, changes, try >= triesBeside)
		// What the server has refused so, it has undone: it is known that nothing was written.
		if err == nil || !undone(err) || try == maxTries {
			return results, err
		}
		pause := time.NewTimer(time.Duration(rand.Int64N(int64(time.Millisecond) << try)))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, ctx.Err()
		}
	}
}

// A transaction that met another one is tried again, after pauses that double on average: triesBeside times beside others, and then
// alone, so that it gets through.
const (
	triesBeside = 4
	maxTries    = 8
)

func (s *Store) apply(ctx context.Context, changes []rouse.Change, alone bool) ([]rouse.Result, error) {
	results := make([]rouse.Result, len(changes))
	parts, err := split(changes)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", s.name, err)
	}
	if len(parts) == 0 {
		return results, s.usable(ctx)
	}
	var calls []*call
	if alone {
		calls = append(calls, newCall(s.sql.alone))
	}
	first := len(calls)
	for _, p := range parts {
		c, err := p.call(&s.sql)
		if err != nil {
			return nil, err
		}
		calls = append(calls, c)
	}
	at := 0
	err = s.timer(ctx, calls, func(i int, row [][]byte) error {
		if i < first {
			return nil
		}
		p := parts[i-first]
		err := p.results(row, results[at:at+len(p.changes)])
		at += len(p.changes)
		return err
	})
	if err != nil {
		return nil, err
	}
	if at != len(changes) {
		return nil, fmt.Errorf("store %s: the server answered for %d of %d changes", s.name, at, len(changes))
	}
	return results, nil
}

// usable says whether a call could be made.
func (s *Store) usable(ctx context.Context) error {
	err := s.begin(ctx)
	if err == nil {
		s.life.RUnlock()
	}
	return err
}
