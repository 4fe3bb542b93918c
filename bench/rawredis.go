package bench

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// The raw limits of Redis have a sorted set of keys by their times and a hash of bodies, as the store has for
// timers. A batch is written in one MULTI with one command for each of the two.

// rawLeaseScript reads the due keys and hides them from others, in one step.
var rawLeaseScript = goredis.NewScript(`local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[3])
if #due == 0 then return {{}, {}} end
local hold = {}
for i, member in ipairs(due) do hold[2 * i - 1] = ARGV[2]; hold[2 * i] = member end
redis.call('ZADD', KEYS[1], unpack(hold))
return {due, redis.call('HMGET', KEYS[2], unpack(due))}`)

func (b *redisBase) createRows(ctx context.Context, writers [][]rawBatch) (time.Duration, error) {
	return b.runRawWriters(ctx, writers, func(ctx context.Context, writer int, batch *rawBatch) error {
		return b.writeRawBatch(ctx, strconv.Itoa(writer), batch)
	})
}

// runRawWriters starts a goroutine for each writer; the client has a connection for each.
func (b *redisBase) runRawWriters(ctx context.Context, writers [][]rawBatch,
	do func(ctx context.Context, writer int, batch *rawBatch) error) (time.Duration, error) {
	if err := b.clearDatabase(ctx); err != nil {
		return 0, err
	}
	group, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for w, batches := range writers {
		group.Go(func() error {
			for i := range batches {
				if err := do(ctx, w, &batches[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := group.Wait()
	return time.Since(began), err
}

func rawKeys(place string) (due, bodies string) {
	return "rouse-bench:due:" + place, "rouse-bench:rows:" + place
}

func (b *redisBase) writeRawBatch(ctx context.Context, place string, batch *rawBatch) error {
	scores, fields := make([]goredis.Z, len(batch.members)), make([]any, 0, 2*len(batch.members))
	for i, m := range batch.members {
		m = namespace + "\x00" + m + "\x00"
		scores[i] = goredis.Z{Score: float64(batch.first + int64(i)), Member: m}
		fields = append(fields, m, batch.bodies[i])
	}
	due, bodies := rawKeys(place)
	_, err := b.servers[0].TxPipelined(ctx, func(p goredis.Pipeliner) error {
		p.ZAdd(ctx, due, scores...)
		p.HSet(ctx, bodies, fields...)
		return nil
	})
	return err
}

func (b *redisBase) pipelineRows(ctx context.Context, writers [][]rawBatch, leased bool) (int64, time.Duration, error) {
	var removed atomic.Int64
	c := b.servers[0]
	took, err := b.runRawWriters(ctx, writers, func(ctx context.Context, writer int, batch *rawBatch) error {
		place := strconv.Itoa(writer)
		if leased {
			place = "all"
		}
		if err := b.writeRawBatch(ctx, place, batch); err != nil {
			return err
		}
		due, bodies := rawKeys(place)
		var names []string
		var err error
		if leased {
			names, err = b.leaseRawRows(ctx, due, bodies, len(batch.members))
		} else {
			names, err = b.readRawRows(ctx, due, bodies, batch)
		}
		if err != nil || len(names) == 0 {
			return err
		}
		members := make([]any, len(names))
		for i, n := range names {
			members[i] = n
		}
		_, err = c.TxPipelined(ctx, func(p goredis.Pipeliner) error {
			p.ZRem(ctx, due, members...)
			p.HDel(ctx, bodies, names...)
			return nil
		})
		removed.Add(int64(len(names)))
		return err
	})
	return removed.Load(), took, err
}

func (b *redisBase) readRawRows(ctx context.Context, due, bodies string, batch *rawBatch) ([]string, error) {
	names, err := b.servers[0].ZRangeArgs(ctx, goredis.ZRangeArgs{Key: due, Start: "-inf",
		Stop: batch.first + int64(len(batch.members)), ByScore: true,
		Count: int64(len(batch.members))}).Result()
	if err != nil || len(names) == 0 {
		return nil, err
	}
	return names, b.servers[0].HMGet(ctx, bodies, names...).Err()
}

func (b *redisBase) leaseRawRows(ctx context.Context, due, bodies string, limit int) ([]string, error) {
	answer, err := rawLeaseScript.Run(ctx, b.servers[0], []string{due, bodies}, int64(rawNever-1), int64(rawNever),
		limit).Slice()
	if err != nil {
		return nil, err
	}
	if len(answer) != 2 {
		return nil, fmt.Errorf("a script answered with %d parts, not 2", len(answer))
	}
	list, _ := answer[0].([]any)
	names := make([]string, 0, len(list))
	for _, m := range list {
		if s, ok := m.(string); ok {
			names = append(names, s)
		}
	}
	return names, nil
}
