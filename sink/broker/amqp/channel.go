package amqp

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/sink/broker"
)

const (
	maxChannels = 256              // per connection
	idle        = time.Minute      // after this time a channel without messages is closed
	lingering   = 30 * time.Second // how long a retired channel waits for confirms
)

// channelKey is the exchange and the namespace of a channel's messages: RabbitMQ closes a channel because
// of one bad message.
type channelKey struct{ namespace, exchange string }

// channel is a channel of a link. Its goroutine opens it, reads its confirms and returns, and closes it.
type channel struct {
	l     *link
	key   channelKey
	ready chan struct{} // closed when it is open, or opening has failed

	sending sync.Mutex // one message is published at a time, in the order of tags
	raw     *amqp091.Channel
	last    uint64 // tag of the last published message

	mu      sync.Mutex
	pending map[uint64]*sent // by tag; nil when the channel has ended
	retired bool             // it accepts no more messages
	nudge   chan struct{}    // signalled when it retires

	returned map[attempt]string // reasons of returned messages; owned by the goroutine
}

// sent is a message in progress.
type sent struct {
	flight   *broker.Flight
	i        int
	id       attempt
	routing  string
	message  amqp091.Publishing
	deadline time.Time
	settled  chan struct{} // closed when it is reported; nil if nothing waits for it
}

// reportSent reports the outcome of a message. It is called once.
func (m *sent) reportSent(o rouse.Outcome) {
	m.flight.Settle(m.i, o)
	if m.settled != nil {
		close(m.settled)
	}
}

// attempt identifies a returned message.
type attempt struct {
	id     string
	number int64
}

// channelFor returns the channel for a key. It creates one if necessary, and returns nil if there are too
// many.
func (l *link) channelFor(key channelKey) *channel {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.channels[key]; c != nil {
		return c
	}
	// Clone the strings: they may be parts of a timer's row, which they would keep in memory.
	key = channelKey{strings.Clone(key.namespace), strings.Clone(key.exchange)}
	c := l.newChannel(key)
	if c != nil {
		l.channels[key] = c
	}
	return c
}

// newChannel opens a channel. It returns nil if there are too many. The caller holds the mutex.
func (l *link) newChannel(key channelKey) *channel {
	if l.open >= maxChannels {
		return nil
	}
	c := &channel{l: l, key: key, ready: make(chan struct{}), pending: map[uint64]*sent{}, nudge: make(chan struct{}, 1),
		returned: map[attempt]string{}}
	l.open++
	l.p.uses.Go(c.runChannel)
	return c
}

// retireChannel stops the use of a channel for new messages. It is closed when it has no message in progress.
func (c *channel) retireChannel() {
	c.l.mu.Lock()
	if c.l.channels[c.key] == c {
		delete(c.l.channels, c.key)
	}
	c.l.mu.Unlock()
	c.mu.Lock()
	c.retired = true
	c.mu.Unlock()
	notify.Send(c.nudge)
}

func (c *channel) runChannel() {
	defer func() {
		c.l.mu.Lock()
		c.l.open--
		c.l.mu.Unlock()
	}()
	err := c.openChannel()
	if err != nil {
		c.handleEnd(nil) // it has no messages
		close(c.ready)
		return
	}
	// Both channels are unbuffered, so that a return is handled before the confirm that follows it.
	returns := c.raw.NotifyReturn(make(chan amqp091.Return))
	confirms := c.raw.NotifyPublish(make(chan amqp091.Confirmation))
	closed := c.raw.NotifyClose(make(chan *amqp091.Error, 1))
	close(c.ready)
	rest := time.NewTimer(idle)
	defer rest.Stop()
	var linger <-chan time.Time
	used := uint64(0)
	for confirms != nil {
		select {
		case r, ok := <-returns:
			if !ok {
				returns = nil
				continue
			}
			number, _ := r.Headers[headerAttempt].(int64)
			c.returned[attempt{r.MessageId, number}] = r.ReplyText
		case confirm, ok := <-confirms:
			if !ok {
				confirms = nil
				continue
			}
			if c.handleConfirm(confirm) {
				c.closeChannel(returns, confirms)
				confirms = nil
			}
		case <-rest.C:
			rest.Reset(idle)
			if c.isUnused(&used) {
				c.retireChannel()
			}
		case <-c.nudge:
			linger = time.After(lingering)
			if c.hasNoPending() {
				c.closeChannel(returns, confirms)
				confirms = nil
			}
		case <-linger:
			c.closeChannel(returns, confirms)
			confirms = nil
		}
	}
	c.handleEnd(<-closed)
	for returns != nil { // drain: the client may be sending, and must not block forever
		if _, ok := <-returns; !ok {
			returns = nil
		}
	}
}

