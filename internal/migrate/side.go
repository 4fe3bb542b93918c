package migrate

import (
	"context"
	"slices"
	"time"

	"github.com/rousehq/rouse"
)

// everyState contains all states of rows: a query without states leaves out those of additional rows.
var everyState = append(slices.Clone(rouse.ListedStates), rouse.StateDead, rouse.StateFiring, rouse.StateNote)

// side is a store with a timeout for each call.
type side struct {
	store   rouse.Store
	timeout time.Duration
}

// historian is a store that can list the namespaces of its records.
type historian interface {
	RecordNamespaces(ctx context.Context) ([]string, error)
}

func (s side) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.timeout)
}

func (s side) list(ctx context.Context, q rouse.Query) (rouse.Page, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.store.List(ctx, q)
}

func (s side) get(ctx context.Context, keys ...rouse.Key) ([]rouse.Row, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.store.Get(ctx, keys)
}

func (s side) apply(ctx context.Context, changes ...rouse.Change) ([]rouse.Result, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.store.Apply(ctx, changes)
}

func (s side) history(ctx context.Context, q rouse.RecordQuery) (rouse.RecordPage, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.store.Records(ctx, q)
}

// count returns the number of rows, without those of this package.
func (s side) count(ctx context.Context) (int64, error) {
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	n, err := s.store.Count(bounded, rouse.Query{States: everyState})
	if err != nil {
		return 0, err
	}
	notes, err := s.get(ctx, own...)
	for i := range notes {
		if notes[i].Revision != 0 {
			n--
		}
	}
	return n, err
}

// namespaces returns the namespaces that have records; known is false if the store cannot list them.
func (s side) namespaces(ctx context.Context) (names []string, known bool, err error) {
	h, ok := s.store.(historian)
	if !ok {
		return nil, false, nil
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	names, err = h.RecordNamespaces(ctx)
	return names, true, err
}
