// Package storekit has the common parts of stores: it keeps calls and the end of a store apart, and merges
// pages of rows. For stores in files it has one writer at a time, errors that end all writing, damage, and
// the free space of the disk.
package storekit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rousehq/rouse"
)

// Turn contains a token while a caller works, so that there is one at a time.
type Turn chan struct{}

// NewTurn returns a turn that is free.
func NewTurn() Turn { return make(Turn, 1) }

// Take waits for the turn. If it succeeds, the caller must call Release at the end.
func (t Turn) Take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Release ends the turn.
func (t Turn) Release() { <-t }

// Faults records why a store can no longer be written, and the first damage that was found.
type Faults struct {
	Store   string            // its path, for errors
	AddCure func(error) error // adds the cure to an error
	Report  func(error)       // is called for the first damage

	broken, damaged atomic.Pointer[error]
}

// Break ends all writing, and returns the error of all later writes.
func (f *Faults) Break(err error) error {
	err = fmt.Errorf("store %s: %w; nothing more is written; what was acknowledged is safe; "+
		"restart rouse when the disk is well", f.Store, err)
	f.broken.CompareAndSwap(nil, &err)
	return f.Broken()
}

// Broken returns why nothing can be written any more.
func (f *Faults) Broken() error { return loadError(&f.broken) }

// Note records damage that a call found, and returns the error for the call.
func (f *Faults) Note(err error) error {
	if err = f.AddCure(err); errors.Is(err, rouse.ErrCorrupt) && f.damaged.CompareAndSwap(nil, &err) {
		f.Report(f.Corrupted())
	}
	return err
}

// Corrupted returns the first damage found since the store was opened.
func (f *Faults) Corrupted() error {
	if err := loadError(&f.damaged); err != nil {
		return fmt.Errorf("store %s: %w", f.Store, err)
	}
	return nil
}

func loadError(p *atomic.Pointer[error]) error {
	if err := p.Load(); err != nil {
		return *err
	}
	return nil
}

// Space reads the free space of a disk, at most once in spaceInterval.
type Space struct {
	Reserve int64                 // free bytes below which no rows are added; 0 or less: none
	Measure func() (int64, error) // returns the free bytes

	mu      sync.Mutex
	checked time.Time
	avail   int64
}

const spaceInterval = 100 * time.Millisecond

// Low reports whether there is too little space to add rows.
func (s *Space) Low() bool { return s.Reserve > 0 && s.Free() < s.Reserve }

// Free returns the recently read number of free bytes.
func (s *Space) Free() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.checked.IsZero() || now.Sub(s.checked) >= spaceInterval {
		s.checked, s.avail = now, 1<<63-1 // a disk that does not report its space is not full
		if n, err := s.Measure(); err == nil {
			s.avail = n
		}
	}
	return s.avail
}

// Expire makes Free read the free space again: tests change it faster than disks do.
func (s *Space) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checked = time.Time{}
}

// IsFull reports whether an error means that the disk is full.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// mostRevision limits Raise: all stores can represent it, and it leaves room for more writes than will ever
// be made.
const mostRevision = 1 << 62

// CheckRevision refuses a revision that is too high for Raise.
func CheckRevision(revision uint64) error {
	if revision > mostRevision {
		cure := fmt.Sprintf("use at most %d", uint64(mostRevision))
		return rouse.Refuse("revision", fmt.Sprint(revision), "is too high", cure)
	}
	return nil
}
