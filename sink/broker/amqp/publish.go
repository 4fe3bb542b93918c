package amqp

import (
	"context"
	"errors"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/sink/broker"
)

// Publish publishes messages and waits for their confirms.
func (p *Publisher) Publish(ctx context.Context, messages []broker.Message, f *broker.Flight) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	on := make([]*channel, len(messages)) // the ones with a message in progress
	l := p.awaitLink(ctx)
	for i := range messages {
		m := &messages[i]
		exchange, key, wrong := exchangeAndKey(&m.Target)
		switch {
		case wrong != "":
			f.Settle(i, broker.Failed(0, "not sent: the target "+wrong))
		case l == nil:
			f.Settle(i, p.away.Outcome(m.Fire))
		case p.blocks.Obstacle() != "":
			f.Settle(i, p.blocks.Outcome(m.Fire))
		default:
			on[i] = p.publishOne(ctx, l, channelKey{m.Fire.Namespace, exchange}, key, m, f, i)
		}
	}
	f.Await(ctx, func(i int) {
		if on[i] != nil {
			on[i].retireChannel() // a channel may never get confirms of a queue that lost its leader; a new one does
		}
	})
}

// tries is how many channels a message is given to: others may have ended the first one before it was sent.
const tries = 2

// errEnded means that a channel has ended before a message was sent.
var errEnded = errors.New("the channel has ended")

// publishOne publishes one message, or settles it. It returns the channel that will get the confirm.
func (p *Publisher) publishOne(ctx context.Context, l *link, key channelKey, routing string, m *broker.Message,
	f *broker.Flight, i int) *channel {
	s := &sent{flight: f, i: i, id: attempt{m.Fire.ID, int64(m.Fire.Attempt)}, routing: routing, message: newPublishing(m),
		deadline: f.Deadline(i)}
	return s.publishOn(ctx, func() *channel { return l.channelFor(key) })
}

// publishOn publishes a message on a channel that take returns, or settles it. It returns the channel.
func (m *sent) publishOn(ctx context.Context, take func() *channel) *channel {
	for range tries {
		c := take()
		if c == nil {
			m.reportSent(broker.Overloaded(longestWait, "all channels to RabbitMQ are in use"))
			return nil
		}
		if c.publishMessage(ctx, m) == nil {
			return c
		}
	}
	m.reportSent(broker.Unsent(broker.Soon, errEnded.Error()))
	return nil
}

// publishMessage publishes one message, or settles it. It fails with errEnded if it has done neither.
func (c *channel) publishMessage(ctx context.Context, m *sent) error {
	limit, cancel := context.WithDeadline(ctx, m.deadline)
	defer cancel()
	select {
	case <-c.ready:
	case <-limit.Done():
		m.reportSent(broker.Unsent(broker.Soon, "RabbitMQ has not opened a channel in time"))
		return nil
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	if limit.Err() != nil {
		m.reportSent(broker.Overloaded(broker.Soon, "there was no time left for it"))
		return nil
	}
	c.mu.Lock()
	if c.pending == nil || c.retired {
		c.mu.Unlock()
		return errEnded
	}
	c.last++
	tag := c.last
	c.pending[tag] = m
	c.mu.Unlock()
	err := c.raw.Publish(c.key.exchange, m.routing, true, false, m.message)
	if err == nil {
		return nil
	}
	c.mu.Lock()
	_, waits := c.pending[tag]
	delete(c.pending, tag)
	c.mu.Unlock()
	c.retireChannel() // its tags no longer match RabbitMQ's
	switch {
	case !waits: // the channel has ended, and its messages with it
	case errors.Is(err, amqp091.ErrClosed):
		return errEnded
	default:
		m.reportSent(broker.Failed(0, "the connection broke while the message was sent: "+err.Error()))
	}
	return nil
}

// publishSingly publishes messages again, one at a time: RabbitMQ closed a channel because of one of them,
// and does not report which. A message that was alone on such a channel is the refused one.
func (l *link) publishSingly(key channelKey, list []*sent) {
	var c *channel
	for _, m := range list {
		if m.flight.Settled(m.i) {
			continue // it is too late
		}
		m.settled = make(chan struct{})
		m.publishOn(l.p.life, func() *channel {
			l.mu.Lock()
			defer l.mu.Unlock()
			if c == nil || c.refusesMessages() {
				c = l.newChannel(key)
			}
			return c
		})
		late := time.NewTimer(time.Until(m.deadline))
		select {
		case <-m.settled:
		case <-late.C:
			if c != nil {
				c.retireChannel()
			}
		}
		late.Stop()
	}
	if c != nil {
		c.retireChannel()
	}
}
