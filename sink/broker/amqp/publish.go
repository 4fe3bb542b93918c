package amqp

import (
	"context"
	"errors"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/sink/broker"
)

// Publish publishes messages and waits for their confirms.
func (p *Publisher) Publish(ctx context.Context, messages []broker.Message, f *broker.Flight) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	on := make([]*channel, len(messages)) // the ones with a message in progress
	l := p.get(ctx)
	for i := range messages {
		m := &messages[i]
		exchange, key, wrong := place(&m.Target)
		switch {
		case wrong != "":
			f.Settle(i, broker.Failed(0, "not sent: the target "+wrong))
		case l == nil:
			f.Settle(i, p.away.Outcome(m.Fire))
		case p.blocks.Obstacle() != "":
			f.Settle(i, p.blocks.Outcome(m.Fire))
		default:
			on[i] = p.send(ctx, l, channelKey{m.Fire.Namespace, exchange}, key, m, f, i)
		}
	}
	f.Await(ctx, func(i int) {
		if on[i] != nil {
			on[i].retire() // a channel may never get confirms of a queue that lost its leader; a new one does
		}
	})
}

// send publishes one message, or settles it. It returns the channel that will get the confirm.
func (p *Publisher) send(ctx context.Context, l *link, key channelKey, routing string, m *broker.Message, f *broker.Flight, i int) *channel {
	c := l.channel(key)
	if c == nil {
		f.Settle(i, broker.Overloaded(longestWait, "all channels to "+p.away.Broker+" are in use"))
		return nil
	}
	limit, cancel := context.WithDeadline(ctx, f.Deadline(i))
	defer cancel()
	select {
	case <-c.ready:
	case <-limit.Done():
		f.Settle(i, broker.Unsent(broker.Soon, "RabbitMQ has not opened a channel in time"))
		return nil
	}
	message := publishing(m)
	c.sending.Lock()
	defer c.sending.Unlock()
	if limit.Err() != nil {
		f.Settle(i, broker.Overloaded(broker.Soon, "there was no time left for it"))
		return nil
	}
	c.mu.Lock()
	if c.pending == nil || c.retired {
		c.mu.Unlock()
		f.Settle(i, broker.Unsent(broker.Soon, errEnded.Error()))
		return nil
	}
	c.last++
	tag := c.last
	c.pending[tag] = sent{f, i, attempt{m.Fire.ID, int64(m.Fire.Attempt)}}
	c.mu.Unlock()
	err := c.raw.Publish(key.exchange, routing, true, false, message)
	if err == nil {
		return c
	}
	c.mu.Lock()
	delete(c.pending, tag)
	c.mu.Unlock()
	c.retire() // its tags no longer match RabbitMQ's
	if errors.Is(err, amqp091.ErrClosed) {
		f.Settle(i, broker.Unsent(broker.Soon, errEnded.Error()))
	} else {
		f.Settle(i, broker.Failed(0, "the connection broke while the message was sent: "+err.Error()))
	}
	return nil
}
