package migrate

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
)

// everyState contains all states of rows: a query without states leaves out those of additional rows.
var everyState = rouse.EveryState

// side is a store with a timeout for each call.
type side struct {
	store   rouse.Store
	timeout time.Duration
}

func (s side) boundedContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.timeout)
}

func (s side) listRowPage(ctx context.Context, q rouse.Query) (rouse.Page, error) {
	ctx, cancel := s.boundedContext(ctx)
	defer cancel()
	return s.store.List(ctx, q)
}

func (s side) getRows(ctx context.Context, keys ...rouse.Key) ([]rouse.Row, error) {
	ctx, cancel := s.boundedContext(ctx)
	defer cancel()
	return s.store.Get(ctx, keys)
}

func (s side) applyChanges(ctx context.Context, changes ...rouse.Change) ([]rouse.Result, error) {
	ctx, cancel := s.boundedContext(ctx)
	defer cancel()
	return s.store.Apply(ctx, changes)
}

func (s side) listRecordPage(ctx context.Context, q rouse.RecordQuery) (rouse.RecordPage, error) {
	ctx, cancel := s.boundedContext(ctx)
	defer cancel()
	return s.store.Records(ctx, q)
}

// countRows returns the number of rows, without those of this package.
func (s side) countRows(ctx context.Context) (int64, error) {
	bounded, cancel := s.boundedContext(ctx)
	defer cancel()
	n, err := s.store.Count(bounded, rouse.Query{States: everyState})
	if err != nil {
		return 0, err
	}
	notes, err := s.getRows(ctx, own...)
	for i := range notes {
		if notes[i].Revision != 0 {
			n--
		}
	}
	return n, err
}

// sharedRows returns the number of rows that nodes share, such as signing keys: every store that was served
// has some.
func (s side) sharedRows(ctx context.Context) (int64, error) {
	ctx, cancel := s.boundedContext(ctx)
	defer cancel()
	return s.store.Count(ctx, rouse.Query{Namespace: rouse.ReservedNamespace, States: []rouse.State{rouse.StateNote}})
}

// recordNamespaces returns the namespaces that have records.
func (s side) recordNamespaces(ctx context.Context) ([]string, error) {
	ctx, cancel := s.boundedContext(ctx)
	defer cancel()
	return s.store.RecordNamespaces(ctx)
}
