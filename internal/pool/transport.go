package pool

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// ErrInUse is returned by Queues.Delete if the queue contains requests or has consumers.
var ErrInUse = errors.New("the queue is in use")

// ErrNoQueue is returned by Queues.Load if the queue does not exist.
var ErrNoQueue = errors.New("there is no such queue")

// Queue is an existing request queue.
type Queue struct {
	Key   string
	Bound bool // requests of its key are routed to it
}

// Load is the content of a request queue.
type Load struct {
	Ready     int // requests that no worker holds
	Held      int // requests that workers hold and have not settled
	Consumers int
	Unknown   bool // the queue exists, but its requests have not been counted
}

// Queues are the request queues of a pool, implemented by its transport. Methods are called concurrently, but
// one at a time for each key. Each call ends with its context and does not retry.
type Queues interface {
	// List returns the existing queues.
	List(ctx context.Context) ([]Queue, error)

	// Open creates the queue of a key if it does not exist, and binds it.
	Open(ctx context.Context, key string) error

	// Unbind turns new requests of the key into orphans. Requests in the queue stay.
	Unbind(ctx context.Context, key string) error

	// Load inspects the queue of a key. Ready and Consumers are current, Held may be missing: the transport
	// passes the requests of all queues to Term.Loads periodically.
	Load(ctx context.Context, key string) (Load, error)

	// Delete removes the queue of a key. It returns ErrInUse if the queue contains requests or has consumers.
	// Otherwise it returns how many requests were lost, which should be 0.
	Delete(ctx context.Context, key string) (lost int, err error)

	// Vars returns the environment variables with which a worker finds the queue of its key.
	Vars(key string) map[string]string
}

// Timing is the timing of the loops of a pool. Zero values mean the defaults.
type Timing struct {
	Interval time.Duration // backoff after a failed call; 500ms if zero
	Call     time.Duration // timeout of one call of a transport or driver; 30s if zero
	Parallel int           // how many such calls go on at a time, in each loop; 16 if zero
	Listing  time.Duration // interval of lists of workers without reported changes; 5s if zero

	// Settle is how long an unbound queue must have been empty, without consumers and workers, before it is
	// deleted. It covers facts that the transport learns late: that a dead worker returned its requests, and
	// how many requests workers hold. 10s if zero.
	Settle time.Duration

	// Rest is how long the name of a deleted queue is not used again, so that old consumers can end; 1s if
	// zero.
	Rest time.Duration
}

func (t Timing) withTimingDefaults() Timing {
	t.Interval = cmp.Or(t.Interval, 500*time.Millisecond)
	t.Call = cmp.Or(t.Call, 30*time.Second)
	t.Listing = cmp.Or(t.Listing, 5*time.Second)
	t.Settle = cmp.Or(t.Settle, 10*time.Second)
	t.Rest = cmp.Or(t.Rest, time.Second)
	t.Parallel = cmp.Or(t.Parallel, 16)
	return t
}
