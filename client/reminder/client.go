// Package reminder is the client of the reminder service, for sidecars: it creates reminders, and executes
// them when they are due. The protocol is in api/reminder/v1. Programs without sidecars use package client.
//
//	c, err := reminder.Open("reminders.internal:7411", reminder.Options{
//		App:    "orderapp",
//		Handle: func(ctx context.Context, e reminder.Execution) error { … },
//	})
//	err = c.Ready(ctx)
//	r, err := c.Create(ctx, reminder.Reminder{Name: "pay", InitialDelay: "10m", Metadata: map[string]string{"order": "17"}})
//
// One address is enough: a client discovers all instances of the service, keeps a stream to each, which
// delivers executions, and follows instances that start and stop. It has the table of buckets and their
// instances: it creates a reminder at an instance that shares a bucket with it, and reads a reminder where
// it is.
//
//	address ─► register ─► instances ─► a link to each ─► stream ─► table, executions
//	                                         ▲                          │
//	                                         └── instances of the table ┘
//
// Errors are those of package rouse: errors.Is finds rouse.ErrNotFound, ErrUnavailable and others in them,
// errors.As finds a *rouse.Invalid with each problem of an input, and a *rouse.RetryAfter if the service
// returned a delay for a retry. status.FromError of gRPC finds the original status.
//
// Calls are retried with backoff while the service is unavailable or asks for it, until ctx ends, and for
// at most Options.Patience. Create is not retried if it may have created a reminder; the other calls are
// idempotent.
package reminder

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/grpclink"
)

// Options identify and configure a sidecar. Zero fields have the defaults in their comments.
type Options struct {
	App string // the id of the app; required
	// identifies the sidecar within its app; it is never dialled; default the host's name and random letters
	Address string
	Handle  Handler // executes reminders; required

	// ActorTypes makes the sidecar a host of actors of these types: it executes the reminders of the actors
	// that it hosts. If the actor is on another host, the execution fails without calling the handler, and is
	// repeated there.
	ActorTypes []string

	Concurrency int // handlers running at a time, for the streams of all instances; default 16
	InHand      int // executions of one stream that run or wait for a handler; default 2·Concurrency
	// executions that were done and are answered again without a handler if they come again; default 10,000,
	// below 0 none
	Remember int
	Drain    time.Duration // how long handlers may go on when Close is called; default 10 s
	Patience time.Duration // how long a call is tried again; default 30 s

	TLS *tls.Config // set: TLS with this configuration, for any form of target
	// set: TLS, and this PEM file has the authorities of the service's certificate, not the system
	CA   string
	Cert string // set: TLS, and this PEM file has the certificate of this client
	// its private key, in PEM; the three files are read for each connection, and do not go with TLS
	Key      string
	Insecure bool              // no TLS to other hosts; an http:// target means the same
	Token    string            // sent with every call as a bearer token; to another host only under TLS
	Dial     []grpc.DialOption // further options of gRPC

	// Lost is called with each error that ended a stream or kept it from opening, before the retry, one at a
	// time; default: no call. errors.As finds an *InstanceError with the address. It must not call Close.
	Lost func(error)
}

// InstanceError is why there is no stream to an instance now.
type InstanceError struct {
	Address string
	Err     error
}

func (e *InstanceError) Error() string { return e.Address + ": " + e.Err.Error() }

func (e *InstanceError) Unwrap() error { return e.Err }

func (o Options) withDefaults() (Options, error) {
	if o.App == "" {
		return o, errors.New("reminder: Options.App is missing: give the id of the app")
	}
	if o.Handle == nil {
		return o, errors.New("reminder: Options.Handle is missing: reminders that are due come to every sidecar of the app")
	}
	if o.Address == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "sidecar"
		}
		o.Address = host + "-" + strings.ToLower(rand.Text()[:8])
	}
	o.Concurrency = cmp.Or(max(o.Concurrency, 0), 16)
	o.InHand = cmp.Or(max(o.InHand, 0), 2*o.Concurrency)
	o.Remember = cmp.Or(o.Remember, 10_000)
	o.Drain = cmp.Or(o.Drain, 10*time.Second)
	o.Patience = cmp.Or(o.Patience, 30*time.Second)
	if o.Lost == nil {
		o.Lost = func(error) {}
	}
	return o, nil
}

