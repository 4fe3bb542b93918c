// Package noop is the driver of pools whose workers people start and stop by themselves, as while they are developed: it does
// nothing, and knows of no workers. The pool makes and binds queues as ever, and deletes those that nobody consumes.
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

// List knows of no workers.
func (Driver) List(context.Context) ([]driver.Worker, error) { return nil, nil }

// Changed never has a value.
func (Driver) Changed() <-chan struct{} { return nil }

// Release does nothing.
func (Driver) Release(context.Context) error { return nil }

// Close does nothing.
func (Driver) Close(context.Context) error { return nil }

var _ driver.Driver = Driver{}
