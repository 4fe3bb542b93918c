package server

import (
	"context"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/internal/transport"
)

// Timers is the interface of timers.Guarded that the server needs. Each operation has one file here, with its
// checks, its gRPC method, the HTTP handler that is not generated, and its part of this interface.
type Timers interface {
	createOps
	timerOps
	listOps
	deadOps
	reportOps
	editOps
	importOps
	recordOps
	badgeOps
	aggregateOps
	fireOps
	planOps
	bulkOps
	jobOps
	calendarOps
	Now() rouse.Instant
	DecidesByCaller() // only timers with access control have it
}

var _ Timers = timers.Guarded{}

// defaultNamespace is the namespace of a gRPC request that has none.
const defaultNamespace = "default"

// service is the protocol-independent implementation behind HTTP and gRPC. It makes the checks that the
// engine does not, generates names, pages lists, and sheds overload.
type service struct {
	timers  Timers
	opts    *Options
	refused *transport.Refusals
	conns   *transport.Conns  // of the API
	memory  *transport.Budget // of requests that are being received and handled

	// Places that all callers share; see slots.
	writes   *slots // timers that are being written, by weight
	reads    *slots // lists and histories that are being read
	follow   *slots // followers
	bulks    *slots // requests that change many timers
	simulate *slots // simulations
	calls    *slots // requests to pools that wait for their answers
	logins   *slots // logins that ask their issuer
	open     *slots // calls that need no credentials

	// Operations that run once at a time, by callers with rights in all of the store only.
	copying sync.Mutex // held during a backup
	moving  sync.Mutex // held during a move of the clock
	moved   moved      // guarded by moving

	started  rouse.Instant
	draining context.Context // ends when the server begins to stop, and with it everything without an end of its own
}

const (
	maxReads       = 64
	maxFollowers   = 256
	maxBulks       = 8
	maxSimulations = 4
	maxLogins      = 16
	maxOpen        = 4096

	// Every weightBytes of payload weigh as much as a timer, so that writes bounds memory too: 16,384
	// timers or 64 MiB.
	weightBytes = 4096

	// again is when a client should retry a request that was shed.
	again = transport.RetryAfter
)

func newService(o *Options, draining context.Context) *service {
	refused := transport.NewRefusals(o.Log, o.Refused)
	conns := transport.NewConns(limitConns, o.MaxConns, o.MaxConnsAddress, refused)
	return &service{timers: o.Timers, opts: o, refused: refused, conns: conns,
		memory: transport.NewBudget(o.RequestMemory, conns, refused),
		writes: newSlots("writes", o.MaxInFlight), reads: newSlots("reads", maxReads),
		follow: newSlots("followers", maxFollowers),
		bulks:  newSlots("bulks", maxBulks), simulate: newSlots("simulations", maxSimulations),
		calls:  newSlots("calls", maxCalls),
		logins: newSlots("logins", maxLogins), open: newSlots("open", maxOpen), started: rouse.Reached(time.Now()),
		draining: draining}
}

// accessControl returns the rights of callers; nil: they may do everything.
func (s *service) accessControl() *access.Control {
	if s.opts.Access == nil {
		return nil
	}
	return s.opts.Access.Control
}

// untilDrained returns a context for long requests: it ends with ctx, or when the server begins to stop.
func (s *service) untilDrained(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.draining, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// drainError returns the error of a call that used such a context.
func (s *service) drainError(err error) error {
	if err != nil && s.draining.Err() != nil {
		return rouse.ErrClosed
	}
	return err
}

// admitOrShed admits puts or sheds them; the caller gives the returned places back. With wait it blocks
// instead of shedding: for streams, whose flow control then slows down the client.
func (s *service) admitOrShed(ctx context.Context, puts []timers.Put, wait bool) (places, error) {
	var weight int64
	for i := range puts {
		weight += 1 + int64(len(puts[i].Spec.Payload)/weightBytes)
	}
	if wait {
		return s.writes.awaitMany(ctx, weight)
	}
	return s.writes.takeMany(ctx, weight)
}
