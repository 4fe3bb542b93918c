package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rousehq/rouse"
)

// Limits of the changes and bytes in one script call: the server runs nothing else during a script. A
// thousand changes take a few milliseconds.
const (
	maxChanges = 1024
	maxBytes   = 4 << 20
	maxNumbers = 1 << 15 // limit of revisions and sequences before the last change: its first one takes two bytes
)

// Apply makes the changes, shard by shard. Changes of one key are in one shard and keep their order.
func (s *Store) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	ctx, end, err := s.beginStoreCall(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	st := s.writes.beginWrite()
	results, err := s.applyToShards(ctx, st, changes)
	s.writes.endWrite(st, err == nil || err == rouse.ErrFull) //nolint:errorlint // exactly this value means that nothing was written
	return results, err
}

func (s *Store) applyToShards(ctx context.Context, st stamp, changes []rouse.Change) ([]rouse.Result, error) {
	results := make([]rouse.Result, len(changes))
	parts := make([]*writer, len(s.shards))
	for i := range changes {
		n := s.shardOf(&changes[i].Key)
		if parts[n] == nil {
			parts[n] = &writer{shard: &s.shards[n], stamp: st, changes: changes, results: results}
		}
		parts[n].at = append(parts[n].at, i)
	}
	var work []*writer
	for _, w := range parts {
		if w != nil {
			work = append(work, w)
		}
	}
	errs := make([]error, len(work))
	var group errgroup.Group
	for i, w := range work {
		group.Go(func() error {
			errs[i] = w.writeChanges(ctx)
			return errs[i]
		})
	}
	if err := group.Wait(); err != nil {
		if part := partialError(work, errs); part != nil {
			return results, part
		}
		return nil, joinedError(work, errs)
	}
	return results, nil
}

// partialError returns the error of a call that some shards completed and others did not answer, nil in all
// other cases.
func partialError(work []*writer, errs []error) error {
	var p rouse.Partial
	failed := 0
	for i, err := range errs {
		if err == nil {
			continue
		}
		if errors.Is(err, errAnswer) || errors.Is(err, rouse.ErrFull) {
			return nil
		}
		failed++
		p.Unknown, p.Err = append(p.Unknown, work[i].at...), err
	}
	if failed == len(work) {
		return nil
	}
	slices.Sort(p.Unknown)
	return &p
}

// joinedError returns the error of a call. It returns rouse.ErrFull only if nothing was changed, as ErrFull
// means.
func joinedError(work []*writer, errs []error) error {
	err := errors.Join(errs...)
	if !errors.Is(err, rouse.ErrFull) {
		return err
	}
	for i, w := range work {
		if w.wrote || !errors.Is(errs[i], rouse.ErrFull) {
			return fmt.Errorf("a part of the changes was made: %v", err)
		}
	}
	return rouse.ErrFull
}

// writer makes the changes of one shard.
type writer struct {
	shard   *shard
	stamp   stamp
	changes []rouse.Change
	at      []int // their indexes in the call
	results []rouse.Result
	wrote   bool // a script ran and may have changed something
}

func (w *writer) writeChanges(ctx context.Context) error {
	for rest := w.at; len(rest) > 0; {
		c := chunk{soon: rouse.Instant(time.Now().Add(nearness).UnixMilli()),
			seen:    make(map[string]int, min(len(rest), maxChanges)),
			changes: make([]planned, 0, min(len(rest), maxChanges))}
		n := 0
		for n < len(rest) && n < maxChanges && c.bytes < maxBytes && c.numbers < maxNumbers {
			if err := c.addChange(rest[n], &w.changes[rest[n]]); err != nil {
				return err
			}
			n++
		}
		args, err := c.applyArgs(w.stamp)
		if err != nil {
			return err
		}
		v, err := w.shard.runAndWait(ctx, applyScript, args...)
		if err != nil {
			return err
		}
		w.wrote = true
		answer, ok := v.(string)
		if !ok || !c.readResults([]byte(answer), w.results) {
			return errAnswer
		}
		w.shard.noteGivenRevision(c.given)
		rest = rest[n:]
	}
	return nil
}
