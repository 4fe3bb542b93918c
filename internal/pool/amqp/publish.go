package amqp

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/amqplink"
)

// publisher publishes messages and handles those that are too large for a frame.
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

// errChannel ends a session whose broker closed the publisher's channel, as it does if an exchange was
// deleted.
var errChannel = errors.New("the broker has closed the channel that messages are published on")

// handleReturns handles returned messages until ctx ends, or the channel is closed.
func (p *publisher) handleReturns(ctx context.Context) error {
	defer context.AfterFunc(ctx, p.Conn.Cut)()
	p.Run()
	return errChannel
}

// sent is a message that waits for its confirm.
type sent struct {
	*amqplink.Sent
	p *publisher
}

// errTooLarge concerns one message: the session continues.
var errTooLarge = errors.New("its headers do not fit into a frame with those that are added on the way")

// sendMessage publishes a message; wait returns when the broker has accepted it. A mandatory message is
// returned if it has no queue. send fails with errTooLarge, without publishing, if the message would end the
// connection.
func (p *publisher) sendMessage(exchange, key string, mandatory bool, m amqp091.Publishing) (*sent, error) {
	err := errTooLarge
	if fitsFrame(&m, p.Conn.Config.FrameSize) {
		var s *amqplink.Sent
		if s, err = p.Send(exchange, key, mandatory, m); err == nil {
			return &sent{s, p}, nil
		}
	}
	return nil, fmt.Errorf("publish to %q: %w", exchange+"/"+key, err)
}

// waitForConfirm waits for the confirm. The broker also confirms a message that has no queue: returned
// reports it, if it was mandatory. wait fails with amqplink.ErrRefused if the broker refused this message.
// Other errors mean that the session is about to end.
func (s *sent) waitForConfirm(ctx context.Context) (returned bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.p.timeout)
	defer cancel()
	if err := s.Confirmed(ctx); err != nil {
		return false, err
	}
	return len(s.p.Returned(s.Sent)) > 0, nil
}

// publishConfirmed publishes a mandatory message and waits for the confirm.
func (p *publisher) publishConfirmed(ctx context.Context, exchange, key string,
	m amqp091.Publishing) (returned bool, err error) {
	s, err := p.sendMessage(exchange, key, true, m)
	if err != nil {
		return false, err
	}
	return s.waitForConfirm(ctx)
}

// ownError reports whether an error concerns only one message.
func ownError(err error) bool {
	return errors.Is(err, amqplink.ErrRefused) || errors.Is(err, errTooLarge)
}

// withoutBrokerHeaders returns a copy of a message to be published again, without the headers that only its
// publisher or the broker may set.
func withoutBrokerHeaders(d *amqp091.Delivery) amqp091.Publishing {
	headers := amqp091.Table{}
	for name, value := range d.Headers {
		switch name {
		case "CC", "BCC", "x-delivery-count", amqplink.NumberHeader: // more copies; the delivery count of another queue; rouse's number
		default:
			headers[name] = value
		}
	}
	return amqp091.Publishing{Headers: headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		DeliveryMode: d.DeliveryMode,
		Priority:     d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration,
		MessageId: d.MessageId,
		Timestamp: d.Timestamp, Type: d.Type, AppId: d.AppId, Body: d.Body}
}

// deathHeaders are the headers in which the broker records why and where a message was dead-lettered.
var deathHeaders = []string{"x-death", "x-first-death-reason", "x-first-death-queue", "x-first-death-exchange",
	"x-last-death-reason",
	"x-last-death-queue", "x-last-death-exchange"}
