package claim

import (
	"context"
	"fmt"

	"github.com/rousehq/rouse"
)

// ReadLayout returns the layout of a store with the given number of buckets.
func ReadLayout(ctx context.Context, locks rouse.Locks, buckets uint32) (Layout, error) {
	l, _, err := readOneLease(ctx, locks, layoutName)
	if err != nil {
		return Layout{}, fmt.Errorf("read the layout of shares: %w", err)
	}
	return layoutOf(l, buckets), nil
}

// Layout returns the layout of the shares.
func (s *Share) Layout(ctx context.Context) (Layout, error) {
	return ReadLayout(ctx, s.locks, s.o.Buckets)
}

// Split divides a share at a bucket, which becomes the first of a new share; Merge reverts that. Both work
// while nodes fire, and return the new layout.
func (s *Share) Split(ctx context.Context, at uint32) (Layout, error) {
	return EditLayout(ctx, s.locks, s.o.Buckets, func(l Layout) (Layout, error) { return l.Split(at) })
}

// Merge joins the share that begins at a bucket with the previous one.
func (s *Share) Merge(ctx context.Context, at uint32) (Layout, error) {
	return EditLayout(ctx, s.locks, s.o.Buckets, func(l Layout) (Layout, error) { return l.Merge(at) })
}
