package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/rousehq/rouse"
)

// maxKeys limits the keys that one command reads.
const maxKeys = 1000

// Get returns the rows of the keys.
func (s *Store) Get(ctx context.Context, keys []rouse.Key) ([]rouse.Row, error) {
	ctx, end, err := s.beginStoreCall(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	out := make([]rouse.Row, len(keys))
	err = s.eachShard(keys, func(sh *shard, at []int, members []any) error {
		blobs, err := sh.fetchBlobs(ctx, members)
		if err != nil {
			return err
		}
		for i, n := range at {
			if blob, ok := blobs[i].(string); ok {
				if out[n], err = parseRowBlob(members[i].(string), blob); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// fetchBlobs reads rows; the blob of a key without a row is nil.
func (sh *shard) fetchBlobs(ctx context.Context, members []any) ([]any, error) {
	v, err := doCommand(ctx, sh.server, 1, append([]any{"hmget", sh.base + "rows", idField}, members...))
	blobs, err := asList(v, explainRedisError(err))
	if err != nil {
		return nil, err
	}
	if len(blobs) != 1+len(members) {
		return nil, errAnswer
	}
	if blobs[0] != any(sh.id) {
		err = errLost
	}
	return blobs[1:], sh.noteIdentity(err)
}

// Revisions returns the revisions of the rows of the keys. It reads the rows with a plain command: a script
// that returns only revisions takes Redis longer, as Lua hashes each row.
func (s *Store) Revisions(ctx context.Context, keys []rouse.Key) ([]uint64, error) {
	ctx, end, err := s.beginStoreCall(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	out := make([]uint64, len(keys))
	var mu sync.Mutex
	var away rouse.Partial
	err = s.eachShard(keys, func(sh *shard, at []int, members []any) (err error) {
		defer func() {
			if err != nil && !errors.Is(err, errAnswer) {
				mu.Lock()
				defer mu.Unlock()
				away.Unknown, away.Err, err = append(away.Unknown, at...), err, nil
			}
		}()
		blobs, err := sh.fetchBlobs(ctx, members)
		if err != nil {
			return err
		}
		for i, n := range at {
			if blob, ok := blobs[i].(string); ok && len(blob) >= 8 {
				out[n] = binary.BigEndian.Uint64([]byte(blob[:8]))
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(away.Unknown) == 0:
		return out, nil
	case len(away.Unknown) == len(keys):
		return nil, away.Err
	}
	slices.Sort(away.Unknown)
	return out, &away
}

// eachShard calls read concurrently for all shards with their keys, in parts. at has the indexes of the keys.
func (s *Store) eachShard(keys []rouse.Key, read func(sh *shard, at []int, members []any) error) error {
	places := make([][]int, len(s.shards))
	for i := range keys {
		n := s.shardOf(&keys[i])
		places[n] = append(places[n], i)
	}
	var group errgroup.Group
	for n, at := range places {
		if len(at) == 0 {
			continue
		}
		group.Go(func() error {
			for len(at) > 0 {
				part := at[:min(len(at), maxKeys)]
				members := make([]any, len(part))
				for i, place := range part {
					members[i] = encodeMember(&keys[place])
				}
				if err := read(&s.shards[n], part, members); err != nil {
					return err
				}
				at = at[len(part):]
			}
			return nil
		})
	}
	return group.Wait()
}

// shardsOf calls work concurrently for all shards that may have rows of a query.
func (s *Store) shardsOf(q *rouse.Query, work func(n int, sh *shard) error) error {
	if !s.spread && strings.HasPrefix(q.Prefix, notePrefix) {
		return work(0, &s.shards[0])
	}
	return s.everyShard(work)
}

// everyShard calls work concurrently for all shards.
func (s *Store) everyShard(work func(n int, sh *shard) error) error {
	if len(s.shards) == 1 {
		return work(0, &s.shards[0])
	}
	var group errgroup.Group
	for n := range s.shards {
		group.Go(func() error { return work(n, &s.shards[n]) })
	}
	return group.Wait()
}

// maxRaise leaves room for years of revisions below 2^53, the limit of exact integers in Redis.
const maxRaise = exact - 1<<50

// Raise makes revisions continue above the given one in all shards. All of them are ahead of the clock by the
// same time, so that they stay in step, also when a server has lost its last writes.
func (s *Store) Raise(ctx context.Context, revision uint64) error {
	if revision >= maxRaise {
		return rouse.Refuse("revision", strconv.FormatUint(revision, 10),
			fmt.Sprintf("is more than Redis counts exactly: it must be less than %d", uint64(maxRaise)),
			"move the timers to PostgreSQL, or keep them where they are")
	}
	ctx, end, err := s.beginStoreCall(ctx)
	if err != nil {
		return err
	}
	defer end()
	now, err := s.readServerClock(ctx)
	if err != nil {
		return err
	}
	ahead := max(0, int64(revision)-int64(now)*1000)
	return s.everyShard(func(_ int, sh *shard) error {
		_, err := sh.runScript(ctx, raiseScript, revision, ahead)
		return err
	})
}
