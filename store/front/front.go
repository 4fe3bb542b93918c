// Package front is a store of two servers: PostgreSQL contains the data, and a Redis in front of it an index
// of due times, so that the search for due rows does not read the database. Use it if that search loads the
// database too much.
//
//	s, err := front.Open(ctx, "postgres://rouse@db.internal/rouse", "redis://cache.internal:6379/0", front.Options{})
//
// All rows, records, leases and revisions are in PostgreSQL, and every write goes there first. The index may
// be emptied, fall behind or be unavailable at any time: no timer is lost, and none fires for a row that has
// changed, because a claim takes only suggestions from the index. Such an outage costs time:
//
//   - The index is unavailable: claims read rows of at least Options.Criticality from PostgreSQL; the others
//     wait until it is back.
//   - It is back and empty: the first node that notices creates an index with a new id. All nodes then add
//     rows at the same time, those of higher criticality first (sync.go), and timers keep firing: critical
//     ones from PostgreSQL until all of them are in the index, and each of the others as soon as it is there.
//   - It lost some entries, or a node died between its write and the update of the index: such rows are found
//     when they are some seconds overdue (net.go). A claim that finds a wrong entry corrects it.
//
// An index that was restored or failed over may have lost entries. Its beat, of which PostgreSQL has a copy,
// reveals this: an index that has lost more than a few seconds is discarded.
//
// All nodes of a store share the index. A write that bypasses it, such as SQL in an application's own
// transaction, is found immediately if Watch is notified, else by the next claim with a token, or when the
// row is overdue.
package front

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/storekit"
	"github.com/rousehq/rouse/store/postgres"
)

// Options configure a store. Zero fields mean the defaults named in their comments.
type Options struct {
	SQL postgres.Options

	// Prefix is the prefix of the index's keys, before ":{index}:"; default rouse. Stores with different
	// prefixes can share a Redis.
	Prefix string

	// Criticality is the minimal criticality of the rows that are served while the index is unavailable. 0
	// serves all rows.
	Criticality uint8

	// Timeout is the limit of a call to the index that a caller waits for; default 250 ms. After a call
	// fails, the index counts as unavailable.
	Timeout time.Duration

	// Log receives a message when the index becomes unavailable or available again, and when overdue rows
	// were found; by default none.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Prefix = cmp.Or(o.Prefix, "rouse")
	o.Timeout = cmp.Or(max(o.Timeout, 0), 250*time.Millisecond)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// pace contains the intervals and sizes of the background work.
type pace struct {
	// lag is how long a change may take to reach the index. A row whose change takes longer counts as written
	// again. So tokens that are this old find every row that a claim through the index missed.
	lag     time.Duration
	beat    time.Duration // interval of beats of the index
	copy    time.Duration // interval of copies of the beat to PostgreSQL
	beats   time.Duration // how far the beat may be behind its copy
	net     time.Duration // interval of searches for overdue rows
	overdue time.Duration // how late rows are that a search finds
	again   time.Duration // longest interval of attempts to reach the index
	given   time.Duration // age of a batch at which its node counts as dead
	call    time.Duration // timeout of background calls
	pending int           // limit of keys whose entries need repair; above it, the index is discarded
	scan    int           // limit of rows that a step of a sync reads
	batch   int           // limit of rows that it marks
	marked  func()        // if not nil, called after a step of a sync has marked rows, before they are in the index
}

var usual = pace{
	lag: 2 * time.Second, beat: 3 * time.Second, copy: 10 * time.Second, beats: 5 * time.Second, net: 5 * time.Second,
	overdue: 3 * time.Second,
	again:   time.Second, given: 15 * time.Second, call: 10 * time.Second, pending: 100_000, scan: 20_000, batch: 2000,
}

// Store is a rouse.Shared, a rouse.Watcher and a rouse.Raiser: PostgreSQL's store, except for the methods
// that involve the index.
type Store struct {
	*postgres.Store
	o     Options
	pace  pace
	index *index
	owner string // identifies the rows that this store marks

	state   state
	tokens  tokens
	clock   clock
	pending pending
	counts  counts
	sync    syncing // used only by maintainIndex
	net     net     // used only by maintainIndex

	life storekit.Guard     // of calls that do more than call PostgreSQL, and Close
	stop context.CancelFunc // stops maintainIndex
	kept chan struct{}      // closed when maintainIndex has ended
}

var (
	_ rouse.Shared  = (*Store)(nil)
	_ rouse.Watcher = (*Store)(nil)
	_ rouse.Raiser  = (*Store)(nil)

	_ rouse.Withholding = (*Store)(nil)
)

// Open opens the store at a postgres:// URL, with its index in the Redis at a redis:// URL: one server,
// Sentinels or a Cluster, in the format of package redis. The index may be unavailable.
func Open(ctx context.Context, sql, index string, o Options) (*Store, error) {
	return openWithPace(ctx, sql, index, o, usual)
}

func openWithPace(ctx context.Context, sql, at string, o Options, p pace) (*Store, error) {
	o = o.withDefaults()
	ix, err := newIndex(at, &o)
	if err != nil {
		return nil, err
	}
	// a reader skips its own rows, too, while the index is unavailable, and finds them with an earlier token
	o.SQL.ShowOwn = true
	under, err := postgres.Open(ctx, sql, o.SQL)
	if err != nil {
		return nil, errors.Join(err, ix.closeIndex())
	}
	s := &Store{Store: under, o: o, pace: p, index: ix, owner: rand.Text()[:12], kept: make(chan struct{})}
	s.tokens.lag = p.lag
	s.pending.most = p.pending
	s.pending.wake = make(chan struct{}, 1)
	s.state.was = errNotYet
	s.net.next = time.Now().Add(p.net)
	s.establishIndex(ctx) // so that the first claim uses the index if it is available
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	go s.maintainIndex(keeping)
	return s, nil
}

// Describe returns a readable description of the store.
func (s *Store) Describe() string {
	st := s.Stats()
	text := fmt.Sprintf("PostgreSQL, indexed by Redis at %s (%s)", s.index.name, st.Mode)
	if st.Err != nil {
		text += ": " + st.Err.Error()
	}
	return text
}

// Close waits for running calls and closes the store.
func (s *Store) Close() error {
	s.stop()
	<-s.kept
	return s.life.Close(func() error { return errors.Join(s.Store.Close(), s.index.closeIndex()) })
}

// beginStoreCall starts a call. If it succeeds, the caller must call s.life.RUnlock at the end.
func (s *Store) beginStoreCall(ctx context.Context) error { return s.life.Begin(ctx) }

// Watch is PostgreSQL's Watch, but makes writes that bypassed the index visible to claims before it calls f.
func (s *Store) Watch(ctx context.Context, f func()) error {
	return s.Store.Watch(ctx, func() {
		s.state.setHint()
		f()
	})
}
