package transact_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rousehq/rouse/store/postgres"
	"github.com/rousehq/rouse/test/servers"
	"github.com/rousehq/rouse/transact"
)

// BenchmarkCommits creates one timer per transaction, from 32 connections to a server that syncs: with
// notifications of nodes at commit, without, and for comparison a plain INSERT of the same size.
func BenchmarkCommits(b *testing.B) {
	server := servers.StartPostgres(b)
	if err := postgres.Migrate(b.Context(), server.URL(), postgres.Options{}, postgres.Latest()); err != nil {
		b.Fatal(err)
	}
	pool, err := pgxpool.New(b.Context(), server.URL()+"&pool_max_conns=32")
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(b.Context(), `CREATE TABLE plain (name text PRIMARY KEY, spec jsonb)`); err != nil {
		b.Fatal(err)
	}
	var made atomic.Int64
	run := func(name string, make func(ctx context.Context, tx *pgxpool.Tx, name string) error) {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					tx, err := pool.Begin(b.Context())
					if err == nil {
						err = make(b.Context(), tx.(*pgxpool.Tx), fmt.Sprint("a", made.Add(1)))
					}
					if err == nil {
						err = tx.Commit(b.Context())
					}
					if err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
	}
	run("plain", func(ctx context.Context, tx *pgxpool.Tx, name string) error {
		_, err := tx.Exec(ctx, `INSERT INTO plain VALUES ($1, '{"schedule": "@after 1h", "target": "func:note"}')`, name)
		return err
	})
	for _, quiet := range []bool{true, false} {
		timers, err := transact.New(transact.Options{Quiet: quiet})
		if err != nil {
			b.Fatal(err)
		}
		run(fmt.Sprintf("quiet=%v", quiet), func(ctx context.Context, tx *pgxpool.Tx, name string) error {
			_, err := timers.CreatePgx(ctx, tx, "shop", name, spec("@after 1h"), transact.Create)
			return err
		})
	}
}
