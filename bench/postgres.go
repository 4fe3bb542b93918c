package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// postgresBase is a PostgreSQL.
type postgresBase struct {
	url   string
	about string
	own   *ownServer // nil if it was running already
	pool  *pgxpool.Pool
	pid   int // of the process that all others are children of; 0 if it is on another machine
}

// rawConns is how many connections the raw limits use at most.
const rawConns = 4

func openPostgres(ctx context.Context, url string, own *ownServer) (_ *postgresBase, err error) {
	b := &postgresBase{url: url, own: own}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("open %s: it is no URL of a PostgreSQL: give postgres://HOST/DATABASE", shownURL(url))
	}
	config.MaxConns = rawConns + 1
	config.ConnConfig.RuntimeParams["application_name"] = "rouse bench"
	config.ConnConfig.ConnectTimeout = patience
	if b.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("open %s: %w", shownURL(url), err)
	}
	defer func() {
		if err != nil {
			b.pool.Close()
			err = fmt.Errorf("open %s: %w", shownURL(url), err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// a server that starts refuses connections for a while
	for err = b.pool.Ping(ctx); err != nil && own != nil; err = b.pool.Ping(ctx) {
		select {
		case <-own.ended:
			return nil, fmt.Errorf("it ended at once%s", own.logTail())
		case <-ctx.Done():
			return nil, err
		case <-time.After(20 * time.Millisecond):
		}
	}
	if err != nil {
		return nil, err
	}
	if err := b.isFree(ctx); err != nil {
		return nil, err
	}
	var version, fsync, commit, address string
	var backend int
	if err := b.pool.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'),
		COALESCE(host(inet_server_addr()), ''), pg_backend_pid()`).Scan(&version, &fsync, &commit, &address, &backend); err != nil {
		return nil, err
	}
	if ip := net.ParseIP(address); address == "" || ip != nil && ip.IsLoopback() {
		if f := statFields(backend); len(f) > 1 && strings.Contains(processCommand(backend), "postgres") {
			b.pid, _ = strconv.Atoi(f[1]) // the kernel writes a number
		}
	}
	version, _, _ = strings.Cut(version, " ")
	b.about = fmt.Sprintf("PostgreSQL %s, fsync %s, synchronous_commit %s", version, fsync, commit)
	if own != nil {
		b.about += ", " + own.about
	}
	return b, nil
}

// The schemas that nodes and raw limits make.
const postgresSchemas = `SELECT nspname FROM pg_namespace WHERE nspname IN ('rouse', 'rouse_bench') ORDER BY nspname`

// isFree refuses a database that is in use.
func (b *postgresBase) isFree(ctx context.Context) error {
	var schema string
	rows, err := b.pool.Query(ctx, postgresSchemas)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&schema); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil || schema == "" {
		return err
	}
	what := "a schema " + schema
	if schema == "rouse" {
		var n int64
		if b.pool.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM rouse.timers LIMIT 1000000) t`).Scan(&n) == nil {
			what += fmt.Sprintf(" with %d timers", n)
		}
	}
	return fmt.Errorf(
		"the database has %s: bench fills a database and empties it, so give it an empty one of its own (CREATE DATABASE bench); "+
			"what a run has left that was killed goes away with DROP SCHEMA %s CASCADE", what, schema)
}

func (b *postgresBase) URL() string        { return b.url }
func (b *postgresBase) About() string      { return b.about }
func (b *postgresBase) asRawBase() rawBase { return b }

// Asked counts transactions. The last seconds of a session may not be in it yet: see flushed.
func (b *postgresBase) Asked(ctx context.Context) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = b.pool.QueryRow(ctx,
		`SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()`).Scan(&n)
	return n, err
}

func (b *postgresBase) CPU(context.Context) time.Duration {
	if b.pid == 0 {
		return 0
	}
	return treeCPU(b.pid)
}

// Wrote returns the bytes that the processes pass to write calls, which for PostgreSQL is files alone: it
// sends to connections by other calls. For write_bytes, Linux counts all of a large folio when one page of it
// changes, up to 1 MiB for each commit in a segment of the log that was filled with zeros ahead.
func (b *postgresBase) Wrote(context.Context) int64 {
	if b.pid == 0 {
		return 0
	}
	return treeIO(b.pid, "wchar")
}

// clearDatabase waits for the sessions of nodes, which have been killed, to end: one might still write.
func (b *postgresBase) clearDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var sessions int64
	for {
		if err := b.pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name LIKE 'rouse %' AND application_name <> 'rouse bench'`).Scan(&sessions); err != nil {
			return fmt.Errorf("clear the database: %w", err)
		}
		if sessions == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("clear the database: %d sessions of nodes do not end", sessions)
		case <-time.After(20 * time.Millisecond):
		}
	}
	if _, err := b.pool.Exec(ctx, `DROP SCHEMA IF EXISTS rouse, rouse_bench CASCADE`); err != nil {
		return fmt.Errorf("clear the database: %w", err)
	}
	return nil
}

func (b *postgresBase) Close() error {
	var err error
	if b.own == nil {
		err = b.clearDatabase(context.Background())
	}
	b.pool.Close()
	return errors.Join(err, b.own.closeOwnServer())
}
