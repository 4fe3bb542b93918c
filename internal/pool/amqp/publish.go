package amqp

import (
	"context"
	"errors"
	"fmt"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// publisher publishes with confirms, many messages at a time, on a channel of its own.
type publisher struct {
	conn *connection
	ch   *amqp091.Channel

	mu   sync.Mutex // one publishes at a time
	last int64      // the number of the last mandatory message

	returns chan amqp091.Return
	ask     chan question
	ended   <-chan struct{}
}

// question asks watch whether a mandatory message came back.
type question struct {
	number int64
	answer chan bool
}

// numberHeader numbers the mandatory messages of a publisher, so that one that comes back is recognized: returns have no tag.
const numberHeader = "x-rouse-number"

func (c *Controller) newPublisher(ctx context.Context, conn *connection) (*publisher, error) {
	ch, err := conn.channel(ctx)
	if err != nil {
		return nil, err
	}
	p := &publisher{conn: conn, ch: ch, ask: make(chan question), ended: ctx.Done()}
	// Without room in the channel, a return has been taken before the confirm that follows it is looked at.
	p.returns = ch.NotifyReturn(make(chan amqp091.Return))
	defer conn.limit(ctx)()
	if err := ch.Confirm(false); err != nil {
		return nil, fmt.Errorf("ask for confirms: %w", err)
	}
	return p, nil
}

// watch takes what comes back, until ctx ends. The client waits for it, so it reads on until the connection is gone.
func (p *publisher) watch(ctx context.Context) {
	back := map[int64]bool{}
	for {
		select {
		case r, ok := <-p.returns:
			if !ok {
				<-ctx.Done()
				return
			}
			if number, ok := r.Headers[numberHeader].(int64); ok {
				back[number] = true
			}
		case q := <-p.ask:
			q.answer <- back[q.number]
			delete(back, q.number)
		case <-ctx.Done():
			p.conn.cut()
			for range p.returns {
			}
			return
		}
	}
}

// returned says whether a mandatory message came back. It is asked once, when the message was confirmed.
func (p *publisher) returned(number int64) bool {
	q := question{number, make(chan bool, 1)}
	select {
	case p.ask <- q:
		return <-q.answer
	case <-p.ended:
		return false
	}
}

// sent is a message on its way to the broker.
type sent struct {
	p       *publisher
	confirm *amqp091.DeferredConfirmation
	number  int64 // 0 if it is not mandatory
}

// Errors about one message: the session goes on.
var (
	errRefused  = errors.New("the queue of the broker refused the message, as full ones do")
	errTooLarge = errors.New("its headers do not fit into a frame with what is added to them on the way")
)

// send publishes a message; the broker has it when wait returns. A mandatory message comes back if there is no queue for it. It fails
// with errTooLarge, and publishes nothing, if the message would end the connection.
func (p *publisher) send(exchange, key string, mandatory bool, m amqp091.Publishing) (*sent, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &sent{p: p}
	if mandatory {
		p.last++
		s.number = p.last
		if m.Headers == nil {
			m.Headers = amqp091.Table{}
		}
		m.Headers[numberHeader] = s.number
	}
	if !fits(&m, p.conn.Config.FrameSize) {
		return nil, fmt.Errorf("publish to %q: %w", exchange+"/"+key, errTooLarge)
	}
	var err error
	if s.confirm, err = p.ch.PublishWithDeferredConfirm(exchange, key, mandatory, false, m); err != nil {
		return nil, fmt.Errorf("publish to %q: %w", exchange+"/"+key, err)
	}
	return s, nil
}

// errBroken is that the connection broke before a confirm came.
var errBroken = errors.New("the connection broke before the broker confirmed a message")

// wait waits for the confirm. A message for which there is no queue is confirmed as well: returned reports it, if it was mandatory. It
// fails with errRefused if the broker did not take this message, and otherwise only if the session is about to end.
func (s *sent) wait(ctx context.Context) (returned bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.p.conn.timeout)
	defer cancel()
	acked, err := s.confirm.WaitContext(ctx)
	switch {
	case err != nil:
		return false, fmt.Errorf("wait for the broker's confirm: %w", err)
	case !acked && s.p.ch.IsClosed():
		return false, errBroken
	case !acked:
		return false, errRefused
	}
	return s.number != 0 && s.p.returned(s.number), nil
}

// publish sends a mandatory message and waits for it.
func (p *publisher) publish(ctx context.Context, exchange, key string, m amqp091.Publishing) (returned bool, err error) {
	s, err := p.send(exchange, key, true, m)
	if err != nil {
		return false, err
	}
	return s.wait(ctx)
}

// ownError says whether an error is about one message alone.
func ownError(err error) bool { return errors.Is(err, errRefused) || errors.Is(err, errTooLarge) }

// again is a message as it came, to be published once more, without what only its publisher may say, and what the broker writes.
func again(d *amqp091.Delivery) amqp091.Publishing {
	headers := amqp091.Table{}
	for name, value := range d.Headers {
		switch name {
		case "CC", "BCC", "x-delivery-count", numberHeader: // more copies of it; the count of another queue; ours
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
