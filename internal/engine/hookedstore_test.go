package engine_test

import (
	"context"
	"errors"
	"sync"

	"github.com/rousehq/rouse"
)

// hookedStore is a store whose calls a test can observe, delay and fail.
type hookedStore struct {
	rouse.Store
	mu     sync.Mutex
	get    func(keys []rouse.Key) error
	before func(changes []rouse.Change) error
	after  func(changes []rouse.Change, results []rouse.Result) error
}

func (h *hookedStore) set(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

func (h *hookedStore) Get(ctx context.Context, keys []rouse.Key) ([]rouse.Row, error) {
	h.mu.Lock()
	get := h.get
	h.mu.Unlock()
	if get != nil {
		if err := get(keys); err != nil {
			return nil, err
		}
	}
	return h.Store.Get(ctx, keys)
}

func (h *hookedStore) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	h.mu.Lock()
	before, after := h.before, h.after
	h.mu.Unlock()
	if before != nil {
		if err := before(changes); err != nil {
			return nil, err
		}
	}
	results, err := h.Store.Apply(ctx, changes)
	if err == nil && after != nil {
		err = after(changes, results)
	}
	return results, err
}

var errHook = errors.New("the store does not answer")

// wantOneRecordEach fails the test if an occurrence has two records.
func (h *harness) wantOneRecordEach(name string) {
	h.t.Helper()
	list := h.records(name)
	for i, a := range list {
		for _, b := range list[i+1:] {
			if a.Manual == b.Manual && a.Generation == b.Generation && max(a.Due, b.Due) <= min(max(a.Due, a.LastDue), max(b.Due, b.LastDue)) {
				h.t.Errorf("%s: two records of one occurrence: %v of %v-%v (%s) and %v of %v-%v (%s)", name, a.Ending, a.Due, a.LastDue, a.Reason, b.Ending, b.Due, b.LastDue, b.Reason)
			}
		}
	}
}
