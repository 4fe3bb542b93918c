// Package postgres keeps timers in PostgreSQL 13 or later, for any number of nodes.
//
// It is a rouse.Shared, a rouse.Watcher and a rouse.Raiser over pgx. Everything lies in one schema; migrations/ has its tables and the
// functions that do the work, so that each call is one transaction in one round trip. roles.go says which rights which role needs.
//
// No call leaves anything behind in its session: settings are those of the transaction, locks end with it, and nothing is prepared.
// So a PgBouncer in transaction mode may stand in between. Only Watch needs a session of its own (Options.ListenURL).
//
// What is acknowledged is as safe as the server's settings make it. Open refuses a server that would lose it in a crash (fsync,
// full_page_writes or synchronous_commit off). With asynchronous replication, a failover loses what had not reached the standby.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rousehq/rouse"
)

// Options tune a store. Zero fields have the defaults that their comments name.
type Options struct {
	Schema   string // that everything lies in: 1 to 48 of a to z, 0 to 9 and _, no digit first; default "rouse"
	Name     string // what the server shows of the connections (application_name); default "rouse"
	MaxConns int    // for timers and history; two more are kept for leases and the clock, and Watch and Attend have one each; default 8

	// ListenURL is where Watch and Attend connect. It leads to the server itself, where the store's URL leads to a pooler in transaction mode,
	// which passes on no notifications. Default: the store's URL.
	ListenURL string

	Timeout      time.Duration // of a call, here and at the server; default 30 s
	LeaseTimeout time.Duration // of a call about leases or the clock; default 5 s
	LockTimeout  time.Duration // how long a statement waits for a lock that somebody has; default 10 s

	// NoMigrate leaves the schema as it is: Open fails where it is missing or too old. It is for those who migrate in a step of its own,
	// as another role.
	NoMigrate bool

	// ShowOwn lets claims with Since hand out what this store wrote itself, too.
	ShowOwn bool

	// AllowUnsafe opens a server that does not write what it acknowledges to its disk, or not so that it survives a crash. Timers that
	// were acknowledged may be lost then. It is for tests, and for file systems that make full_page_writes needless.
	AllowUnsafe bool
}

func (o Options) withDefaults() Options {
	def := func(to *time.Duration, d time.Duration) {
		if *to <= 0 {
			*to = d
		}
	}
	if o.Schema == "" {
		o.Schema = "rouse"
	}
	if o.Name == "" {
		o.Name = "rouse"
	}
	if o.MaxConns <= 0 {
		o.MaxConns = 8
	}
	def(&o.Timeout, 30*time.Second)
	def(&o.LeaseTimeout, 5*time.Second)
	def(&o.LockTimeout, 10*time.Second)
	return o
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,47}$`)

func (o *Options) check() error {
	if !schemaName.MatchString(o.Schema) {
		return rouse.Refuse("schema", o.Schema, "is no name of a schema", "use 1 to 48 of a to z, 0 to 9 and _, no digit first")
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
	leases  *pgxpool.Pool // small and apart, so that no lease waits behind a large claim
	careful atomic.Int64  // how many statements from now on look before they create; below 1, none does
	writer  atomic.Int64  // the number under which this store writes; 0: the next write draws one

	life    sync.RWMutex // held for reading by every call, for writing by Close
	closed  bool
	closing chan struct{}  // closed when Close begins
	watches sync.WaitGroup // the calls of Watch
}

var (
	_ rouse.Shared   = (*Store)(nil)
	_ rouse.Watcher  = (*Store)(nil)
	_ rouse.Presence = (*Store)(nil)
	_ rouse.Raiser   = (*Store)(nil)
)

// Open opens the store that a postgres:// URL leads to. It brings the schema to this version if it is missing or older, unless
// o.NoMigrate is set.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	return open(ctx, url, o, embedded)
}

func open(ctx context.Context, url string, o Options, steps []migration) (_ *Store, err error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Store{o: o, url: url, name: redact(url), sql: newTexts(&o), closing: make(chan struct{})}
	defer func() {
		if err != nil {
			s.closePools()
			err = fmt.Errorf("store %s: %w", s.name, explain(err))
		}
	}()
	if err := ready(ctx, url, &o, steps); err != nil {
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

// leaseConns are kept for leases and the clock.
const leaseConns = 2

// Close waits for the calls that run, and closes the store.
func (s *Store) Close() error {
	s.life.Lock()
	if s.closed {
		s.life.Unlock()
		return nil
	}
	s.closed = true
	close(s.closing)
	s.life.Unlock()
	s.watches.Wait()
	s.closePools()
	return nil
}

func (s *Store) closePools() {
	for _, p := range []*pgxpool.Pool{s.timers, s.leases} {
		if p != nil {
			p.Close()
		}
	}
}

// begin starts a call; each one that succeeds is ended with s.life.RUnlock.
func (s *Store) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return rouse.ErrClosed
	}
	return nil
}

// timer makes calls on the connections for timers, in one transaction and one round trip; lease on those for leases.
func (s *Store) timer(ctx context.Context, calls []*call, read func(i int, row [][]byte) error) error {
	return s.do(ctx, s.timers, s.o.Timeout, s.sql.settings, calls, read)
}

func (s *Store) lease(ctx context.Context, calls []*call, read func(i int, row [][]byte) error) error {
	return s.do(ctx, s.leases, s.o.LeaseTimeout, s.sql.leaseSettings, calls, read)
}

func (s *Store) do(ctx context.Context, pool *pgxpool.Pool, timeout time.Duration, settings string, calls []*call,
	read func(i int, row [][]byte) error) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.life.RUnlock()
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := exchange(limited, pool, settings, calls, read); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err = explain(err)
		if errors.Is(err, rouse.ErrFull) {
			return err
		}
		return fmt.Errorf("store %s: %w", s.name, err)
	}
	return nil
}

// millis returns a duration in milliseconds, rounded up.
func millis(d time.Duration) int64 { return int64(rouse.Instant(0).Add(d)) }
