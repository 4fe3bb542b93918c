package amqp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/amqplink"
	"github.com/rousehq/rouse/internal/queue"
)

// publishing is a session for publishing.
type publishing struct {
	*session
	out     *amqplink.Publisher
	deleted atomic.Bool // the queue was deleted
	doubted atomic.Bool // a confirm is awaited for which its caller did not wait long enough
}

func (q *Queue) openPublishing(ctx context.Context) (*publishing, error) {
	p := &publishing{}
	s, err := q.dialSession(ctx, func(c *amqplink.Conn) (ch *amqp091.Channel, err error) {
		if p.out, err = c.NewPublisher(ctx); err != nil {
			return nil, err
		}
		return p.out.Channel(), nil
	})
	if err != nil {
		return nil, err
	}
	p.session = s
	return p, nil
}

// watchPublishing waits for the end of the session.
func (p *publishing) watchPublishing(life context.Context) {
	var returns sync.WaitGroup
	returns.Go(p.out.Run)
	p.session.watchConnection(life)
	returns.Wait()
}

// Publish publishes all messages concurrently, and waits for their confirms. RabbitMQ closes the channel of a
// message that is too large, with all messages in progress on it: they are published again, and the one that
// is too large alone.
func (q *Queue) Publish(ctx context.Context, messages []queue.Message) []error {
	errs := make([]error, len(messages))
	ctx, cancel := context.WithTimeoutCause(ctx, q.opts.Timeout, errSlow)
	defer cancel()
	left := make([]int, 0, len(messages))
	for i := range messages {
		if errs[i] = messages[i].Check(); errs[i] == nil {
			left = append(left, i)
		}
	}
	for len(left) > 0 {
		p, err := q.publisher.awaitSession(ctx)
		if err != nil {
			for _, i := range left {
				errs[i] = err
			}
			return errs
		}
		limit := int(q.limit.Load())
		var together, alone, failed []int
		for _, i := range left {
			if limit > 0 && len(messages[i].Body) > limit {
				alone = append(alone, i)
			} else {
				together = append(together, i)
			}
		}
		for n, err := range p.publishAndConfirm(ctx, q, p.out, pickMessages(messages, together)) {
			if errs[together[n]] = err; err != nil {
				failed = append(failed, together[n])
			}
		}
		if limit, ok := p.out.TooLarge(); ok {
			q.limit.Store(int64(limit))
			left = append(failed, alone...)
			continue
		}
		left = nil
		for _, i := range alone { // after the others, which do not wait for it
			if errs[i] = notSent(ctx); errs[i] == nil {
				errs[i] = p.publishAlone(ctx, q, messages[i])
			}
		}
	}
	return errs
}

func pickMessages(messages []queue.Message, index []int) []queue.Message {
	list := make([]queue.Message, len(index))
	for n, i := range index {
		list[n] = messages[i]
	}
	return list
}

// publishAndConfirm publishes valid messages on a channel.
func (p *publishing) publishAndConfirm(ctx context.Context, q *Queue, out *amqplink.Publisher,
	messages []queue.Message) []error {
	errs := make([]error, len(messages))
	sent := sendMessages(ctx, out, q.opts.Name, messages, errs)
	for i, s := range sent {
		if errs[i] == nil {
			errs[i] = p.awaitConfirm(ctx, q, s)
		}
	}
	returned := out.Returned(sent...)
	for i, s := range sent {
		if why, ok := returned[s]; ok && errs[i] == nil {
			errs[i] = fmt.Errorf("%w: it was returned: %s", queue.ErrUnavailable, why)
		}
	}
	if len(returned) > 0 {
		p.deleted.Store(true)
		p.conn.Cut() // the next session declares the queue again
	}
	return errs
}

// publishAlone publishes a message on a channel of its own, so that only this message fails if RabbitMQ
// closes the channel. The end of ctx does not cut the opening and closing of the channel short, as that would
// cut the connection, which others use.
func (p *publishing) publishAlone(ctx context.Context, q *Queue, m queue.Message) error {
	lasting := context.WithoutCancel(ctx)
	out, err := p.conn.NewPublisher(lasting)
	if err != nil {
		return fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	var returns sync.WaitGroup
	returns.Go(out.Run)
	defer returns.Wait()
	defer out.Close(lasting) //nolint:errcheck // it may have ended
	err = p.publishAndConfirm(ctx, q, out, []queue.Message{m})[0]
	if limit, ok := out.TooLarge(); ok {
		return fmt.Errorf("%w: RabbitMQ accepts %d bytes (max_message_size), and it has %d", queue.ErrRefused, limit,
			len(m.Body))
	}
	if err == nil {
		q.limit.Store(0) // it was raised
	}
	return err
}

// notSent returns the error of a message that is not sent because ctx has ended; nil if it has not.
func notSent(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	return nil
}

// sendMessages publishes messages, and adds the errors of those that cannot be sent.
func sendMessages(ctx context.Context, out *amqplink.Publisher, name string, messages []queue.Message,
	errs []error) []*amqplink.Sent {
	sent := make([]*amqplink.Sent, len(messages))
	var broken error
	for i := range messages {
		if broken == nil {
			broken = notSent(ctx)
		}
		if broken != nil {
			errs[i] = broken
			continue
		}
		s, err := out.Send("", name, true, amqp091.Publishing{DeliveryMode: amqp091.Persistent,
			ContentType: "application/octet-stream", MessageId: messages[i].ID, Body: messages[i].Body})
		if err != nil {
			broken = fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
			errs[i] = fmt.Errorf("%w: %w", queue.ErrUnconfirmed, err) // parts of it, and later messages, may have been sent
			continue
		}
		sent[i] = s
	}
	return sent
}

// errSlow ends the wait for a confirm after Options.Timeout.
var errSlow = errors.New("the broker has not confirmed it in time")

// awaitConfirm waits for one confirm.
func (p *publishing) awaitConfirm(ctx context.Context, q *Queue, s *amqplink.Sent) error {
	err := s.Confirmed(ctx)
	switch {
	case err == nil:
		return nil
	case q.life.Err() != nil:
		return queue.ErrClosed
	case errors.Is(err, amqplink.ErrRefused):
		return queue.ErrFull
	case errors.Is(context.Cause(ctx), errSlow):
		p.conn.Cut() // after a queue lost its leader, an old channel may get no more confirms; a new one does
	case errors.Is(err, context.DeadlineExceeded) && p.doubted.CompareAndSwap(false, true):
		// The caller has less time than a confirm may take: other publishers do not pay for that.
		time.AfterFunc(q.opts.Timeout, func() {
			if p.doubted.Store(false); s.Unconfirmed() {
				p.conn.Cut()
			}
		})
	}
	return fmt.Errorf("%w: %w", queue.ErrUnconfirmed, err)
}

// queueDepth asks the broker on a separate channel.
func (p *publishing) queueDepth(ctx context.Context, name string) (int64, error) {
	defer p.conn.Limit(ctx)()
	ch, err := p.conn.OpenChannel(ctx)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	state, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	return int64(state.Messages), ch.Close()
}
