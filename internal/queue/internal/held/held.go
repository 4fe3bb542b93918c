// Package held tracks the unsettled deliveries of a consumer: there are never more than its prefetch, and its
// shutdown can wait for the last one.
package held

import (
	"context"
	"sync"
)

// Set is safe for concurrent use.
type Set[K comparable, V any] struct {
	mu      sync.Mutex
	free    int
	total   int
	items   map[K]V
	changed chan struct{} // closed at the next change; nil without waiters
}

// New returns an empty set with a number of places.
func New[K comparable, V any](places int) *Set[K, V] {
	return &Set[K, V]{free: places, total: places, items: map[K]V{}}
}

// Reserve waits for a free place, and takes up to most of the free ones. It returns 0 if ctx ends first.
func (s *Set[K, V]) Reserve(ctx context.Context, most int) int {
	for {
		s.mu.Lock()
		if n := min(s.free, most); n > 0 {
			s.free -= n
			s.mu.Unlock()
			return n
		}
		changed := s.changeChannel()
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return 0
		}
	}
}

// Return releases reserved places.
func (s *Set[K, V]) Return(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += n
	s.wakeWaiters()
}

// Put fills a reserved place. If the set already contains the key, it releases the place and returns false.
func (s *Set[K, V]) Put(k K, v V) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.items[k]; ok {
		s.free++
		s.wakeWaiters()
		return false
	}
	s.items[k] = v
	return true
}

// Has reports whether the set contains the key.
func (s *Set[K, V]) Has(k K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.items[k]
	return ok
}

// Remove releases the place of a key. It returns false if the set does not contain it.
func (s *Set[K, V]) Remove(k K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.items[k]; !ok {
		return false
	}
	delete(s.items, k)
	s.free++
	s.wakeWaiters()
	return true
}

// All returns the values in no particular order.
func (s *Set[K, V]) All() []V {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]V, 0, len(s.items))
	for _, v := range s.items {
		list = append(list, v)
	}
	return list
}

// Drain waits until every place is free, or ctx ends.
func (s *Set[K, V]) Drain(ctx context.Context) error {
	for {
		s.mu.Lock()
		if s.free == s.total {
			s.mu.Unlock()
			return nil
		}
		changed := s.changeChannel()
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// changeChannel returns a channel that is closed at the next change. The caller holds the mutex.
func (s *Set[K, V]) changeChannel() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// wakeWaiters wakes waiters. The caller holds the mutex.
func (s *Set[K, V]) wakeWaiters() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}