// openChannel opens the channel, with the connection's timeout.
func (c *channel) openChannel() (err error) {
	defer c.l.conn.Limit(c.l.p.life)()
	if c.raw, err = c.l.conn.OpenChannel(c.l.p.life); err != nil {
		return err
	}
	return c.raw.Confirm(false)
}

// closeChannel closes the channel and drains its notifications.
func (c *channel) closeChannel(returns <-chan amqp091.Return, confirms <-chan amqp091.Confirmation) {
	defer c.l.conn.Limit(c.l.p.life)()
	left := make(chan struct{})
	go func() {
		defer close(left)
		_ = c.raw.Close() // it may already be closed
	}()
	for {
		select {
		case _, ok := <-returns:
			if !ok {
				returns = nil
			}
		case _, ok := <-confirms:
			if !ok {
				confirms = nil
			}
		case <-left:
			return
		}
	}
}

// handleConfirm reports the message that was confirmed or refused. It reports whether the channel has to be
// closed.
func (c *channel) handleConfirm(confirm amqp091.Confirmation) (leave bool) {
	c.mu.Lock()
	m, ok := c.pending[confirm.DeliveryTag]
	delete(c.pending, confirm.DeliveryTag)
	leave = c.retired && len(c.pending) == 0
	c.mu.Unlock()
	if !ok {
		return leave
	}
	why, returned := "", false
	if len(c.returned) > 0 {
		why, returned = c.returned[m.id]
		delete(c.returned, m.id)
	}
	switch {
	case returned:
		m.reportSent(broker.Failed(amqp091.NoRoute, fmt.Sprintf("%d %s: no queue is bound for the routing key",
			amqp091.NoRoute, why)))
	case confirm.Ack:
		m.reportSent(broker.Done)
	default:
		m.reportSent(broker.Failed(0, "RabbitMQ refused the message (nack): a queue is full, or cannot take it now"))
	}
	return leave
}

// handleEnd settles the messages in progress when the channel has ended. If only one of several was refused,
// each is sent again by itself.
func (c *channel) handleEnd(err *amqp091.Error) {
	c.l.mu.Lock()
	if c.l.channels[c.key] == c {
		delete(c.l.channels, c.key)
	}
	c.l.mu.Unlock()
	c.mu.Lock()
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	if len(pending) > 1 && ofOneMessage(err) {
		list := make([]*sent, 0, len(pending))
		for _, tag := range slices.Sorted(maps.Keys(pending)) {
			list = append(list, pending[tag])
		}
		c.l.p.uses.Go(func() { c.l.publishSingly(c.key, list) })
		return
	}
	o := endOutcome(err)
	for _, m := range pending {
		m.reportSent(o)
	}
}

// endOutcome returns the outcome of messages that were in progress when the channel ended.
func endOutcome(err *amqp091.Error) rouse.Outcome {
	switch {
	case err == nil:
		return broker.Failed(0, "the connection broke before RabbitMQ confirmed: it may have the message")
	case !channelFault(err.Code):
		return broker.Failed(0, "the connection broke before RabbitMQ confirmed, "+err.Reason+": it may have the message")
	case err.Code == amqp091.ContentTooLarge, err.Code == amqp091.PreconditionFailed &&
		strings.Contains(err.Reason, "larger than"):
		return broker.Rejected(err.Code, err.Reason)
	}
	return broker.Failed(err.Code, err.Reason)
}

// ofOneMessage reports whether RabbitMQ closed a channel because of a property of one message, and not
// because of the exchange, which all its messages share.
func ofOneMessage(err *amqp091.Error) bool {
	if err == nil {
		return false
	}
	switch err.Code {
	case amqp091.ContentTooLarge, amqp091.PreconditionFailed:
		return true
	case amqp091.AccessRefused:
		return strings.Contains(err.Reason, "access to topic") // the routing key
	}
	return false
}

// channelFault reports whether a code is one with which RabbitMQ closes a channel because of a published
// message.
func channelFault(code int) bool {
	switch code {
	case amqp091.ContentTooLarge, amqp091.AccessRefused, amqp091.NotFound, amqp091.PreconditionFailed,
		amqp091.NotImplemented:
		return true
	}
	return false
}

// refusesMessages reports whether the channel accepts no more messages.
func (c *channel) refusesMessages() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending == nil || c.retired
}

func (c *channel) hasNoPending() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending) == 0
}

// isUnused reports whether nothing was published since the last call and no message is in progress.
func (c *channel) isUnused(used *uint64) bool {
	c.sending.Lock()
	last := c.last
	c.sending.Unlock()
	before := *used
	*used = last
	return before == last && c.hasNoPending()
}
