package amqp

import (
	"context"
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/amqplink"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/queue"
	"github.com/rousehq/rouse/internal/queue/internal/held"
)

// maxPrefetch is the largest prefetch of the protocol.
const maxPrefetch = 1<<16 - 1

// receipts are the unsettled deliveries of a consumer, over all its sessions.
type receipts = held.Set[*receipt, struct{}]

// consuming is a session with a consumer.
type consuming struct {
	*session
	deliveries <-chan amqp091.Delivery
}

// tag is the tag of the only consumer of a channel.
const tag = "executor"

func (q *Queue) openConsuming(ctx context.Context, prefetch int) (*consuming, error) {
	ctx, cancel := context.WithTimeout(ctx, q.opts.Timeout)
	defer cancel()
	s, err := q.dialSession(ctx, func(c *amqplink.Conn) (*amqp091.Channel, error) { return c.OpenChannel(ctx) })
	if err != nil {
		return nil, err
	}
	defer s.conn.Limit(ctx)()
	c := &consuming{session: s}
	if err = s.ch.Qos(prefetch, 0, false); err == nil {
		c.deliveries, err = s.ch.Consume(q.opts.Name, tag, false, false, false, false, nil)
	}
	if err != nil {
		s.conn.Cut()
		return nil, fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	return c, nil
}

// Consume consumes in one session after another.
func (q *Queue) Consume(ctx context.Context, prefetch int, handle func(queue.Delivery)) error {
	if err := q.uses.Begin(); err != nil {
		return err
	}
	defer q.uses.Done()
	prefetch = min(prefetch, maxPrefetch)
	take, endTaking := context.WithCancel(ctx)
	defer endTaking()
	defer context.AfterFunc(q.life, endTaking)()

	out := held.New[*receipt, struct{}](prefetch)
	for b := backoff.New(firstWait, longestWait); take.Err() == nil; {
		s, err := q.openConsuming(take, prefetch)
		if err != nil {
			q.pauseAfterError(take, b, err)
			continue
		}
		b.Reset()
		q.serveSession(take, s, out, handle)
	}
	if err := out.Drain(q.life); err != nil || ctx.Err() == nil {
		return queue.ErrClosed
	}
	return nil
}

// serveSession handles the deliveries of a session until it breaks. When ctx ends, it takes no further
// messages, and keeps the session until all its deliveries are settled.
func (q *Queue) serveSession(ctx context.Context, s *consuming, out *receipts, handle func(queue.Delivery)) {
	life, end := context.WithCancel(q.life)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watchConnection(life)
	}()
	defer func() {
		end()
		<-watched
	}()
	take, endTaking := context.WithCancel(ctx)
	defer endTaking()
	go func() {
		<-s.closed
		endTaking()
	}()
	s.handOut(take, out, handle)
	if ctx.Err() == nil {
		return // the session broke
	}
	s.cancelAndRequeue()
	drain, endDrain := context.WithCancel(q.life)
	defer endDrain()
	go func() {
		<-s.closed
		endDrain()
	}()
	if out.Drain(drain) == nil {
		s.leaveBroker()
	}
}

// handOut passes on deliveries, each in a reserved place, until ctx ends.
func (s *consuming) handOut(ctx context.Context, out *receipts, handle func(queue.Delivery)) {
	for out.Reserve(ctx, 1) == 1 {
		select {
		case d, ok := <-s.deliveries:
			if !ok { // the broker cancelled the consumer, as it does if the queue is deleted
				out.Return(1)
				s.conn.Cut()
				return
			}
			r := &receipt{s: s.session, out: out, d: d}
			out.Put(r, struct{}{})
			handle(queue.Delivery{Message: queue.Message{ID: d.MessageId, Body: d.Body}, Deliveries: deliveryCount(&d),
				Receipt: r})
		case <-ctx.Done():
			out.Return(1)
			return
		}
	}
}

// cancelAndRequeue cancels the consumer, and requeues the deliveries that arrive until then.
func (s *consuming) cancelAndRequeue() {
	_ = s.ch.Cancel(tag, true) // if that fails, the session breaks
	for {
		select {
		case d, ok := <-s.deliveries:
			if !ok {
				return
			}
			_ = d.Nack(false, true)
		case <-s.closed:
			return
		}
	}
}

// deliveryCount returns how often a message was delivered. The broker counts unacknowledged deliveries.
func deliveryCount(d *amqp091.Delivery) int {
	switch n := d.Headers["x-delivery-count"].(type) {
	case int64:
		return int(n) + 1
	case int32:
		return int(n) + 1
	}
	if d.Redelivered {
		return 2
	}
	return 1
}

// receipt settles one delivery, on the session that it came from.
type receipt struct {
	s   *session
	out *receipts
	d   amqp091.Delivery
}

func (r *receipt) Ack(context.Context) error {
	return r.endReceipt(func() error { return r.d.Ack(false) })
}

func (r *receipt) Nack(context.Context) error {
	return r.endReceipt(func() error { return r.d.Nack(false, true) })
}

// endReceipt settles with the broker, which does not answer: if the call is lost, the message is delivered
// again.
func (r *receipt) endReceipt(say func() error) error {
	defer r.out.Remove(r)
	if err := say(); err != nil {
		return fmt.Errorf("settle %s: %w: %w", r.d.MessageId, queue.ErrUnavailable, err)
	}
	return nil
}
