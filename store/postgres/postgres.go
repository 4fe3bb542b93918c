// Package postgres stores timers in PostgreSQL 13 or later, for any number of nodes.
//
//	s, err := postgres.Open(ctx, "postgres://rouse@db.internal/rouse", postgres.Options{})
//
// It is a rouse.Shared, a rouse.Watcher and a rouse.Raiser, and uses pgx. Everything is in one schema;
// migrations/ contains its tables and the functions that do the work, so that each call is one transaction in
// one round trip. roles.go describes which role needs which rights.
//
// No call leaves anything behind in its session: settings belong to the transaction, locks end with it, and
// nothing is prepared. So a PgBouncer in transaction mode can be used. Only Watch and Attend need sessions of
// their own (Options.ListenURL).
//
// Acknowledged writes are as safe as the server's settings make them. Open refuses a server that would lose
// them in a crash (fsync, full_page_writes or synchronous_commit off). With asynchronous replication, a
// failover loses writes that had not reached the standby.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/storekit"
)

// Options configure a store. Zero fields mean the defaults named in their comments.
type Options struct {
	Schema string // name of the schema: 1 to 48 of a to z, 0 to 9 and _, no digit first; default "rouse"
	Name   string // name of the connections on the server (application_name); default "rouse"
	// for timers and history, plus two for leases and the clock, and one each for Watch and Attend; default 8
	MaxConns int

	// ListenURL is the address for Watch and Attend. It must lead to the server itself if the store's URL
	// leads to a pooler in transaction mode, which does not forward notifications. Default: the store's URL.
	ListenURL string

	Timeout      time.Duration // of a call, both here and on the server; default 30 s
	LeaseTimeout time.Duration // of a call about leases or the clock; default 5 s
	LockTimeout  time.Duration // how long a statement waits for a lock; default 10 s

	// NoMigrate leaves the schema unchanged: Open fails if it is missing or too old. Use it if migration is a
	// separate step, as another role.
	NoMigrate bool

	// ShowOwn makes claims with Since also return this store's own writes.
	ShowOwn bool

	// AllowUnsafe opens a server that does not sync acknowledged writes to its disk, or not in a way that
	// survives a crash, so acknowledged timers may be lost. Use it for tests, and for file systems that make
	// full_page_writes unnecessary.
	AllowUnsafe bool
}

