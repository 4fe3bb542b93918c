// Package queue is the contract of what carries fires from schedulers to executors: a durable queue of small messages, at a
// broker that both reach. Its adapters are queue/amqp (RabbitMQ), queue/jetstream (NATS) and queue/redisstream (Redis); each
// passes queuetest.Run against a real server.
//
//	scheduler ─► Publish ─► confirmed, durable ─► broker ─► Consume ─► handle ─► Ack
//	                                                 ▲                   │ Nack, or the consumer dies
//	                                                 └───────────────────┘ delivered again, Deliveries grows
//
// It promises that a confirmed message is delivered until somebody acknowledges it, as durably as the broker's settings say, and
// says how often it was delivered. It does not promise order, nor that a message comes once: a publisher that saw no confirm may
// have published, and an acknowledgement may be lost on its way.
package queue

import (
	"context"
	"errors"
	"time"
)

// What can go wrong at a broker. Errors wrap one of these.
var (
	// ErrUnavailable: the broker does not answer; the message was not published.
	ErrUnavailable = errors.New("the queue's broker is unavailable")
	// ErrFull: the queue holds as many messages as it may; the message was not published.
	ErrFull = errors.New("the queue is full")
	// ErrUnconfirmed: the broker did not confirm; the message may have been published.
	ErrUnconfirmed = errors.New("the queue's broker did not confirm")
	// ErrSettings: what is at the broker under the queue's name is something else, or has other settings.
	ErrSettings = errors.New("the queue has other settings")
	// ErrClosed: the queue was closed.
	ErrClosed = errors.New("the queue is closed")
)

// Message is what a queue carries.
type Message struct {
	// ID tells people, and brokers that leave out what was published twice, which message it is. It has at most 128 bytes, of
	// letters, digits, "-", "_" and ".", and differs between messages.
	ID   string
	Body []byte // at most MaxBody bytes; not changed by anybody
}

// MaxBody bounds the body of a message, in bytes. It is less than what each broker takes with its default settings.
const MaxBody = 1<<20 - 8<<10

// Publisher puts messages into a queue.
type Publisher interface {
	// Publish publishes messages and returns when each is confirmed or has failed: the errors are in the order of the messages, nil
	// where the broker has confirmed that the message is durable. It waits for a broker that is away, until ctx ends or
	// Options.Timeout has passed. It may be called concurrently.
	Publish(ctx context.Context, messages []Message) []error
}

// Consumer takes messages out of a queue.
type Consumer interface {
	// Consume calls handle with deliveries until ctx ends, and returns nil once all of them are settled; an error means that it
	// cannot go on, as the queue was closed (ErrClosed). At most prefetch deliveries are handed out and not settled at a time. When
	// the broker goes away, it comes back to it for as long as that takes.
	//
	// handle does not block for long, and may be called concurrently. Each delivery is settled exactly once, by its Ack or Nack. As
	// long as the process lives and reaches the broker, the delivery stays with this consumer, however long that takes (a broker
	// may have a bound of its own: see the adapter). If the process dies, or the broker has lost sight of it, it is delivered again.
	Consume(ctx context.Context, prefetch int, handle func(Delivery)) error
}

// Delivery is a message on its way to a consumer.
type Delivery struct {
	Message
	Deliveries int // how often it was delivered, this time included: 1 is the first
	Receipt
}

// Receipt settles a delivery. An error says that the broker was not told, or not for sure: then the message is delivered again.
type Receipt interface {
	Ack(ctx context.Context) error  // it is done with
	Nack(ctx context.Context) error // it is to be delivered again, to anybody
}

// Queue is one queue at a broker.
type Queue interface {
	Publisher
	Consumer

	// Depth returns how many messages are in the queue, those included that are with consumers where the broker can tell.
	Depth(ctx context.Context) (int64, error)

	// Close ends all that goes on, at once: what is not settled is delivered again, to others.
	Close() error
}

// Options are what all adapters have in common. Zero fields have the defaults that their comments name.
type Options struct {
	// Name is the name of the queue at the broker: letters, digits, "-" and "_". Default "rouse".
	Name string

	// MaxMessages is how many messages the queue may hold; more are refused with ErrFull, so that what is too much waits in the
	// store, and not at the broker. Default 1,000,000.
	MaxMessages int64

	// Timeout is how long one exchange with the broker may take, the wait for a confirm included. Default 10 s.
	Timeout time.Duration

	// Failed is told what went wrong where no caller can be told, such as a connection that broke. It may be called from any
	// goroutine. Nil tells nobody.
	Failed func(err error)
}

// WithDefaults returns o with defaults in place of zero fields, or an error that names the option that is wrong.
func (o Options) WithDefaults() (Options, error) {
	if o.Name == "" {
		o.Name = "rouse"
	}
	if o.MaxMessages == 0 {
		o.MaxMessages = 1_000_000
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	return o, o.check()
}
