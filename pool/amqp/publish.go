package amqp

import (
	"context"
	"errors"
	"fmt"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// publisher publishes with confirms, mandatory, many at a time.
type publisher struct {
	conn *connection
	ch   *amqp091.Channel
	c    *Controller

	mu sync.Mutex // one publishes at a time

	returns chan amqp091.Return
	ask     chan chan uint64 // how many came back so far; answered by watch
	ended   <-chan struct{}
}

func (c *Controller) newPublisher(ctx context.Context, conn *connection) (*publisher, error) {
	ch, err := conn.channel(ctx)
	if err != nil {
		return nil, err
	}
	p := &publisher{conn: conn, ch: ch, c: c, ask: make(chan chan uint64), ended: ctx.Done()}
	// Without room in the channel, a return has been taken before the confirm that follows it is looked at.
	p.returns = ch.NotifyReturn(make(chan amqp091.Return))
	defer conn.limit(ctx)()
	if err := ch.Confirm(false); err != nil {
		return nil, fmt.Errorf("ask for confirms: %w", err)
	}
	return p, nil
}

// watch counts what comes back, until ctx ends. The client waits for it, so it reads on until the connection is gone.
func (p *publisher) watch(ctx context.Context) {
	var count uint64
	for {
		select {
		case _, ok := <-p.returns:
			if !ok {
				<-ctx.Done()
				return
			}
			count++
		case answer := <-p.ask:
			answer <- count
		case <-ctx.Done():
			p.conn.cut()
			for range p.returns {
			}
			return
		}
	}
}

// returned is how many messages came back so far.
func (p *publisher) returned() uint64 {
	answer := make(chan uint64, 1)
	select {
	case p.ask <- answer:
		return <-answer
	case <-p.ended:
		return 0
	}
}

// sent is a message on its way to the broker.
type sent struct {
	p       *publisher
	confirm *amqp091.DeferredConfirmation
	before  uint64 // how many had come back before it
}

// send publishes a message; the broker has it when wait says so.
func (p *publisher) send(exchange, key string, m amqp091.Publishing) (*sent, error) {
	s := &sent{p: p, before: p.returned()}
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	if s.confirm, err = p.ch.PublishWithDeferredConfirm(exchange, key, true, false, m); err != nil {
		return nil, fmt.Errorf("publish to %q: %w", exchange+"/"+key, err)
	}
	return s, nil
}

// errRefused is that the broker did not confirm.
var errRefused = errors.New("the broker refused a message, or the connection broke before it was confirmed")

// wait waits for the confirm. A message for which there is no queue is confirmed as well: returned says that it came back, or that
// another one did that was on its way at the same time.
func (s *sent) wait(ctx context.Context) (returned bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.p.conn.timeout)
	defer cancel()
	acked, err := s.confirm.WaitContext(ctx)
	switch {
	case err != nil:
		return false, fmt.Errorf("wait for the broker's confirm: %w", err)
	case !acked:
		return false, errRefused
	}
	return s.p.returned() != s.before, nil
}

// publish sends and waits.
func (p *publisher) publish(ctx context.Context, exchange, key string, m amqp091.Publishing) (returned bool, err error) {
	s, err := p.send(exchange, key, m)
	if err != nil {
		return false, err
	}
	return s.wait(ctx)
}

// again is a message as it came, to be published once more, without what only its publisher may say, and what the broker writes.
func again(d *amqp091.Delivery) amqp091.Publishing {
	headers := amqp091.Table{}
	for name, value := range d.Headers {
		switch name {
		case "CC", "BCC", "x-delivery-count": // more copies of it; the count of another queue
		default:
			headers[name] = value
		}
	}
	return amqp091.Publishing{Headers: headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode,
		Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageId: d.MessageId,
		Timestamp: d.Timestamp, Type: d.Type, AppId: d.AppId, Body: d.Body}
}