func (o Options) withDefaults() Options {
	o.Schema = cmp.Or(o.Schema, "rouse")
	o.Name = cmp.Or(o.Name, "rouse")
	o.MaxConns = cmp.Or(max(o.MaxConns, 0), 8)
	o.Timeout = cmp.Or(max(o.Timeout, 0), 30*time.Second)
	o.LeaseTimeout = cmp.Or(max(o.LeaseTimeout, 0), 5*time.Second)
	o.LockTimeout = cmp.Or(max(o.LockTimeout, 0), 10*time.Second)
	return o
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,47}$`)

func (o *Options) checkSchemaOption() error {
	if !schemaName.MatchString(o.Schema) {
		return rouse.Refuse("schema", o.Schema, "is not a valid name of a schema",
			"use 1 to 48 of a to z, 0 to 9 and _, no digit first")
	}
	return nil
}

// Store is a rouse.Shared, a rouse.Watcher and a rouse.Raiser.
type Store struct {
	o       Options
	url     string
	name    string // the URL without its password, for errors
	sql     texts
	timers  *pgxpool.Pool
	leases  *pgxpool.Pool // small and separate, so that no lease waits behind a large claim
	careful atomic.Int64  // how many of the next statements check for existing rows before they create; none below 1
	moved   atomic.Int64  // how many of the next statements search rows by their keys; none below 1
	places  places
	latest  int // the newest version of the schema that this store knows
	misfit  misfit
	writer  atomic.Int64 // the number under which this store writes; 0: the next write draws one

	life    storekit.Guard // of calls and Close
	closing chan struct{}  // closed when Close begins
	watches sync.WaitGroup // running calls of Watch
	hearing atomic.Int32   // those of them that receive notifications
}

var (
	_ rouse.Shared   = (*Store)(nil)
	_ rouse.Watcher  = (*Store)(nil)
	_ rouse.Presence = (*Store)(nil)
	_ rouse.Raiser   = (*Store)(nil)
)

// Open opens the store at a postgres:// URL. It migrates the schema to this version if it is missing or
// older, unless o.NoMigrate is set.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	return openWithSteps(ctx, url, o, embedded)
}

func openWithSteps(ctx context.Context, url string, o Options, steps []migration) (_ *Store, err error) {
	o = o.withDefaults()
	if err := o.checkSchemaOption(); err != nil {
		return nil, err
	}
	s := &Store{o: o, url: url, name: redactURL(url), sql: newTexts(&o, len(steps)), latest: len(steps),
		closing: make(chan struct{})}
	defer func() {
		if err != nil {
			s.closePools()
			err = fmt.Errorf("store %s: %w", s.name, explainSQLError(err))
		}
	}()
	if err := ensureSchema(ctx, url, &o, steps); err != nil {
		return nil, err
	}
	if s.timers, err = newPool(ctx, url, &o, o.MaxConns); err != nil {
		return nil, err
	}
	if s.leases, err = newPool(ctx, url, &o, leaseConns); err != nil {
		return nil, err
	}
	return s, nil
}

// leaseConns is the number of connections for leases and the clock.
const leaseConns = 2

// Close waits for running calls and closes the store.
func (s *Store) Close() error {
	return s.life.Close(func() error {
		close(s.closing)
		s.watches.Wait()
		s.closePools()
		return nil
	})
}

func (s *Store) closePools() {
	for _, p := range []*pgxpool.Pool{s.timers, s.leases} {
		if p != nil {
			p.Close()
		}
	}
}

// beginStoreCall starts a call. If it succeeds, the caller must call s.life.RUnlock at the end.
func (s *Store) beginStoreCall(ctx context.Context) error { return s.life.Begin(ctx) }

// callTimers makes calls on the connections for timers, in one transaction and one round trip; callLeases on
// those for leases.
func (s *Store) callTimers(ctx context.Context, calls []*call, read func(i int, row [][]byte) error) error {
	if err := s.misfit.storedMisfit(); err != nil {
		return err
	}
	return s.callOnPool(ctx, s.timers, s.o.Timeout, s.sql.settings, calls, read)
}

func (s *Store) callLeases(ctx context.Context, calls []*call, read func(i int, row [][]byte) error) error {
	err := s.callOnPool(ctx, s.leases, s.o.LeaseTimeout, s.sql.leaseSettings, calls, read)
	switch {
	case err == nil && s.misfit.storedMisfit() != nil:
		// It may be another schema, restored from a dump: new connections raise its revisions.
		s.leases.Reset()
		s.timers.Reset()
		s.misfit.setMisfit(nil)
	case mayBeMigrated(err):
		if wrong := s.checkSchema(ctx); wrong != nil {
			s.misfit.setMisfit(wrong)
			return wrong
		}
	}
	return err
}

func (s *Store) callOnPool(ctx context.Context, pool *pgxpool.Pool, timeout time.Duration, settings string,
	calls []*call,
	read func(i int, row [][]byte) error) error {
	if err := s.beginStoreCall(ctx); err != nil {
		return err
	}
	defer s.life.RUnlock()
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := exchangeCalls(limited, pool, settings, calls, read); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err = explainSQLError(err)
		if errors.Is(err, rouse.ErrFull) {
			return err
		}
		return fmt.Errorf("store %s: %w", s.name, err)
	}
	return nil
}

// roundUpMillis returns a duration in milliseconds, rounded up.
func roundUpMillis(d time.Duration) int64 { return int64(rouse.Instant(0).Add(d)) }
