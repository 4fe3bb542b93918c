// Package front is a store made of two: PostgreSQL has the truth, and a Redis in front of it has an index of when which row needs
// attention, so that looking for what is due does not read the database.
//
// All rows, records, leases and revisions are in PostgreSQL, and every write goes there first. The index may be emptied, fall behind
// or be away at any time: no timer is lost by it, and none fires for a row that has changed, because a claim takes of the index only
// which rows to look at. What it costs is time:
//
//   - The index is away: claims read PostgreSQL for rows of at least Options.Criticality; the others wait until it is back.
//   - It is back and empty: whoever sees that first gives it a new id. All nodes then put rows into it at the same time, those of higher
//     criticality first (sync.go), and timers fire meanwhile: critical ones from PostgreSQL until they are all in the index, and each of the
//     others as soon as it is there.
//   - It lost some of what it knew, or a node died between its write and the index: such rows are found when they are some seconds
//     overdue (net.go). Entries that say what is no longer so are put right by whoever meets them.
//
// An index that comes back with less than it had, because it was restored or failed over, is known by its beat, which PostgreSQL has a copy
// of: it is thrown away if it misses more than a few seconds.
//
// All nodes of a store have the same index. What somebody writes past it, such as SQL in a transaction of his own, is seen at once where
// Watch hears of it, else by the next claim with a token, or when it is overdue.
package front

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/postgres"
)

// Options tune a store. Zero fields have the defaults that their comments name.
type Options struct {
	SQL postgres.Options

	// Prefix is what the index's keys begin with, before ":{index}:"; default rouse. Stores with different prefixes share a Redis.
	Prefix string

	// Criticality is the least that a row has which is served while the index is away. 0 serves all of them.
	Criticality uint8

	// Timeout bounds a call to the index that somebody waits for; default 250 ms. When one fails, the index counts as away.
	Timeout time.Duration

	// Log is told when the index goes away and comes back, and what was found; default nobody.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = "rouse"
	}
	if o.Timeout <= 0 {
		o.Timeout = 250 * time.Millisecond
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// pace is how often and how much is done beside calls.
type pace struct {
	// lag is how long a change may take to reach the index. One that takes longer counts as late, and the row as written again: so
	// tokens that lie so far back tell of every row that a claim by the index missed.
	lag     time.Duration
	beat    time.Duration // between two beats of the index
	copy    time.Duration // between two copies of the beat in PostgreSQL
	beats   time.Duration // how much less than its copy the beat may be
	net     time.Duration // between two looks for overdue rows
	overdue time.Duration // how late rows are that it looks for
	again   time.Duration // between two tries to reach the index, at most
	given   time.Duration // how old a batch is whose node counts as dead
	call    time.Duration // bounds what is done beside calls
	pending int           // keys whose entries are to be mended, at most; when there are more, the index is thrown away
	scan    int           // rows that a step of a sync looks at, at most
	batch   int           // and marks
	marked  func()        // if not nil, is called when a step of a sync has marked rows, and before they are in the index
}

var usual = pace{
	lag: 2 * time.Second, beat: 3 * time.Second, copy: 10 * time.Second, beats: 5 * time.Second, net: 5 * time.Second, overdue: 3 * time.Second,
	again: time.Second, given: 15 * time.Second, call: 10 * time.Second, pending: 100_000, scan: 20_000, batch: 2000,
}

// Store is a rouse.Shared, a rouse.Watcher and a rouse.Raiser: that of PostgreSQL, but for what the index has to do with.
type Store struct {
	*postgres.Store
	o     Options
	pace  pace
	index *index
	owner string // of what this store marks

	state   state
	tokens  tokens
	clock   clock
	pending pending
	counts  counts
	sync    syncing // belongs to keep
	net     net     // belongs to keep

	life   sync.RWMutex // held for reading by every call that is not PostgreSQL's alone, for writing by Close
	closed bool
	stop   context.CancelFunc // ends keep
	kept   chan struct{}      // closed when keep has ended
}

var (
	_ rouse.Shared  = (*Store)(nil)
	_ rouse.Watcher = (*Store)(nil)
	_ rouse.Raiser  = (*Store)(nil)
)

// Open opens the store that a postgres:// URL leads to, with its index in the Redis that a redis:// URL leads to: one server, Sentinels
// or a Cluster, as package redis has them. The index may be away.
func Open(ctx context.Context, sql, index string, o Options) (*Store, error) {
	return open(ctx, sql, index, o, usual)
}

func open(ctx context.Context, sql, at string, o Options, p pace) (*Store, error) {
	o = o.withDefaults()
	ix, err := newIndex(at, &o)
	if err != nil {
		return nil, err
	}
	o.SQL.ShowOwn = true // who reads while the index is away passes rows of his own, too, and finds them by a token of before
	under, err := postgres.Open(ctx, sql, o.SQL)
	if err != nil {
		return nil, errors.Join(err, ix.close())
	}
	s := &Store{Store: under, o: o, pace: p, index: ix, owner: rand.Text()[:12], kept: make(chan struct{})}
	s.tokens.lag = p.lag
	s.pending.most = p.pending
	s.pending.wake = make(chan struct{}, 1)
	s.state.was = errNotYet
	s.net.next = time.Now().Add(p.net)
	s.enter(ctx) // if it is there, the first claim finds it
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	go s.keep(keeping)
	return s, nil
}

// Describe says what the store is, for people.
func (s *Store) Describe() string {
	st := s.Stats()
	text := fmt.Sprintf("PostgreSQL, indexed by Redis at %s (%s)", s.index.name, st.Mode)
	if st.Err != nil {
		text += ": " + st.Err.Error()
	}
	return text
}

// Close waits for the calls that run, and closes the store.
func (s *Store) Close() error {
	s.stop()
	<-s.kept
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return errors.Join(s.Store.Close(), s.index.close())
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

// Watch is that of PostgreSQL. What somebody has written past the index is found before f is called.
func (s *Store) Watch(ctx context.Context, f func()) error {
	return s.Store.Watch(ctx, func() {
		s.state.hint()
		f()
	})
}
