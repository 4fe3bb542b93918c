package amqplink

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Publisher publishes concurrently with confirms, on a channel of its own. It requires a running Run.
type Publisher struct {
	Conn *Conn
	ch   *amqp091.Channel

	mu   sync.Mutex // publishing is serialized
	last int64      // the number of the last message

	returns chan amqp091.Return
	closed  chan *amqp091.Error // why the channel ended
	ask     chan question
	ended   chan struct{}  // closed when Run has ended
	why     *amqp091.Error // from closed, once Run has ended
}

// question asks Run which of some messages were returned.
type question struct {
	sent   []*Sent
	answer chan map[*Sent]string
}

// NumberHeader numbers the messages of a publisher, so that returned messages can be recognized: returns have
// no tag.
const NumberHeader = "x-rouse-number"

// NewPublisher opens a channel with confirms.
func (c *Conn) NewPublisher(ctx context.Context) (*Publisher, error) {
	ch, err := c.OpenChannel(ctx)
	if err != nil {
		return nil, err
	}
	p := &Publisher{Conn: c, ch: ch, ask: make(chan question), ended: make(chan struct{})}
	// The channel is unbuffered, so that a return has been received before the confirm that follows it.
	p.returns = ch.NotifyReturn(make(chan amqp091.Return))
	p.closed = ch.NotifyClose(make(chan *amqp091.Error, 1))
	defer c.Limit(ctx)()
	if err := ch.Confirm(false); err != nil {
		return nil, fmt.Errorf("ask for confirms: %w", err)
	}
	return p, nil
}

// Run handles returned messages until the channel ends: with its connection, or because an exchange does not
// exist. The client blocks until Run receives them.
func (p *Publisher) Run() {
	defer close(p.ended)
	back := map[int64]string{}
	for {
		select {
		case r, ok := <-p.returns:
			if !ok {
				p.why = <-p.closed // the client has sent it before, or closes it
				return
			}
			if number, ok := r.Headers[NumberHeader].(int64); ok {
				back[number] = r.ReplyText
			}
		case q := <-p.ask:
			found := map[*Sent]string{}
			for _, s := range q.sent {
				if s == nil || s.number == 0 {
					continue
				}
				if why, ok := back[s.number]; ok {
					found[s] = why
					delete(back, s.number)
				}
			}
			q.answer <- found
		}
	}
}

// Broken reports whether the channel has ended: nothing can be published on it.
func (p *Publisher) Broken() bool { return p.ch.IsClosed() }

// TooLarge returns the limit of the broker, in bytes, if the channel has ended because a message was larger.
func (p *Publisher) TooLarge() (limit int, ok bool) {
	if !p.Broken() {
		return 0, false
	}
	<-p.ended
	return SizeLimit(p.why)
}

// sizeLimit is how RabbitMQ reports a message that is larger than max_message_size.
var sizeLimit = regexp.MustCompile(`larger than (?:configured )?max size (\d+)`)

// SizeLimit returns the limit of the broker for the bodies of messages, in bytes, if a channel was closed
// because of it.
func SizeLimit(err *amqp091.Error) (limit int, ok bool) {
	if err == nil || err.Code != amqp091.PreconditionFailed {
		return 0, false
	}
	found := sizeLimit.FindStringSubmatch(err.Reason)
	if found == nil {
		return 0, false
	}
	limit, failed := strconv.Atoi(found[1])
	return limit, failed == nil
}

// FindSizeLimit asks the broker for its limit for the bodies of messages, if it is less than most bytes; 0
// means that it is not, or that the broker does not report it. It publishes a message to a queue that does
// not exist, on a channel which RabbitMQ closes because of the size, and cuts the connection, which must have
// no other use: a broker short of memory would not take the message, nor anything after it.
func (c *Conn) FindSizeLimit(ctx context.Context, most int) (limit int, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var returns sync.WaitGroup
	defer returns.Wait()
	defer c.Cut()
	p, err := c.NewPublisher(ctx)
	if err != nil {
		return 0, err
	}
	returns.Go(p.Run)
	s, err := p.Send("", "rouse-size-limit", false, amqp091.Publishing{Body: make([]byte, most)})
	if err == nil {
		err = s.Confirmed(ctx)
	}
	if limit, ok := p.TooLarge(); ok {
		return limit, nil
	}
	return 0, err
}

// Close closes the channel, and with it Run.
func (p *Publisher) Close(ctx context.Context) error {
	defer p.Conn.Limit(ctx)()
	return p.ch.Close()
}

// Channel returns the channel, for its setup or to watch it.
func (p *Publisher) Channel() *amqp091.Channel { return p.ch }

// Sent is a message that waits for its confirm.
type Sent struct {
	p       *Publisher
	confirm *amqp091.DeferredConfirmation
	number  int64 // 0 if it is not mandatory
}

// Send publishes a message; the broker has accepted it when Confirmed returns. A mandatory message is
// returned if it has no queue.
func (p *Publisher) Send(exchange, key string, mandatory bool, m amqp091.Publishing) (*Sent, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &Sent{p: p}
	if mandatory {
		p.last++
		s.number = p.last
		if m.Headers == nil {
			m.Headers = amqp091.Table{}
		}
		m.Headers[NumberHeader] = s.number
	}
	var err error
	if s.confirm, err = p.ch.PublishWithDeferredConfirm(exchange, key, mandatory, false, m); err != nil {
		return nil, err
	}
	return s, nil
}

// Errors of Confirmed, in addition to the end of its context.
var (
	ErrRefused = errors.New("the queue of the broker refused the message, as full ones do")
	ErrBroken  = errors.New("the connection broke before the broker confirmed a message")
)

// Confirmed waits until the broker has accepted the message. The broker also confirms a message that has no
// queue: Returned reports it, if it was mandatory. Confirmed fails with ErrRefused if the broker refused the
// message, with ErrBroken if the outcome is unknown, and when ctx ends.
func (s *Sent) Confirmed(ctx context.Context) error {
	acked, err := s.confirm.WaitContext(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("wait for the broker's confirm: %w", err)
	case acked:
		return nil
	case s.p.ch.IsClosed() || s.p.Conn.IsClosed(): // at its end the client reports open confirms as refused
		return ErrBroken
	}
	return ErrRefused
}

// Unconfirmed reports whether the broker has not answered yet, and may still do so.
func (s *Sent) Unconfirmed() bool {
	select {
	case <-s.confirm.Done():
		return false
	default:
		return true
	}
}

// Returned reports which of some messages were returned, and why; nil messages were not. Call it once for
// each message, after its confirm.
func (p *Publisher) Returned(sent ...*Sent) map[*Sent]string {
	q := question{sent, make(chan map[*Sent]string, 1)}
	select {
	case p.ask <- q:
		return <-q.answer
	case <-p.ended:
		return nil
	}
}
