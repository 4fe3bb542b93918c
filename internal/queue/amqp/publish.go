package amqp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/queue"
)

// publishing is a session to publish on.
type publishing struct {
	*session
	mu  sync.Mutex // one publishes at a time
	seq uint64

	returns  chan amqp091.Return
	returned map[string]string // by correlation id; owned by the goroutine that reads returns
	ask      chan question
	blocked  chan amqp091.Blocking

	deleted atomic.Bool // the queue is no more
}

// question asks whether messages were returned.
type question struct {
	ids    []string
	answer chan map[string]string
}

func (q *Queue) openPublishing(ctx context.Context) (*publishing, error) {
	s, err := q.dial(ctx)
	if err != nil {
		return nil, err
	}
	p := &publishing{session: s, returned: map[string]string{}, ask: make(chan question)}
	stop := context.AfterFunc(ctx, s.cut)
	defer stop()
	// Without room in the channel, a return has been taken before the confirm that follows it is looked at.
	p.returns = s.ch.NotifyReturn(make(chan amqp091.Return))
	p.blocked = s.conn.NotifyBlocked(make(chan amqp091.Blocking, 1))
	if err := s.ch.Confirm(false); err != nil {
		s.cut()
		return nil, fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	return p, nil
}

// watch reads what the broker says beside its confirms, until the session ends.
func (p *publishing) watch(life context.Context) {
	var reader sync.WaitGroup
	reader.Go(func() {
		returns, blocked := p.returns, p.blocked
		for {
			select {
			case r, ok := <-returns:
				if !ok {
					returns = nil
					continue
				}
				p.returned[r.CorrelationId] = r.ReplyText
			case _, ok := <-blocked: // then confirms do not come, and publishing times out
				if !ok {
					blocked = nil
				}
			case a := <-p.ask:
				found := map[string]string{}
				for _, id := range a.ids {
					if why, ok := p.returned[id]; ok {
						found[id] = why
						delete(p.returned, id)
					}
				}
				a.answer <- found
			case <-p.closed:
				// The client may be about to tell; it must not wait for ever.
				for returns != nil || blocked != nil {
					select {
					case _, ok := <-returns:
						if !ok {
							returns = nil
						}
					case _, ok := <-blocked:
						if !ok {
							blocked = nil
						}
					}
				}
				return
			}
		}
	})
	p.session.watch(life)
	reader.Wait()
}

// Publish publishes messages, all in flight at a time, and waits for their confirms.
func (q *Queue) Publish(ctx context.Context, messages []queue.Message) []error {
	errs := make([]error, len(messages))
	ctx, cancel := context.WithTimeout(ctx, q.opts.Timeout)
	defer cancel()
	p, err := q.publisher.get(ctx)
	if err != nil {
		for i := range errs {
			if errs[i] = messages[i].Check(); errs[i] == nil {
				errs[i] = err
			}
		}
		return errs
	}
	confirms, ids := p.send(ctx, q.opts.Name, messages, errs)
	var published []string
	for i, c := range confirms {
		if errs[i] == nil {
			errs[i] = p.wait(ctx, q, c)
			published = append(published, ids[i])
		}
	}
	returned := p.returnsOf(published)
	for i := range confirms {
		if why, ok := returned[ids[i]]; ok && errs[i] == nil {
			errs[i] = fmt.Errorf("%w: it was returned: %s", queue.ErrUnavailable, why)
		}
	}
	if len(returned) > 0 {
		p.deleted.Store(true)
		p.cut() // the next session declares the queue again
	}
	return errs
}

// send publishes the messages for which there is no error, and adds the errors of those that cannot be sent.
func (p *publishing) send(ctx context.Context, name string, messages []queue.Message, errs []error) ([]*amqp091.DeferredConfirmation, []string) {
	confirms := make([]*amqp091.DeferredConfirmation, len(messages))
	ids := make([]string, len(messages))
	p.mu.Lock()
	defer p.mu.Unlock()
	var broken error
	for i := range messages {
		if errs[i] = messages[i].Check(); errs[i] != nil {
			continue
		}
		if broken == nil && ctx.Err() != nil {
			broken = ctx.Err()
		}
		if broken != nil {
			errs[i] = fmt.Errorf("%w: %w", queue.ErrUnavailable, broken)
			continue
		}
		p.seq++
		ids[i] = strconv.FormatUint(p.seq, 36)
		c, err := p.ch.PublishWithDeferredConfirm("", name, true, false, amqp091.Publishing{DeliveryMode: amqp091.Persistent,
			ContentType: "application/octet-stream", MessageId: messages[i].ID, CorrelationId: ids[i], Body: messages[i].Body})
		if err != nil {
			broken = err
			errs[i] = fmt.Errorf("%w: %w", queue.ErrUnconfirmed, err) // a part of it may have been sent, and more
			continue
		}
		confirms[i] = c
	}
	return confirms, ids
}

// wait waits for one confirm.
func (p *publishing) wait(ctx context.Context, q *Queue, c *amqp091.DeferredConfirmation) error {
	acked, err := c.WaitContext(ctx)
	switch {
	case acked:
		return nil
	case q.life.Err() != nil:
		return queue.ErrClosed
	case err != nil:
		if errors.Is(err, context.DeadlineExceeded) {
			p.cut() // a channel may never hear again of a queue that lost its leader; a new one does
		}
		return fmt.Errorf("%w: %w", queue.ErrUnconfirmed, err)
	case p.conn.IsClosed() || p.ch.IsClosed(): // the client ends what is open in the words of a refusal
		return fmt.Errorf("%w: the connection broke", queue.ErrUnconfirmed)
	}
	return queue.ErrFull
}

// returnsOf says which of the messages, by their correlation ids, came back, as there was no queue for them.
func (p *publishing) returnsOf(ids []string) map[string]string {
	a := question{ids, make(chan map[string]string, 1)}
	select {
	case p.ask <- a:
		return <-a.answer
	case <-p.closed:
		return nil
	}
}

// depth asks the broker, on a channel of its own.
func (p *publishing) depth(ctx context.Context, name string) (int64, error) {
	defer context.AfterFunc(ctx, p.cut)()
	ch, err := p.conn.Channel()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	state, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	return int64(state.Messages), ch.Close()
}
