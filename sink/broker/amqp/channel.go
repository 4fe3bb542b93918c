package amqp

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/sink/broker"
)

const (
	maxChannels = 256              // of a connection
	idle        = time.Minute      // after which a channel without messages is closed
	lingering   = 30 * time.Second // how long a channel that takes no more messages waits for confirms
)

// channelKey says whose messages a channel has: as RabbitMQ closes it for one bad message, they are of one exchange and one namespace.
type channelKey struct{ namespace, exchange string }

// channel is a channel of a link. A goroutine of its own opens it, reads its confirms and returns, and closes it.
type channel struct {
	l     *link
	key   channelKey
	ready chan struct{} // closed when it is open, or has failed to be

	sending sync.Mutex // one publishes at a time, in the order of tags
	raw     *amqp091.Channel
	last    uint64 // tag of the message that was published last

	mu      sync.Mutex
	pending map[uint64]sent // by tag; nil when the channel has ended
	why     rouse.Outcome   // what becomes of messages when it has ended
	retired bool            // it takes no more messages
	nudge   chan struct{}   // signalled when it retires

	returned map[attempt]string // why messages came back; owned by the goroutine
}

// sent is a message under way.
type sent struct {
	flight *broker.Flight
	i      int
	id     attempt
}

// attempt is what a message that comes back is known by.
type attempt struct {
	id     string
	number int64
}

// channel returns the channel for a key, a new one if need be, or nil if there are too many.
func (l *link) channel(key channelKey) *channel {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.channels[key]; c != nil {
		return c
	}
	if l.open >= maxChannels {
		return nil
	}
	// Clones, because a namespace and a target may be parts of a timer's row, all of which they would keep in memory.
	key = channelKey{strings.Clone(key.namespace), strings.Clone(key.exchange)}
	c := &channel{l: l, key: key, ready: make(chan struct{}), pending: map[uint64]sent{}, nudge: make(chan struct{}, 1), returned: map[attempt]string{}}
	l.channels[key] = c
	l.open++
	l.p.uses.Go(c.run)
	return c
}

// retire lets a channel take no more messages: the next message is another one's. It ends when it has nothing under way.
func (c *channel) retire() {
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

func (c *channel) run() {
	defer func() {
		c.l.mu.Lock()
		c.l.open--
		c.l.mu.Unlock()
	}()
	err := c.begin()
	if err != nil {
		c.ended(broker.Unsent(broker.Soon, "RabbitMQ opens no channel: "+err.Error()))
		close(c.ready)
		return
	}
	// Without room in these two, a return has been dealt with before the confirm that follows it is looked at.
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
			if c.settle(confirm) {
				c.leave(returns, confirms)
				confirms = nil
			}
		case <-rest.C:
			rest.Reset(idle)
			if c.unused(&used) {
				c.retire()
			}
		case <-c.nudge:
			linger = time.After(lingering)
			if c.empty() {
				c.leave(returns, confirms)
				confirms = nil
			}
		case <-linger:
			c.leave(returns, confirms)
			confirms = nil
		}
	}
	c.ended(explain(<-closed))
	for returns != nil { // the client may be about to tell; it must not wait for ever
		if _, ok := <-returns; !ok {
			returns = nil
		}
	}
}

// begin opens the channel, within the connection's timeout.
func (c *channel) begin() (err error) {
	defer c.l.conn.Limit(c.l.p.life)()
	if c.raw, err = c.l.conn.OpenChannel(c.l.p.life); err != nil {
		return err
	}
	return c.raw.Confirm(false)
}

// leave closes the channel, while what it still says is read.
func (c *channel) leave(returns <-chan amqp091.Return, confirms <-chan amqp091.Confirmation) {
	defer c.l.conn.Limit(c.l.p.life)()
	left := make(chan struct{})
	go func() {
		defer close(left)
		_ = c.raw.Close() // it may have been closed already
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

// settle reports the message that was confirmed or refused. It says whether the channel is to be closed.
func (c *channel) settle(confirm amqp091.Confirmation) (leave bool) {
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
		m.flight.Settle(m.i, broker.Failed(amqp091.NoRoute, fmt.Sprintf("%d %s: no queue is bound for the routing key", amqp091.NoRoute, why)))
	case confirm.Ack:
		m.flight.Settle(m.i, broker.Done)
	default:
		m.flight.Settle(m.i, broker.Failed(0, "RabbitMQ refused the message (nack): a queue is full, or cannot take it now"))
	}
	return leave
}

// ended settles what is under way, and what may come, when the channel is no more.
func (c *channel) ended(o rouse.Outcome) {
	c.l.mu.Lock()
	if c.l.channels[c.key] == c {
		delete(c.l.channels, c.key)
	}
	c.l.mu.Unlock()
	c.mu.Lock()
	pending := c.pending
	c.pending, c.why = nil, o
	c.mu.Unlock()
	for _, m := range pending {
		m.flight.Settle(m.i, o)
	}
}

// explain says what becomes of messages that were under way when the channel ended.
func explain(err *amqp091.Error) rouse.Outcome {
	switch {
	case err == nil:
		return broker.Failed(0, "the connection broke before RabbitMQ confirmed: it may have the message")
	case !channelFault(err.Code):
		return broker.Failed(0, "the connection broke before RabbitMQ confirmed, "+err.Reason+": it may have the message")
	case err.Code == amqp091.PreconditionFailed && strings.Contains(err.Reason, "larger than"):
		return broker.Rejected(err.Code, err.Reason)
	}
	return broker.Failed(err.Code, err.Reason)
}

// channelFault says whether a code is one by which RabbitMQ closes a channel for what was published on it.
func channelFault(code int) bool {
	switch code {
	case amqp091.ContentTooLarge, amqp091.AccessRefused, amqp091.NotFound, amqp091.PreconditionFailed, amqp091.NotImplemented:
		return true
	}
	return false
}

func (c *channel) empty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending) == 0
}

// unused says whether nothing was published since it was last asked, and nothing is under way.
func (c *channel) unused(used *uint64) bool {
	c.sending.Lock()
	last := c.last
	c.sending.Unlock()
	before := *used
	*used = last
	return before == last && c.empty()
}

var errEnded = errors.New("the channel has ended")
