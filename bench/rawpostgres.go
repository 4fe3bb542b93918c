package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// The raw limits of PostgreSQL have a table with the columns of a timer, its key, and an index on its time:
// the minimum of any store of timers. Plans are pinned, as statistics of a table that fills and empties are
// always wrong.
const rawTable = `DROP SCHEMA IF EXISTS rouse_bench CASCADE;
CREATE SCHEMA rouse_bench;
CREATE TABLE rouse_bench.timers (
	bucket bigint NOT NULL, visible bigint NOT NULL, revision bigint NOT NULL, generation bigint NOT NULL, due bigint NOT NULL,
	state smallint NOT NULL, namespace text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL, fire text COLLATE "C" NOT NULL,
	body bytea NOT NULL, PRIMARY KEY (namespace, name, fire)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX ON rouse_bench.timers (bucket, visible)`

const (
	rawPlans = `SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off;
		SET plan_cache_mode = force_generic_plan`
	rawInsert = `INSERT INTO rouse_bench.timers SELECT $1, u.visible, 1, 1, u.visible, 1, $2, u.name, '', u.body
		FROM unnest($3::bigint[], $4::text[], $5::bytea[]) u(visible, name, body)`
	rawRead = `SELECT name, revision, visible, body FROM rouse_bench.timers WHERE bucket = $1 AND visible > $2 AND visible <= $3
		ORDER BY visible LIMIT $4`
	rawLease = `UPDATE rouse_bench.timers SET visible = $5, revision = revision + 1 WHERE ctid = ANY(ARRAY(
			SELECT ctid FROM rouse_bench.timers WHERE bucket = $1 AND visible > $2 AND visible <= $3 ORDER BY visible LIMIT $4 FOR UPDATE SKIP LOCKED))
		RETURNING name, revision, due, body`
	rawDelete = `DELETE FROM rouse_bench.timers WHERE ctid = ANY(ARRAY(
			SELECT l.tid FROM unnest($2::text[], $3::bigint[]) u(name, revision) CROSS JOIN LATERAL (SELECT t.ctid AS tid FROM rouse_bench.timers t
				WHERE t.namespace = $1 AND t.name = u.name AND t.fire = '' AND t.revision = u.revision OFFSET 0) l))`
)

func (b *postgresBase) createRows(ctx context.Context, writers [][]rawBatch) (time.Duration, error) {
	return b.runRawWriters(ctx, writers, func(ctx context.Context, c *pgx.Conn, writer int) error {
		for i := range writers[writer] {
			if err := rawInsertBatch(ctx, c, int64(writer), &writers[writer][i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// runRawWriters gives each writer a connection and starts them together. The time of making the table does
// not count.
func (b *postgresBase) runRawWriters(ctx context.Context, writers [][]rawBatch,
	do func(ctx context.Context, c *pgx.Conn, writer int) error) (time.Duration, error) {
	if _, err := b.pool.Exec(ctx, rawTable); err != nil {
		return 0, fmt.Errorf("make a table: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	var ready sync.WaitGroup
	ready.Add(len(writers))
	start := make(chan struct{})
	for w := range writers {
		group.Go(func() error {
			c, err := b.pool.Acquire(ctx)
			if err == nil {
				defer func() {
					_ = c.Conn().Close(context.WithoutCancel(ctx)) // its plans are pinned: the pool is not to have it again
					c.Release()
				}()
				_, err = c.Exec(ctx, rawPlans)
			}
			ready.Done()
			if err != nil {
				return err
			}
			<-start
			return do(ctx, c.Conn(), w)
		})
	}
	ready.Wait()
	began := time.Now()
	close(start)
	err := group.Wait()
	return time.Since(began), err
}

func rawInsertBatch(ctx context.Context, c *pgx.Conn, bucket int64, batch *rawBatch) error {
	visibles := make([]int64, len(batch.members))
	for i := range visibles {
		visibles[i] = batch.first + int64(i)
	}
	_, err := c.Exec(ctx, rawInsert, bucket, namespace, visibles, batch.members, batch.bodies)
	return err
}

func (b *postgresBase) pipelineRows(ctx context.Context, writers [][]rawBatch,
	leased bool) (int64, time.Duration, error) {
	var removed atomic.Int64
	low := &lowMark{at: make([]atomic.Int64, len(writers))}
	took, err := b.runRawWriters(ctx, writers, func(ctx context.Context, c *pgx.Conn, writer int) error {
		for i := range writers[writer] {
			batch := &writers[writer][i]
			bucket, read := int64(writer), rawRead
			args := []any{bucket, batch.first - 1, batch.first + int64(len(batch.members)), len(batch.members)}
			if leased {
				bucket, read = 0, rawLease
				args = leaseArgs(low.advanceWriter(writer, batch.first), len(batch.members))
			}
			if err := rawInsertBatch(ctx, c, bucket, batch); err != nil {
				return err
			}
			n, err := rawTake(ctx, c, read, args)
			if err != nil {
				return err
			}
			removed.Add(n)
		}
		low.advanceWriter(writer, rawNever)
		for leased { // rows that competitors have left to each other
			n, err := rawTake(ctx, c, rawLease, leaseArgs(0, rawSize))
			if err != nil || n == 0 {
				return err
			}
			removed.Add(n)
		}
		return nil
	})
	return removed.Load(), took, err
}

func leaseArgs(low int64, limit int) []any {
	return []any{int64(0), low, int64(rawNever - 1), limit, int64(rawNever)}
}

// rawTake reads or leases rows, and deletes them.
func rawTake(ctx context.Context, c *pgx.Conn, read string, args []any) (int64, error) {
	var names []string
	var revisions []int64
	rows, err := c.Query(ctx, read, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var revision, due int64
		var body []byte
		if err := rows.Scan(&name, &revision, &due, &body); err != nil {
			return 0, err
		}
		names, revisions = append(names, name), append(revisions, revision)
	}
	if err := rows.Err(); err != nil || len(names) == 0 {
		return 0, err
	}
	tag, err := c.Exec(ctx, rawDelete, namespace, names, revisions)
	return tag.RowsAffected(), err
}

// lowMark is where writers that compete for the same rows need not look, as only dead rows are left there:
// some batches below the one that the slowest of them is at.
type lowMark struct{ at []atomic.Int64 }

func (m *lowMark) advanceWriter(writer int, first int64) (low int64) {
	m.at[writer].Store(first)
	low = first
	for i := range m.at {
		low = min(low, m.at[i].Load())
	}
	return low - 4*int64(len(m.at))*rawStep
}
