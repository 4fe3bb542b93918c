// Package scratch keeps slices for reuse: those of one commit are about as long as those of the last one, and
// a large slice costs the clearing of its memory and its share of a garbage collection.
package scratch

import "sync"

// Slices keeps slices that are not in use. Its zero value is ready, and it is safe for concurrent use.
type Slices[T any] struct{ pool sync.Pool }

// most bounds the elements of a slice that is kept.
const most = 16 << 10

// Take returns a slice of n zero elements.
func (s *Slices[T]) Take(n int) []T {
	if list, ok := s.pool.Get().(*[]T); ok && cap(*list) >= n {
		return (*list)[:n]
	}
	return make([]T, n, max(n, 16))
}

// Give takes back a slice that Take returned and that nothing refers to any more.
func (s *Slices[T]) Give(list []T) {
	if cap(list) == 0 || cap(list) > most {
		return
	}
	clear(list)
	list = list[:0]
	s.pool.Put(&list)
}
