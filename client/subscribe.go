package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// SubscribeOptions select fires, and configure their handling. Zero fields have the defaults that their
// comments name.
type SubscribeOptions struct {
	Namespace  string // default "default"
	Channel    string // of the target, "stream:CHANNEL"
	NamePrefix string // of the timer's name
	Labels     map[string]string

	Concurrency int           // handlers running at a time, for the fires of all nodes; default 16
	Credits     int           // fires of one node that are handled or wait for a handler; default 2·Concurrency
	Drain       time.Duration // how long handlers may go on when ctx ends; default 10 s
	OneNode     bool          // use one node at a time: fires of other nodes are not received

	// Lost is called with each error that ended a stream or kept it from opening, at once, before Subscribe
	// retries, one at a time; default: no call. errors.As finds a *NodeError with the address.
	Lost func(error)
}

// NodeError is why a node's fires do not come now.
type NodeError struct {
	Node    string // its id, if that is known
	Address string
	Err     error
}

func (e *NodeError) Error() string {
	if e.Node == "" {
		return e.Address + ": " + e.Err.Error()
	}
	return "node " + e.Node + " at " + e.Address + ": " + e.Err.Error()
}

func (e *NodeError) Unwrap() error { return e.Err }

func (o SubscribeOptions) withDefaults() SubscribeOptions {
	o.Concurrency = cmp.Or(max(o.Concurrency, 0), 16)
	o.Credits = cmp.Or(max(o.Credits, 0), 2*o.Concurrency)
	o.Drain = cmp.Or(o.Drain, 10*time.Second)
	if o.Lost == nil {
		o.Lost = func(error) {}
	}
	return o
}

// Fire is one occurrence of a timer, at one attempt.
type Fire struct {
	ID          string // the same for every attempt of the occurrence, for ever: the key for deduplication
	Namespace   string
	Name        string
	Generation  uint64
	Due         rouse.Instant
	Attempt     uint32
	Token       uint64 // fencing token: refuse a fire with an older token than one you have seen
	Manual      bool   // asked for by run, not by the schedule
	Last        bool   // no attempt follows this one
	Traceparent string // of the span of this attempt, as W3C defines it; empty without tracing
	Payload     []byte
	ContentType string
	Labels      map[string]string
}

func fireOf(p *rousev1.Fire) Fire {
	return Fire{ID: p.Id, Namespace: p.Namespace, Name: p.Name, Generation: p.Generation, Due: rouse.Instant(p.DueMs),
		Attempt: p.Attempt,
		Token:   p.Token, Manual: p.Manual, Last: p.Last, Payload: p.Payload, ContentType: p.ContentType, Labels: p.Labels,
		Traceparent: p.Traceparent}
}

// Handler does the work of a fire. Nil means that it is done; an error means that it failed, as refined by
// Permanent and RetryAfter. While it runs, the fire's deadline is extended, as far as the service allows. Its
// ctx ends when the stream is lost, because another subscriber gets the fire, and when a drain exceeds its
// limit. A handler that ignores the end of its ctx keeps its place among the Concurrency handlers, and the
// same fire may come again in the meantime.
type Handler func(ctx context.Context, f Fire) error

// Subscribe handles fires until ctx ends, and reconnects with backoff whenever a stream is lost. When ctx
// ends, it accepts no more fires, waits up to Drain for running handlers, settles their fires, and returns
// nil; fires that no handler has started go to another subscriber. It returns an error only if the service
// refuses the subscription.
//
// Of a service of several nodes it keeps a stream to each: it learns of the others from those that it is on,
// follows nodes that come and go, and continues with the others when any of them fails. A fire that a node
// could not finish comes again from another one, with the same id. Other nodes are reached like those that
// Dial was given: over TLS with the same configuration, or in plain text where the caller asked for it, and
// with the same token.
func (c *Client) Subscribe(ctx context.Context, o SubscribeOptions, handle Handler) error {
	return c.Serve(ctx, o, func(ctx context.Context, f Fire) (*Answer, error) { return nil, handle(ctx, f) })
}

// Answer is a handler's result of a fire.
type Answer struct {
	Payload     []byte // at most rouse.MaxPayload bytes
	ContentType string
}

// Answerer is a Handler whose work has an answer, for the client that asked for it. A nil answer means that
// it is done.
type Answerer func(ctx context.Context, f Fire) (*Answer, error)

// Serve is Subscribe for handlers that answer.
func (c *Client) Serve(ctx context.Context, o SubscribeOptions, handle Answerer) error {
	o = o.withDefaults()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := newPool(o.Concurrency, handle)
	defer work.closeWorkers()
	return newFollow(ctx, cancel, c, o, work).followUntilEnd()
}

// isHopeless reports whether an error will be the same next time.
func isHopeless(err error) bool {
	if err == nil || errors.Is(err, rouse.ErrOverloaded) || errors.Is(errorFromGRPC(err), rousev1.ErrUnexpectedAnswer) {
		return false
	}
	st, ok := status.FromError(err)
	if !ok {
		return false
	}
	switch st.Code() {
	case codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
		return true
	}
	return false
}

// callHandler makes a panic of a handler its error: one bad fire does not end the others.
func callHandler(ctx context.Context, handle Answerer, f Fire) (a *Answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			a, err = nil, fmt.Errorf("the handler panicked: %v", p)
		}
	}()
	return handle(ctx, f)
}
