// Package amqp is a queue in RabbitMQ (3.8 or later): a durable quorum queue, whose messages are on the disks
// of most of its replicas before they are confirmed.
//
//	Publish   to the default exchange, mandatory, persistent, confirmed; many in flight   (publish.go)
//	Consume   with the broker's own prefetch, on a connection of its own                  (consume.go)
//	session   a connection and a channel, made again whenever it breaks                   (session.go, link.go)
//
// RabbitMQ counts deliveries (x-delivery-count) and would drop a message after a number of them
// (delivery-limit, 20 by default from 4.0 on). Here the limit is never reached: the consumer counts. RabbitMQ
// closes the channel of a consumer that has not settled a message within its consumer_timeout (30 minutes by
// default), and delivers its messages to others: set the timeout to more than the longest attempt takes.
//
// RabbitMQ 3.10, and maybe other versions, persist a new queue only a moment after the answer. If the broker
// is killed within the first second of a queue's life, the queue has no leader after the restart: it confirms
// nothing, and must be deleted.
package amqp

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/amqplink"
	"github.com/rousehq/rouse/internal/queue"
)

// Options are the options of all queues.
type Options struct{ queue.Options }

// deliveryLimit is never reached. There is no argument for "no limit" that all versions of RabbitMQ accept,
// and a queue's arguments must not change.
const deliveryLimit = 1_000_000

// Queue is safe for concurrent use.
type Queue struct {
	opts    Options
	address string
	host    string // of the address, for errors

	publisher *link
	limit     atomic.Int64 // the broker has refused a larger body; 0 if none

	life context.Context // until Close
	end  context.CancelFunc
	uses queue.Uses // of links and consumers
}

// Open connects to the RabbitMQ of a URL (amqp:// or amqps://, with user, password and virtual host),
// declares the queue, and fails if it exists with other arguments.
func Open(ctx context.Context, address string, o Options) (*Queue, error) {
	var err error
	if o.Options, err = o.Options.WithDefaults(); err != nil {
		return nil, err
	}
	host, err := amqplink.Host(address)
	if err != nil {
		return nil, rouse.Refuse("queue.url", "", "is no URL of a RabbitMQ: "+err.Error(),
			"write one such as amqp://user:password@host:5672/vhost")
	}
	q := &Queue{opts: o, address: address, host: host}
	q.life, q.end = context.WithCancel(context.Background())
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	first, err := q.openPublishing(ctx)
	if err != nil {
		q.end()
		return nil, fmt.Errorf("open the queue %s in RabbitMQ at %s: %w", o.Name, q.host, err)
	}
	q.publisher = &link{q: q}
	q.publisher.setSession(first, nil)
	q.uses.Go(func() { q.publisher.keepSessions(first) })
	return q, nil
}

// declareQueue declares the queue.
func (q *Queue) declareQueue(ch *amqp091.Channel) error {
	_, err := ch.QueueDeclare(q.opts.Name, true, false, false, false, amqp091.Table{
		amqp091.QueueTypeArg:     amqp091.QueueTypeQuorum,
		amqp091.QueueMaxLenArg:   q.opts.MaxMessages,
		amqp091.QueueOverflowArg: amqp091.QueueOverflowRejectPublish,
		"x-delivery-limit":       int64(deliveryLimit),
	})
	var answer *amqp091.Error
	if errors.As(err, &answer) && answer.Code == amqp091.PreconditionFailed {
		return fmt.Errorf("%w: %s; give the queue another name, or delete it when it is empty", queue.ErrSettings,
			answer.Reason)
	}
	if err != nil {
		return fmt.Errorf("declare the queue: %w: %w", queue.ErrUnavailable, err)
	}
	return nil
}

// Depth returns how many messages in the queue are not with consumers.
func (q *Queue) Depth(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, q.opts.Timeout)
	defer cancel()
	p, err := q.publisher.awaitSession(ctx)
	if err != nil {
		return 0, err
	}
	return p.queueDepth(ctx, q.opts.Name)
}

// Close ends all consumers and connections.
func (q *Queue) Close() error {
	if !q.uses.Close() {
		return nil
	}
	q.end()
	q.uses.Wait()
	return nil
}

var _ queue.Queue = (*Queue)(nil)
