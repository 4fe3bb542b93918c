// Package broker is the sink of targets at message brokers: RabbitMQ, NATS and Redis.
//
//	amqp:orders/events/order.due    connection orders: exchange events, routing key order.due
//	nats:orders/orders.due          connection orders: subject orders.due
//	redis:orders/orders-due         connection orders: stream orders-due
//
// A target names a connection that the operator has configured (Connection), never an address: timers
// contain no passwords, and reach only the operator's brokers. Connection.Allow limits the targets of a
// connection. A node is configured with Connections; without a node:
//
//	c := broker.Connection{Name: "orders", URL: "redis://cache.internal"}
//	p, err := broker.Open(c, nil) // the program imports sink/broker/redis
//	s := broker.New()
//	s.Add(c, p)
//
// # Messages
//
// A fire is a CloudEvent 1.0 with the same attributes as in webhooks, in the binary mode of each
// technology, or as JSON if the target ends with "?mode=structured". See the subpackages.
//
// # Outcomes
//
//	the broker confirmed                done
//	the broker refused                  failed, with its code and text; rejected if it would always refuse
//	no confirm within retry.timeout     failed: the broker may have the message
//	the connection broke before that    failed: the broker may have the message
//	no connection                       deferred, without spending an attempt, for up to Connection.Patience
//
// So a message is delivered at least once, with the fire id as its id each time.
//
//	broker.go       the sink                          flight.go    messages in progress, each reported once
//	target.go       targets, and their faults         availability.go  whether a broker is available
//	connection.go   descriptions of brokers           outcome.go   outcomes
package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rousehq/rouse"
)

// Publisher publishes to one broker. It is safe for concurrent use.
type Publisher interface {
	// Check returns the fault of a target of the publisher's scheme, and the cure; wrong is empty if it is
	// valid.
	Check(t *Target) (wrong, cure string)

	// Publish publishes messages, whose targets passed Check, and returns when each is settled on the
	// flight. It may reorder them.
	Publish(ctx context.Context, messages []Message, f *Flight)

	// Obstacle returns the reason why publishing is impossible now; empty if it is possible.
	Obstacle() string

	// Close closes the connections, ends the messages in progress, and waits for them.
	Close() error
}

// Message is a fire for a place at a broker.
type Message struct {
	Fire   *rouse.Fire
	Target Target
}

// Sink is a rouse.Sink for targets at brokers. It is safe for concurrent use.
type Sink struct {
	connections map[string]*connection

	closing sync.Once
	err     error // of closing
}

type connection struct {
	Connection
	kind      string
	publisher Publisher
	under     atomic.Int64 // messages in progress
}

// New returns a sink without connections, which refuses every target.
func New() *Sink { return &Sink{connections: map[string]*connection{}} }

// Add adds a connection, which passed Check, and its publisher, which the sink closes. It is called before
// the sink is used.
func (s *Sink) Add(c Connection, p Publisher) {
	s.connections[c.Name] = &connection{Connection: c.WithDefaults(), kind: c.Kind(), publisher: p}
}

// Lane returns one lane for each place at a broker, so that a full queue delays only its own fires.
func (s *Sink) Lane(_ string, spec *rouse.Spec) rouse.Lane {
	place, _, _ := strings.Cut(spec.Target, "?")
	limit := defaultInFlight
	name, _, _ := strings.Cut(place[strings.IndexByte(place, ':')+1:], "/")
	if c := s.connections[name]; c != nil {
		limit = c.InFlight
	}
	return rouse.Lane{Name: place, Limit: limit, Batch: min(limit, batch)}
}

// batch is how many messages one delivery passes to a publisher.
const batch = 128

// Deliver publishes the fires concurrently and returns when each is reported.
func (s *Sink) Deliver(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	messages, index := make([]Message, 0, len(fires)), make([]int, 0, len(fires))
	var c *connection
	for i := range fires {
		t, err := s.resolveTarget(fires[i].Spec.Target)
		switch {
		case err != nil:
			settle(i, Failed(0, "not sent: "+err.Error()))
		case ctx.Err() != nil:
			settle(i, stopping)
		case c != nil && t.connection != c:
			settle(i, rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBacklog, After: rouse.AtOnce,
				Detail: "not sent: it is for another broker than the rest of its delivery"})
		default:
			c = t.connection
			messages, index = append(messages, Message{&fires[i], t.Target}), append(index, i)
		}
	}
	if c == nil {
		return
	}
	n := int64(len(messages))
	defer c.under.Add(-n)
	if c.under.Add(n) > int64(lanes*c.InFlight) {
		for _, i := range index {
			settle(i, Overloaded(crowded, "as many messages are under way to "+c.Name+" as may be"))
		}
		return
	}
	f := newFlight(messages, func(i int, o rouse.Outcome) { settle(index[i], o) })
	c.publisher.Publish(ctx, messages, f)
}

// lanes is how many lanes of a connection may have all their messages in progress; further ones wait.
const lanes = 16

// Obstacle returns the reason why sending to the broker of the spec's target is impossible now.
func (s *Sink) Obstacle(_ string, spec *rouse.Spec) string {
	t, err := s.resolveTarget(spec.Target)
	if err != nil {
		return printableDetail(err.Error())
	}
	return t.connection.publisher.Obstacle()
}

// Close closes the publishers. It is called after all deliveries ended.
func (s *Sink) Close() error {
	s.closing.Do(func() {
		var errs []error
		for _, name := range slices.Sorted(maps.Keys(s.connections)) {
			if err := s.connections[name].publisher.Close(); err != nil {
				errs = append(errs, fmt.Errorf("broker %s: %w", name, err))
			}
		}
		s.err = errors.Join(errs...)
	})
	return s.err
}
