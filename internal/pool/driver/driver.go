// Package driver is the contract of what starts the workers of a pool: processes of this machine, containers, units, or
// nothing at all where people start them. pool/driver/drivertest holds each of them to it.
package driver

import (
	"context"
	"time"
)

// Group says what workers there should be for a key.
type Group struct {
	Key     string
	Workers int // how many, at least 1

	// Vars are the variables that its workers get in their environment, beside WORKER_ID, which the driver gives each of them. A
	// value may hold any bytes; a driver that cannot hand one on leaves it out.
	Vars map[string]string
}

// State is what a worker does, as far as its driver can see.
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
	LastExit string    `json:"last_exit,omitempty"` // how it ended the last time, in words
}

// Pauser is a driver that pauses before it starts a worker again that ended by itself, and takes hints when it need not.
type Pauser interface {
	// Proved says that a worker of the key has worked: if it ends now, that was no start that failed, and the first pause is enough.
	Proved(key string)

	// Retry starts workers soon that wait, as what they need may be back: their pauses begin from the first one.
	Retry()
}

// Driver starts and stops the workers of one pool. It is safe for concurrent use; of one key, only one call is made at a time.
//
// Ensure and Drain say what should be and return as soon as that is on its way: neither waits for a worker to come up or to
// end. Both are idempotent, and neither tries again by itself: who calls does, later. What a worker of a driver needs to come
// back after it has ended, and the pauses in between, are the driver's matter, so that a worker that cannot start is started a
// bounded number of times.
type Driver interface {
	// Ensure makes it so that the group has its number of workers that are not draining. Those that drain go on doing so, beside
	// the others. More workers than that are drained. It is called once at least for each key that is to have workers, also when
	// they are there already: a driver whose workers outlive the process replaces those that its settings want otherwise by now.
	Ensure(ctx context.Context, g Group) error

	// Drain asks all workers of a key to end: to take no more work, finish what they have, and exit. Those that do not within the
	// driver's own time are killed.
	Drain(ctx context.Context, key string) error

	// List returns all workers of the pool, also those that an earlier process has started if they outlive it, and those that
	// drain, until they have ended.
	List(ctx context.Context) ([]Worker, error)

	// Changed has a value whenever List may give something else than it did. It may be nil if the driver cannot tell.
	Changed() <-chan struct{}

	// Release is called when another controller leads the pool: workers that nobody else can look after are drained. It does not
	// wait for them.
	Release(ctx context.Context) error

	// Close ends the driver. Workers that would end with this process are drained and waited for; ctx ends the patience with
	// them. No other method is called after it.
	Close(ctx context.Context) error
}
