package redis

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/rousehq/rouse"
)

// trimChunk limits the records that one script deletes, so that other calls run in between.
const trimChunk = 500

// Trim deletes records by whole hours. The timeout applies to each step.
func (s *Store) Trim(ctx context.Context, before rouse.Instant, most int64) (int64, error) {
	ask, end, err := s.beginStoreCall(ctx)
	if err != nil {
		return 0, err
	}
	hours, err := s.recordsPerHour(ask)
	end()
	if err != nil {
		return 0, err
	}
	left := int64(0)
	for _, n := range hours {
		left += n
	}
	var deleted atomic.Int64
	for _, hour := range slices.Sorted(maps.Keys(hours)) {
		if hour >= unixHour(before) && (most <= 0 || left-hours[hour] < most) {
			break
		}
		left -= hours[hour]
		err := s.deleteFromShards(ctx, &deleted, func(int) []any { return []any{trimChunk, hour} })
		if err != nil {
			return deleted.Load(), err
		}
	}
	return deleted.Load(), nil
}

// TrimTimer deletes the records of a timer except its newest keep ones. In most cases all are in one shard,
// which can then find them itself.
func (s *Store) TrimTimer(ctx context.Context, namespace, name string, keep int) (int64, error) {
	if err := checkTexts("timer", namespace, name); err != nil {
		return 0, err
	}
	keep = max(0, keep)
	id := func(int) []byte { return nil }
	if len(s.shards) > 1 && keep > 0 {
		oldest, err := s.oldestKept(ctx, namespace, name, keep)
		if err != nil || oldest == nil {
			return 0, err
		}
		id = func(shard int) []byte { return s.idBefore(*oldest, shard) }
	}
	var deleted atomic.Int64
	err := s.deleteFromShards(ctx, &deleted, func(shard int) []any {
		return []any{trimChunk, "", namespace, name, keep,
			id(shard), markHash(name)}
	})
	return deleted.Load(), err
}

// oldestKept returns the position of the oldest of a timer's newest keep records, nil if there are no older
// ones.
func (s *Store) oldestKept(ctx context.Context, namespace, name string, keep int) (*rouse.RecordCursor, error) {
	q := rouse.RecordQuery{Namespace: namespace, Name: name}
	for {
		q.Limit = min(keep, maxRecords)
		page, err := s.Records(ctx, q)
		if err != nil || page.Next == nil {
			return nil, err
		}
		if keep -= len(page.Records); keep == 0 {
			return page.Next, nil
		}
		q.Until = *page.Next
	}
}

// deleteFromShards deletes records in all shards, step by step. Each step is a separate call.
func (s *Store) deleteFromShards(ctx context.Context, deleted *atomic.Int64, args func(shard int) []any) error {
	return s.everyShard(func(n int, sh *shard) error {
		for {
			gone, more, err := s.deleteSome(ctx, sh, args(n))
			deleted.Add(gone)
			if err != nil || !more {
				return err
			}
		}
	})
}

func (s *Store) deleteSome(ctx context.Context, sh *shard, args []any) (n int64, more bool, err error) {
	ctx, end, err := s.beginStoreCall(ctx)
	if err != nil {
		return 0, false, err
	}
	defer end()
	for len(args) < 7 {
		args = append(args, "")
	}
	answer, err := asList(sh.runScript(ctx, trimScript, args...))
	if err != nil {
		return 0, false, err
	}
	if len(answer) != 2 {
		return 0, false, errAnswer
	}
	n, ok := answer[0].(int64)
	if !ok || n < 0 {
		return 0, false, errAnswer
	}
	return n, answer[1] == int64(1), nil
}
