// Package pebble stores timers in an embedded key-value store: the default of a node that runs alone.
//
//	s, err := pebble.Open("./timers", pebble.Options{}) // or store.Open(ctx, "pebble:./timers", store.Options{})
//
// It is a rouse.Store over Pebble, a log-structured merge tree. A directory contains one store, which one
// process opens at a time. Its content, by the first byte of the key (key.go has the layouts):
//
//	d  the rows, in the order of attention: bucket, visible time, key    read by claims
//	k  the place of each key: its d key, versions, state, due, labels    read by conditions and lists
//	s  keys by state, for all states but scheduled                       so that a list of dead letters is short
//	l  keys by label
//	c  the number of rows of each namespace in each state
//	h  records: hour, namespace, name, end                               a timer's history is one seek per hour
//	n  which records ended when: hour, namespace, second                 a namespace's history
//	g  how many records each hour has
//	m  the last revision
//
// Every write is synced to disk before Apply acknowledges it. Writes are checked and ordered under one lock,
// and wait for the sync outside it, so that concurrent calls share syncs. A sync that fails ends all writing
// until the store is opened again: the content of the disk is unknown then.
//
// When the disk is full, calls that add rows are refused (rouse.ErrFull) while some space is left for
// everything else; if that runs out, too, writes wait until there is space, and no restart is needed.
package pebble

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lsm "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/storekit"
)

// Options configure a store. Zero fields mean the defaults named in their comments.
type Options struct {
	CacheBytes    int64 // cache of blocks read from disk; default 32 MiB
	MemTableBytes int64 // written rows in memory before they are flushed to disk; default 64 MiB
	Reserve       int64 // free bytes on the disk below which no rows are added; default 64 MiB; negative is none

	// Clock is the clock for Now, claims and holds; default time.Now. It is called from many goroutines.
	Clock func() time.Time

	// AcceptLoss opens a store although its logs have lost acknowledged writes, without these.
	AcceptLoss bool

	// Report is called for damage that was accepted when the store was opened, and once for damage found
	// later. It must return quickly. Default: none.
	Report func(error)
}

func (o Options) withDefaults() Options {
	o.CacheBytes = cmp.Or(o.CacheBytes, 32<<20)
	o.MemTableBytes = cmp.Or(o.MemTableBytes, 64<<20)
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
	db    *lsm.DB
	dir   string
	clock func() time.Time
	lock  *lsm.Lock
	room  *room

	life   storekit.Guard // of calls and Close
	faults storekit.Faults
	notes  *notes

	turn    storekit.Turn // of writers, while they check and build; guards the following fields
	write   write
	counts  counts
	hours   map[uint32]int64 // records of each hour
	last    uint64           // the last revision
	syncing chan pending     // in the order of the log
	syncer  sync.WaitGroup
	counter sync.WaitGroup // of countNames

	trimming storekit.Turn // so that no other trim deletes the records that one has found
}

// revisionGap is how far revisions advance when a store is opened. A crash may have lost the latest
// unacknowledged writes, whose revisions a read may have returned; the gap is far larger than the number of
// unsynced writes, so that no revision is repeated.
const revisionGap = 1 << 20

// Open opens the store in a directory, and creates it if the directory is empty or does not exist.
func Open(dir string, o Options) (*Store, error) {
	return openOnFS(dir, o, vfs.Default)
}

func openOnFS(dir string, o Options, fs vfs.FS) (*Store, error) {
	o = o.withDefaults()
	h, err := lockStoreDir(fs, dir)
	if err != nil {
		return nil, err
	}
	s := newStore(fs, dir, o)
	s.lock = h.lock
	if err := s.openFiles(o, &h); err != nil {
		if s.db != nil {
			err = errors.Join(err, s.db.Close())
		}
		return nil, fmt.Errorf("store %s: %w", dir, errors.Join(addCure(err), s.notes.closeWitness(), h.lock.Close()))
	}
	s.write.init(s)
	s.syncer.Go(s.syncLoop)
	if _, all, err := s.countSome(0); !all && err == nil { // of a small store it counts all
		s.counter.Go(s.countNames)
	}
	return s, nil
}

func newStore(fs vfs.FS, dir string, o Options) *Store {
	return &Store{
		dir:      dir,
		clock:    o.Clock,
		room:     newRoom(fs, dir, o.Reserve),
		faults:   storekit.Faults{Store: dir, AddCure: addCure, Report: o.Report},
		notes:    newNotes(),
		turn:     storekit.NewTurn(),
		syncing:  make(chan pending, 1024),
		trimming: storekit.NewTurn(),
	}
}

