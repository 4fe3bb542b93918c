// Package driver is the contract for drivers, which start the workers of a pool: processes of this machine,
// containers, units, or nothing if workers are started by hand. Package drivertest tests each driver against
// it.
package driver

import (
	"context"
	"time"
)

// Group is the desired state of the workers of a key.
type Group struct {
	Key     string
	Workers int // how many, at least 1

	// Vars are environment variables of its workers, in addition to WORKER_ID, which the driver sets. A value
	// may hold any bytes; a driver that cannot pass one on omits it.
	Vars map[string]string
}

// State is the state of a worker as seen by its driver.
type State string

// The states of workers.
const (
	Running  State = "running"  // it was started
	Waiting  State = "waiting"  // it has ended, and is started again after a pause
	Draining State = "draining" // it was asked to end
)

// Worker is one worker of a driver.
type Worker struct {
	ID       string    `json:"id"`
	Key      string    `json:"key"`
	State    State     `json:"state"`
	Since    time.Time `json:"since"`               // of the state
	Starts   int       `json:"starts"`              // how often it was started
	LastExit string    `json:"last_exit,omitempty"` // how it ended the last time
}

// Pauser is a driver with a backoff before it restarts a worker that ended by itself. It takes hints to
// shorten it.
type Pauser interface {
	// Proved reports that a worker of the key has worked: if it ends now, its start did not fail, and the
	// backoff starts from its initial value.
	Proved(key string)

	// Retry restarts waiting workers soon, because their resources may be available again: their backoff
	// starts from its initial value.
	Retry()
}

// Driver starts and stops the workers of one pool. It is safe for concurrent use; for each key, only one call
// is made at a time.
//
// Ensure and Drain start the transition to a desired state and return: they do not wait for workers to start
// or end. Both are idempotent and do not retry: the caller calls again later. The driver restarts workers
// that end by themselves, with a backoff, so that a worker that cannot start is started a bounded number of
// times.
type Driver interface {
	// Ensure makes the number of workers that are not draining equal to that of the group. Workers that drain
	// continue to do so. Surplus workers are drained. It is called at least once for each key with workers,
	// even if they exist already: a driver whose workers outlive the process replaces those with outdated
	// settings.
	Ensure(ctx context.Context, g Group) error

	// Drain asks all workers of a key to end: to take no further requests, finish the current ones, and exit.
	// After the driver's grace period they are killed.
	Drain(ctx context.Context, key string) error

	// List returns all workers of the pool until they have ended, including draining ones, and those that an
	// earlier process started if they outlive it.
	List(ctx context.Context) ([]Worker, error)

	// Changed receives a value whenever the result of List may have changed. It may be nil if the driver does
	// not know.
	Changed() <-chan struct{}

	// Release is called when another controller leads the pool: it drains the workers that no other process
	// can manage. It does not wait for them.
	Release(ctx context.Context) error

	// Close ends the driver. It drains workers that would end with this process, and waits for them until ctx
	// ends. No other method is called after it.
	Close(ctx context.Context) error
}
