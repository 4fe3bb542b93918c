// Package noop is the driver of pools whose workers are started and stopped by hand, for example during
// development: it does nothing, and knows no workers. The pool creates and binds queues as usual, and deletes
// those without consumers.
package noop

import (
	"context"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// Driver does nothing.
type Driver struct{}

// Ensure does nothing.
func (Driver) Ensure(context.Context, driver.Group) error { return nil }

// Drain does nothing.
func (Driver) Drain(context.Context, string) error { return nil }

// List returns no workers.
func (Driver) List(context.Context) ([]driver.Worker, error) { return nil, nil }

// Changed never receives a value.
func (Driver) Changed() <-chan struct{} { return nil }

// Release does nothing.
func (Driver) Release(context.Context) error { return nil }

// Close does nothing.
func (Driver) Close(context.Context) error { return nil }

var _ driver.Driver = Driver{}
