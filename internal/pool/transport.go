package pool

import (
	"context"
	"errors"
	"time"
)

// ErrInUse is what Queues.Delete returns of a queue that something is in, or that somebody consumes.
var ErrInUse = errors.New("the queue is in use")

// ErrNoQueue is what Queues.Load returns of a queue that is not there.
var ErrNoQueue = errors.New("there is no such queue")

// Queue is a request queue that is there.
type Queue struct {
	Key   string
	Bound bool // requests of its key come to it
}

// Load is what is in a request queue.
type Load struct {
	Ready     int // requests that no worker has
	Held      int // requests that workers have and have not settled, as far as the transport knows
	Consumers int
}

// Queues are the request queues of a pool, as its transport makes them. Its methods are called from several goroutines, of one
// key only one at a time. Each of them ends with its context, and tries nothing a second time.
type Queues interface {
	// List returns the queues that are there.
	List(ctx context.Context) ([]Queue, error)

	// Open makes the queue of a key if it is not there, and binds it.
	Open(ctx context.Context, key string) error

	// Unbind makes new requests of the key orphans. What is in the queue stays.
	Unbind(ctx context.Context, key string) error

	// Load looks into the queue of a key. Ready and Consumers are as of now, Held may be late.
	Load(ctx context.Context, key string) (Load, error)

	// Delete removes the queue of a key. It returns ErrInUse if it sees that something is in it or somebody consumes it, and
	// otherwise how many requests were lost, which should be none.
	Delete(ctx context.Context, key string) (lost int, err error)

	// Vars returns the variables by which a worker finds the queue of its key.
	Vars(key string) map[string]string
}

// Timing is how the loops of a pool work. Zero values are the defaults.
type Timing struct {
	Interval time.Duration // between two tries of what failed; 500ms if zero
	Call     time.Duration // how long one call of a transport or driver may take; 30s if zero
	Parallel int           // how many such calls go on at a time, in each loop; 16 if zero
	Listing  time.Duration // between two lists of workers when nothing seems to change; 5s if zero

	// Settle is how long an unbound queue must have been empty and without consumers and workers before it is deleted. It covers
	// what the transport learns late: that a dead worker has given back what it had. 10s if zero.
	Settle time.Duration

	// Rest is how long the name of a deleted queue is not used again, in which old consumers go; 1s if zero.
	Rest time.Duration
}

func (t Timing) withDefaults() Timing {
	def := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	def(&t.Interval, 500*time.Millisecond)
	def(&t.Call, 30*time.Second)
	def(&t.Listing, 5*time.Second)
	def(&t.Settle, 10*time.Second)
	def(&t.Rest, time.Second)
	if t.Parallel == 0 {
		t.Parallel = 16
	}
	return t
}
