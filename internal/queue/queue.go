// Package queue is the contract for queues that carry fires from schedulers to executors: durable queues of
// small messages at a broker. Its adapters are queue/amqp (RabbitMQ), queue/jetstream (NATS) and
// queue/redisstream (Redis); each passes queuetest.Run against a real server.
//
//	scheduler ─► Publish ─► confirmed, durable ─► broker ─► Consume ─► handle ─► Ack
//	                                                 ▲                   │ Nack, or the consumer dies
//	                                                 └───────────────────┘ delivered again, Deliveries grows
//
// A confirmed message is delivered until a consumer acknowledges it, as durably as the broker's settings
// guarantee, and with the number of its deliveries. There is no guarantee of order, nor of exactly one
// delivery: an unconfirmed message may have been published, and an acknowledgement may be lost.
package queue

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// Errors of queues wrap one of these.
var (
	// ErrUnavailable: the broker does not answer; the message was not published.
	ErrUnavailable = errors.New("the queue's broker is unavailable")
	// ErrFull: the queue contains the maximum number of messages; the message was not published.
	ErrFull = errors.New("the queue is full")
	// ErrRefused: the broker would refuse the message every time, as one that is too large; it was not
	// published.
	ErrRefused = errors.New("the queue's broker refuses the message")
	// ErrUnconfirmed: the broker did not confirm; the message may have been published.
	ErrUnconfirmed = errors.New("the queue's broker did not confirm")
	// ErrSettings: the broker has something else under the queue's name, or a queue with other settings.
	ErrSettings = errors.New("the queue has other settings")
	// ErrClosed: the queue was closed.
	ErrClosed = errors.New("the queue is closed")
)

// Message is a message in a queue.
type Message struct {
	// ID identifies the message for readers, and for brokers that drop duplicates. It has at most 128 bytes,
	// of letters, digits, "-", "_" and ".", and is unique.
	ID   string
	Body []byte // at most MaxBody bytes; immutable
}

// MaxBody bounds the body of a message, in bytes. It is less than each broker accepts by default.
const MaxBody = 1<<20 - 8<<10

// Publisher publishes messages to a queue.
type Publisher interface {
	// Publish publishes messages, and returns when each is confirmed or has failed. Errors are in the order
	// of the messages; nil means that the broker has confirmed that the message is durable. It waits for an
	// unavailable broker until ctx ends or Options.Timeout has passed. It is safe for concurrent use.
	Publish(ctx context.Context, messages []Message) []error
}

// Consumer consumes messages from a queue.
type Consumer interface {
	// Consume calls handle with deliveries until ctx ends, and returns nil once all of them are settled. An
	// error means that it cannot continue, because the queue was closed (ErrClosed). At most prefetch
	// deliveries are unsettled at the same time. Consume reconnects to the broker as often as necessary.
	//
	// handle must not block for long, and may be called concurrently. Each delivery is settled exactly once,
	// by Ack or Nack. As long as the process lives and reaches the broker, the delivery stays with this
	// consumer, however long it takes (a broker may have its own limit: see the adapter). If the process
	// dies, or the broker loses contact to it, the message is delivered again.
	Consume(ctx context.Context, prefetch int, handle func(Delivery)) error
}

// Delivery is a message delivered to a consumer.
type Delivery struct {
	Message
	Deliveries int // number of deliveries including this one: 1 is the first
	Receipt
}

// Receipt settles a delivery. An error means that the broker may not have processed it: then the message is
// delivered again.
type Receipt interface {
	Ack(ctx context.Context) error  // it is done with
	Nack(ctx context.Context) error // requeue for any consumer
}

// Queue is one queue at a broker.
type Queue interface {
	Publisher
	Consumer

	// Depth returns how many messages are in the queue, including those with consumers if the broker counts
	// them.
	Depth(ctx context.Context) (int64, error)

	// Close ends all calls at once: unsettled messages are delivered again, to others.
	Close() error
}

// Options are the options of all adapters. Zero fields mean the default.
type Options struct {
	// Name is the name of the queue at the broker: letters, digits, "-" and "_". Default "rouse".
	Name string

	// MaxMessages is the capacity of the queue. Further messages are refused with ErrFull, so that the excess
	// waits in the store, and not at the broker. Default 1,000,000.
	MaxMessages int64

	// Timeout is the timeout of one operation at the broker, including the confirm. Default 10 s.
	Timeout time.Duration

	// Failed is called with errors that no call can return, such as a lost connection. It may be called
	// concurrently. Optional.
	Failed func(err error)
}

// WithDefaults returns o with defaults in place of zero fields, or an error with the name of the invalid
// option.
func (o Options) WithDefaults() (Options, error) {
	o.Name = cmp.Or(o.Name, "rouse")
	o.MaxMessages = cmp.Or(o.MaxMessages, 1_000_000)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	return o, o.checkOptions()
}
