// Package sqlite stores timers in one SQLite file, for a node that runs alone and timers that other tools
// can read.
//
//	s, err := sqlite.Open("timers.db", sqlite.Options{}) // or store.Open(ctx, "sqlite:timers.db", store.Options{})
//
// It is a rouse.Store over modernc.org/sqlite, which needs no C compiler. A file contains one store, which
// one process opens at a time: a lock on a separate file ensures that. schema.go has the tables; any SQLite
// tool can read them while rouse runs.
//
// All writes use one connection, in transactions that begin IMMEDIATE, so they never wait for a lock halfway.
// Readers have connections of their own and are not blocked. A commit that the disk refuses ends all writing
// until the store is opened again: the content of the disk is unknown then.
//
// When the disk is full, calls that add rows are refused (rouse.ErrFull) while some space is left for
// everything else; if that runs out, too, every write gets rouse.ErrFull, nothing is half-written, and no
// restart is needed when there is space again.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/storekit"
	"github.com/rousehq/rouse/internal/witness"
)

// Options configure a store. Zero fields mean the defaults named in their comments.
type Options struct {
	// Relaxed syncs the log at checkpoints only (PRAGMA synchronous=NORMAL) instead of at every commit
	// (FULL). A crash of the process still loses nothing, but a power cut or a crash of the machine loses the
	// last acknowledged commits. The file stays consistent in both cases.
	Relaxed bool

	CacheBytes int64 // page cache for writing; each of the four readers has a quarter; default 16 MiB
	Reserve    int64 // free bytes on the disk below which no rows are added; default 64 MiB; negative is none

	// Clock is the clock for Now, claims and holds; default time.Now. It is called from many goroutines.
	Clock func() time.Time

	// AcceptLoss opens a store although its log has lost acknowledged writes, without these.
	AcceptLoss bool

	// Report is called for damage that was accepted when the store was opened, and once for damage found
	// later. It must return quickly. Default: none.
	Report func(error)
}

func (o Options) withDefaults() Options {
	o.CacheBytes = cmp.Or(o.CacheBytes, 16<<20)
	o.Reserve = cmp.Or(o.Reserve, 64<<20)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	return o
}

// Store is a rouse.Store and a rouse.Checkpointer.
type Store struct {
	path    string
	clock   func() time.Time
	lock    *lock
	disk    *storekit.Space
	writer  *sql.DB
	readers *sql.DB
	read    reads

	life    storekit.Guard // of calls and Close
	faults  storekit.Faults
	witness *witness.Witness // nil for a Relaxed store, whose commits are acknowledged before they are durable

	turn storekit.Turn // of writers; guards the following fields
	tx   *write
	last uint64 // the last revision

	trimming storekit.Turn // so that no other trim deletes the records that one has found
}

// revisionGap is how far revisions advance when a store is opened. A power cut may have lost commits of a
// Relaxed store whose revisions a client has seen; no revision is repeated.
const revisionGap = 1 << 20

// readerCount is the number of concurrent reads.
const readerCount = 4

// Open opens the store in a file, and creates it if the file does not exist.
func Open(path string, o Options) (*Store, error) {
	return openWithSpace(path, o, freeDiskBytes)
}

func openWithSpace(path string, o Options, free func(string) (int64, error)) (_ *Store, err error) {
	o = o.withDefaults()
	if err := registerVFS(); err != nil {
		return nil, err
	}
	path, l, err := lockStoreFile(path)
	if err != nil {
		return nil, err
	}
	s := &Store{
		path:     path,
		clock:    o.Clock,
		lock:     l,
		disk:     &storekit.Space{Reserve: o.Reserve, Measure: func() (int64, error) { return free(path) }},
		faults:   storekit.Faults{Store: path, AddCure: addCure, Report: o.Report},
		turn:     storekit.NewTurn(),
		trimming: storekit.NewTurn(),
	}
	defer func() {
		if err != nil {
			s.closeAll()
			err = fmt.Errorf("store %s: %w", path, addCure(err))
		}
	}()
	if !o.Relaxed {
		if err = s.acceptDamage(o, checkLog(path)); err != nil {
			return nil, err
		}
	}
	if s.writer, err = openConnections(path, o, true); err != nil {
		return nil, err
	}
	ctx := context.Background()
	var have uint64
	if err = s.writer.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = 'revision'`).Scan(&have); err != nil {
		return nil, err
	}
	if s.last = have + revisionGap; have == 0 { // it is new
		s.last = rouse.FirstRevision(time.Now())
	}
	if err = s.continueWitness(o, have); err != nil {
		return nil, err
	}
	if err = upgradeFile(ctx, s.writer, path); err != nil {
		return nil, err
	}
	// a file of an older rouse has none; every rouse maintains it
	if _, err = s.writer.ExecContext(ctx, dueIndex); err != nil {
		return nil, err
	}
	if s.readers, err = openConnections(path, o, false); err != nil {
		return nil, err
	}
	if s.tx, err = prepareWrite(ctx, s); err != nil {
		return nil, err
	}
	if s.read, err = prepareReads(ctx, s.readers); err != nil {
		return nil, err
	}
	return s, nil
}

// closeAll closes the resources of Open, in reverse order.
func (s *Store) closeAll() (err error) {
	s.read.closeReads()
	if s.tx != nil {
		s.tx.closeStatements()
	}
	for _, db := range []*sql.DB{s.readers, s.writer} { // closing the last connection checkpoints the log
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}
	if s.witness != nil {
		err = errors.Join(err, s.witness.Close())
	}
	return errors.Join(err, s.lock.closeLock())
}

// Now returns the store's clock.
func (s *Store) Now(ctx context.Context) (rouse.Instant, error) {
	return s.clockNow(), ctx.Err()
}

func (s *Store) clockNow() rouse.Instant { return rouse.Reached(s.clock()) }

// Close waits for running calls and closes the store.
func (s *Store) Close() error {
	return s.life.Close(s.closeAll)
}

// beginStoreCall starts a call. If it succeeds, the caller must call s.life.RUnlock at the end.
func (s *Store) beginStoreCall(ctx context.Context) error { return s.life.Begin(ctx) }

// readErr returns the error of a read: that of its context, if this ended it. SQLite then returns
// "interrupted", which database/sql does not always replace.
func readErr(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Examine reads all of the store, and records and returns damage that it finds: a page that cannot be read
// from the disk, or rows, indexes, counters and records that do not agree. It is for a store of which a copy
// was found damaged: the copy may have a fault that the store has not.
func (s *Store) Examine(ctx context.Context) (err error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return err
	}
	defer s.life.RUnlock()
	// The connection is a new one: it has no pages in memory.
	db, err := sql.Open("sqlite", dataSourceName(s.path, []string{"query_only(true)", "busy_timeout(5000)"}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return s.faults.Note(readErr(ctx, checkIntegrity(ctx, db)))
}

// Corrupted returns the first damage found since the store was opened.
func (s *Store) Corrupted() error { return s.faults.Corrupted() }