// Client is a sidecar. It is safe for concurrent use.
type Client struct {
	o      Options
	caller *reminderv1.Caller
	seeds  []grpclink.Address
	hand   *hand
	actors *actors

	ctx     context.Context // of links; ends when the client closes
	end     context.CancelFunc
	running sync.WaitGroup // links
	closing sync.Once

	hosting  sync.WaitGroup // the goroutine that keeps the sidecar known as a host of actors, which ends before the links
	hostStop context.CancelFunc

	telling sync.Mutex // one Lost at a time

	mu        sync.Mutex
	links     map[string]*link // by address
	known     []string         // addresses of the instances
	bad       map[string]bool  // reported addresses that are malformed
	table     *Table           // nil: none has come
	floor     uint64           // a table with a smaller generation is an old one
	heartbeat time.Duration
	refused   error         // why the service refuses all streams
	over      bool          // the client closes
	changed   chan struct{} // closed, and made again, when anything above changes
	turn      int           // of the bucket of the next reminder
}

// Open returns a client of the service at a target: "host:port", "http://host:port", "https://host:port", or
// any target that gRPC knows; or several of them, of instances of one service, with commas between. Without a
// scheme, this host is talked to in plain text and others under TLS; instances that are learned are talked to
// as those that were given. Connections are made in the background: see Ready. Close ends it.
func Open(target string, o Options) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{o: o, caller: &reminderv1.Caller{AppId: o.App, Address: o.Address}, links: map[string]*link{},
		bad: map[string]bool{}, heartbeat: defaultHeartbeat, changed: make(chan struct{})}
	if c.seeds, err = seedsOf(target, o); err != nil {
		return nil, err
	}
	c.actors = newActors()
	if len(o.ActorTypes) > 0 {
		o.Handle = c.handleHere(o.Handle)
	}
	c.hand = newHand(o)
	c.ctx, c.end = context.WithCancel(context.Background())
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.seeds {
		conn, err := newConnection(s, o)
		if err != nil {
			c.end()
			for _, l := range c.links {
				l.stop()
			}
			return nil, err
		}
		c.startSidecarLink(&link{address: s.Target, given: true, conn: conn})
	}
	hostCtx, stop := context.WithCancel(c.ctx)
	if c.hostStop = stop; len(o.ActorTypes) > 0 {
		c.hosting.Go(func() { c.hostLoop(hostCtx) })
	}
	return c, nil
}

// Address returns the name that identifies this sidecar within its app.
func (c *Client) Address() string { return c.o.Address }

// Ready waits until the service can be used: until it has received the first table and, with ActorTypes, the
// first list of hosts. It returns an error if the service refuses the sidecar, the client closes, or ctx
// ends; in the last case errors.Is finds ctx's error. Options.Lost gets the latest error of each address.
func (c *Client) Ready(ctx context.Context) error {
	for {
		c.mu.Lock()
		table, refused, over, changed := c.table, c.refused, c.over, c.changed
		hosts := len(c.o.ActorTypes) == 0 || c.actors.knowsHosts()
		c.mu.Unlock()
		switch {
		case refused != nil:
			return refused
		case over:
			return errClosed
		case table != nil && hosts:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no table of the reminder service has come: %w", ctx.Err())
		case <-changed:
		}
	}
}

var errClosed = fmt.Errorf("the reminder client: %w", rouse.ErrClosed)

// Close accepts no more executions, waits up to Options.Drain for running handlers, reports their outcomes,
// and closes all streams and connections. Executions that no handler has started go to other sidecars of the
// app. After Drain, the handlers' ctx is cancelled, and Close still waits for them. It may be called more
// than once, and always waits.
func (c *Client) Close() error {
	c.closing.Do(func() {
		c.hand.drainHandlers(c.o.Drain)
		c.hostStop()
		c.hosting.Wait()
		c.mu.Lock()
		c.over = true
		c.announceChange()
		c.mu.Unlock()
		c.end()
		c.running.Wait()
	})
	return nil
}

// Table returns the table that came last. It is not to be changed. Before the first one it is empty.
func (c *Client) Table() *Table {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.table == nil {
		return &Table{}
	}
	return c.table
}

// announceChange wakes waiters after a change. The mutex is held.
func (c *Client) announceChange() {
	close(c.changed)
	c.changed = make(chan struct{})
}
