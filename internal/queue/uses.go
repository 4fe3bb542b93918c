package queue

import "sync"

// Uses counts the users of a queue until it is closed. The zero value is open.
type Uses struct {
	mu     sync.Mutex // guards closed, and Add against it
	closed bool
	sync.WaitGroup
}

// Begin registers a use, which ends with Done. It fails with ErrClosed if the queue is closed.
func (u *Uses) Begin() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return ErrClosed
	}
	u.Add(1)
	return nil
}

// Close allows no further use. It returns false if the queue was closed before.
func (u *Uses) Close() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	was := u.closed
	u.closed = true
	return !was
}