// openFiles checks and opens the existing files, or creates them.
func (s *Store) openFiles(o Options, h *held) (err error) {
	disk := s.room.disk
	must := uint64(0) // the last acknowledged revision, as far as it is known
	if h.fresh {
		err = s.room.makePrivate(s.dir)
	} else {
		must, err = s.checkBeforeOpen(o, h)
	}
	if err != nil {
		return err
	}
	if s.db, err = lsm.Open(s.dir, s.pebbleOptions(o, h.fresh)); err != nil {
		return err
	}
	have, err := s.loadState(must)
	if err != nil {
		return err
	}
	if have < must {
		d := &damage{file: "the last log", wrong: fmt.Sprintf("ends at revision %d, and revision %d was acknowledged", have,
			must), isLog: true}
		if !o.AcceptLoss {
			return d
		}
		o.Report(fmt.Errorf("accepted: what was written after revision %d, up to revision %d, is lost", have, must))
	}
	if err := s.notes.noteOpened(disk, s.dir, have); err != nil {
		return err
	}
	if err := h.markReady(disk, s.dir); err != nil {
		return err
	}
	return s.room.makePrivate(s.dir) // files that were created in between
}

// checkBeforeOpen checks the files of a store before Pebble changes any of them. It returns the last
// acknowledged revision.
func (s *Store) checkBeforeOpen(o Options, h *held) (must uint64, err error) {
	accept := func(err error) error {
		d, ok := errors.AsType[*damage](err)
		if !ok || !d.isLog || !o.AcceptLoss {
			return err
		}
		o.Report(fmt.Errorf("accepted: %w", err))
		return d.acceptLoss(s.room.disk, s.dir)
	}
	var x examined
	if h.witnessed {
		if err := accept(x.requireWitness(s.room.disk, s.dir)); err != nil {
			return 0, err
		}
	}
	damaged := x.examineFiles(s.room.disk, s.dir)
	if err := accept(damaged); err != nil {
		if x.w != nil {
			err = errors.Join(err, x.w.Close())
		}
		return 0, err
	}
	if damaged != nil {
		clear(x.has.logs)
	}
	if err := s.room.makePrivate(s.dir); err != nil { // for a store of an older rouse
		if x.w != nil {
			err = errors.Join(err, x.w.Close())
		}
		return 0, err
	}
	// Pebble's copy of its options is not needed for a store that has a format, and would keep it from
	// opening if it is damaged.
	for _, name := range x.options {
		if err := s.room.disk.Remove(s.room.disk.PathJoin(s.dir, name)); err != nil {
			return 0, err
		}
	}
	if x.w == nil {
		return 0, nil
	}
	return x.has.revision, s.notes.beginNotes(x.w, x.has, x.highestLog())
}

// loadState reads the state that is kept in memory: the last revision, which it returns, and the hours of the
// history. New revisions continue above all earlier ones.
func (s *Store) loadState(must uint64) (have uint64, err error) {
	value, err := getValue(s.db, revisionKey)
	if err != nil {
		return 0, err
	}
	if value != nil {
		if have, err = readFixed(value); err != nil {
			return 0, err
		}
	} else if err := s.db.Set(asideKey, nil, lsm.Sync); err != nil { // it is empty
		return 0, err
	}
	if s.last = max(have, must) + revisionGap; s.last == revisionGap { // it is new
		s.last = rouse.FirstRevision(time.Now())
	}
	s.counts.init(s.db)
	s.hours, err = loadHours(s.db)
	return have, err
}

// Now returns the store's clock.
func (s *Store) Now(ctx context.Context) (rouse.Instant, error) {
	return s.clockNow(), ctx.Err()
}

func (s *Store) clockNow() rouse.Instant { return rouse.Reached(s.clock()) }

// Close waits for running calls and closes the store. Writes that wait for space on a full disk fail.
func (s *Store) Close() error {
	s.room.stopWaiting()
	s.counter.Wait()
	return s.life.Close(func() error {
		close(s.syncing)
		s.syncer.Wait()
		return errors.Join(s.db.Close(), s.notes.closeWitness(), s.lock.Close())
	})
}

// beginStoreCall starts a call. If it succeeds, the caller must call s.life.RUnlock at the end.
func (s *Store) beginStoreCall(ctx context.Context) error {
	if err := s.life.Begin(ctx); err != nil {
		return err
	}
	err := s.faults.Broken()
	if err != nil { // rows that reads would return may never have reached the disk
		s.life.RUnlock()
	}
	return err
}

// Corrupted returns the first damage found since the store was opened.
func (s *Store) Corrupted() error { return s.faults.Corrupted() }
