package amqp

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/amqplink"
)

// publisher publishes messages that may be too large for a frame.
type publisher struct {
	*amqplink.Publisher
	timeout time.Duration // of a confirm
}

func (c *Controller) newPublisher(ctx context.Context, conn *amqplink.Conn) (*publisher, error) {
	p, err := conn.NewPublisher(ctx)
	if err != nil {
		return nil, err
	}
	return &publisher{p, c.config.Timeout}, nil
}

// errChannel is why a session ends whose broker has closed the channel of a publisher, as it does when an exchange was deleted.
var errChannel = errors.New("the broker has closed the channel that messages are published on")

// run takes what comes back until ctx ends, or nothing can be published any more.
func (p *publisher) run(ctx context.Context) error {
	defer context.AfterFunc(ctx, p.Conn.Cut)()
	p.Run()
	return errChannel
}

// sent is a message on its way to the broker.
type sent struct {
	*amqplink.Sent
	p *publisher
}

// errTooLarge is about one message: the session goes on.
var errTooLarge = errors.New("its headers do not fit into a frame with what is added to them on the way")

// send publishes a message; the broker has it when wait returns. A mandatory message comes back if there is no queue for it. It fails
// with errTooLarge, and publishes nothing, if the message would end the connection.
func (p *publisher) send(exchange, key string, mandatory bool, m amqp091.Publishing) (*sent, error) {
	err := errTooLarge
	if fits(&m, p.Conn.Config.FrameSize) {
		var s *amqplink.Sent
		if s, err = p.Send(exchange, key, mandatory, m); err == nil {
			return &sent{s, p}, nil
		}
	}
	return nil, fmt.Errorf("publish to %q: %w", exchange+"/"+key, err)
}

// wait waits for the confirm. A message for which there is no queue is confirmed as well: returned reports it, if it was mandatory. It
// fails with amqplink.ErrRefused if the broker did not take this message, and otherwise only if the session is about to end.
func (s *sent) wait(ctx context.Context) (returned bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.p.timeout)
	defer cancel()
	if err := s.Confirmed(ctx); err != nil {
		return false, err
	}
	return len(s.p.Returned(s.Sent)) > 0, nil
}

// publish sends a mandatory message and waits for it.
func (p *publisher) publish(ctx context.Context, exchange, key string, m amqp091.Publishing) (returned bool, err error) {
	s, err := p.send(exchange, key, true, m)
	if err != nil {
		return false, err
	}
	return s.wait(ctx)
}

// ownError reports whether an error is about one message alone.
func ownError(err error) bool {
	return errors.Is(err, amqplink.ErrRefused) || errors.Is(err, errTooLarge)
}

// again is a message as it came, to be published once more, without what only its publisher may say, and what the broker writes.
func again(d *amqp091.Delivery) amqp091.Publishing {
	headers := amqp091.Table{}
	for name, value := range d.Headers {
		switch name {
		case "CC", "BCC", "x-delivery-count", amqplink.NumberHeader: // more copies of it; the count of another queue; ours
		default:
			headers[name] = value
		}
	}
	return amqp091.Publishing{Headers: headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode,
		Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageId: d.MessageId,
		Timestamp: d.Timestamp, Type: d.Type, AppId: d.AppId, Body: d.Body}
}

// deathHeaders are those in which the broker writes why and where a message was dead-lettered.
var deathHeaders = []string{"x-death", "x-first-death-reason", "x-first-death-queue", "x-first-death-exchange", "x-last-death-reason",
	"x-last-death-queue", "x-last-death-exchange"}
