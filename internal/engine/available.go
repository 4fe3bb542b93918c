package engine

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
)

// storeTimeout bounds a store call whose caller set no deadline, so that a hanging store becomes an error
// before the server has to answer the request.
const storeTimeout = 20 * time.Second

// Available returns a store whose errors are wrapped as rouse.ErrUnavailable. Everything that serves clients
// uses the store through it, so that all operations report an unavailable store in the same way.
func Available(s rouse.Store) rouse.Store { return available{s} }

type available struct{ rouse.Store }

// withStoreTimeout returns a context with storeTimeout unless ctx already has a deadline.
func withStoreTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, bounded := ctx.Deadline(); bounded {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, storeTimeout)
}

func (s available) Now(ctx context.Context) (rouse.Instant, error) {
	now, err := s.Store.Now(ctx)
	return now, rouse.Unavailable(err)
}

func (s available) Get(ctx context.Context, keys []rouse.Key) ([]rouse.Row, error) {
	ctx, cancel := withStoreTimeout(ctx)
	defer cancel()
	rows, err := s.Store.Get(ctx, keys)
	return rows, rouse.Unavailable(err)
}

func (s available) List(ctx context.Context, q rouse.Query) (rouse.Page, error) {
	ctx, cancel := withStoreTimeout(ctx)
	defer cancel()
	page, err := s.Store.List(ctx, q)
	return page, rouse.Unavailable(err)
}

// Count is not bounded by storeTimeout: with some filters it scans all rows.
func (s available) Count(ctx context.Context, q rouse.Query) (int64, error) {
	n, err := s.Store.Count(ctx, q)
	return n, rouse.Unavailable(err)
}

func (s available) Claim(ctx context.Context, w rouse.Window) (rouse.Batch, error) {
	b, err := s.Store.Claim(ctx, w)
	return b, rouse.Unavailable(err)
}

func (s available) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	results, err := s.Store.Apply(ctx, changes)
	return results, rouse.Unavailable(err)
}

func (s available) Records(ctx context.Context, q rouse.RecordQuery) (rouse.RecordPage, error) {
	ctx, cancel := withStoreTimeout(ctx)
	defer cancel()
	page, err := s.Store.Records(ctx, q)
	return page, rouse.Unavailable(err)
}

func (s available) RecordNamespaces(ctx context.Context) ([]string, error) {
	ctx, cancel := withStoreTimeout(ctx)
	defer cancel()
	names, err := s.Store.RecordNamespaces(ctx)
	return names, rouse.Unavailable(err)
}

func (s available) TrimTimer(ctx context.Context, namespace, name string, keep int) (int64, error) {
	n, err := s.Store.TrimTimer(ctx, namespace, name, keep)
	return n, rouse.Unavailable(err)
}

func (s available) Trim(ctx context.Context, before rouse.Instant, max int64) (int64, error) {
	n, err := s.Store.Trim(ctx, before, max)
	return n, rouse.Unavailable(err)
}
