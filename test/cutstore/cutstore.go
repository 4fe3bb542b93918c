// Package cutstore is a store for tests of nodes that crash.
package cutstore

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
)

// Store is the connection of one node to a store in memory that several nodes may share.
type Store struct {
	*mem.Store
	cut atomic.Bool
}

var errCut = fmt.Errorf("the connection is cut: %w", rouse.ErrUnavailable)

// Cut ends the connection for ever, as a crash of the node does.
func (s *Store) Cut() { s.cut.Store(true) }

// IsCut returns whether Cut was called.
func (s *Store) IsCut() bool { return s.cut.Load() }

// Now returns the store's clock.
func (s *Store) Now(ctx context.Context) (rouse.Instant, error) {
	return callUnlessCut(s, func() (rouse.Instant, error) { return s.Store.Now(ctx) })
}

// Get reads rows.
func (s *Store) Get(ctx context.Context, keys []rouse.Key) ([]rouse.Row, error) {
	return callUnlessCut(s, func() ([]rouse.Row, error) { return s.Store.Get(ctx, keys) })
}

// Claim reads the due rows.
func (s *Store) Claim(ctx context.Context, window rouse.Window) (rouse.Batch, error) {
	return callUnlessCut(s, func() (rouse.Batch, error) { return s.Store.Claim(ctx, window) })
}

// Apply writes changes.
func (s *Store) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	return callUnlessCut(s, func() ([]rouse.Result, error) { return s.Store.Apply(ctx, changes) })
}

// Revisions reads the revisions of rows.
func (s *Store) Revisions(ctx context.Context, keys []rouse.Key) ([]uint64, error) {
	return callUnlessCut(s, func() ([]uint64, error) { return s.Store.Revisions(ctx, keys) })
}

func callUnlessCut[T any](s *Store, call func() (T, error)) (result T, err error) {
	if s.cut.Load() {
		return result, errCut
	}
	return call()
}
