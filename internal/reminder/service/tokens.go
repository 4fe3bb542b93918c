package service

import (
	"context"
	"errors"
	"time"

	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/reminder/allocation"
	"github.com/rousehq/rouse/internal/reminder/state"
)

// takeFromBucket takes up to n tokens of a bucket of this instance. It returns state.ErrSpent if none is
// left.
func (s *Service) takeFromBucket(ctx context.Context, row *allocation.Row, n int) ([]allocation.ID, error) {
	d := s.dispenserOf(row)
	tokens, err := d.Take(ctx, n)
	if errors.Is(err, state.ErrSpent) {
		s.markBucket(s.spent, row.ID)
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	if last := tokens[len(tokens)-1]; last == row.To {
		s.markBucket(s.spent, row.ID)
	} else if row.To-last <= s.opts.lowTokens() {
		s.markBucket(s.low, row.ID)
	}
	ids := make([]allocation.ID, len(tokens))
	for i, t := range tokens {
		ids[i] = allocation.ID{Prefix: row.Prefix, Token: t, Vector: row.Vector}
	}
	return ids, nil
}

// markBucket records that a bucket has few tokens left, or none, and wakes the loop that reports it to the
// leader.
func (s *Service) markBucket(set map[string]bool, bucket string) {
	s.mu.Lock()
	before := set[bucket]
	set[bucket] = true
	s.mu.Unlock()
	if !before {
		s.Kick()
	}
}

// hasNoTokens reports whether this instance has assigned all tokens of a bucket.
func (s *Service) hasNoTokens(bucket string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spent[bucket]
}

// dispenserOf returns the dispenser of a bucket, and creates it if necessary.
func (s *Service) dispenserOf(row *allocation.Row) *state.Dispenser {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.givers[row.ID]
	if d == nil {
		d = s.opts.Notes.NewDispenser(row.Bucket, s.opts.reservationSize())
		s.givers[row.ID] = d
	}
	return d
}

// keepDispensers closes the dispensers of buckets that this instance no longer has, and deletes their state.
func (s *Service) keepDispensers(ctx context.Context, t *allocation.Table) {
	var gone []*state.Dispenser
	s.mu.Lock()
	for id, d := range s.givers {
		if row := t.Bucket(id); row == nil || row.Instance != s.opts.Address || !row.State.Gives() {
			delete(s.givers, id)
			gone = append(gone, d)
		}
	}
	for _, set := range [...]map[string]bool{s.low, s.spent} {
		for id := range set {
			if row := t.Bucket(id); row == nil || !row.State.Gives() {
				delete(set, id)
			}
		}
	}
	s.mu.Unlock()
	for _, d := range gone {
		if err := d.Close(ctx); err != nil {
			s.logFailure(ctx, "give back tokens", err)
		}
	}
}

// saveEvery is how often the progress of assigning tokens is stored.
const saveEvery = 2 * time.Second

func (s *Service) saveLoop(ctx context.Context) {
	for backoff.Sleep(ctx, saveEvery) {
		for _, d := range s.allDispensers() {
			if err := d.Save(ctx); err != nil {
				s.logFailure(ctx, "save how far tokens are given out", err)
				break
			}
		}
	}
}

func (s *Service) allDispensers() (list []*state.Dispenser) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.givers {
		list = append(list, d)
	}
	return list
}

// returnTokens returns all tokens that were reserved and not assigned. Tokens whose return fails are skipped
// for good.
func (s *Service) returnTokens(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, saveEvery)
	defer cancel()
	for _, d := range s.allDispensers() {
		if err := d.Close(ctx); err != nil {
			return
		}
	}
}
