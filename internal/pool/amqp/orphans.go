package amqp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/amqplink"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/pool"
)

// hopsHeader counts how often a request was forwarded. A forwarded request is returned if its queue was
// unbound in between, which is rare. leftHeader is how long a request that was put aside may still wait, in
// milliseconds.
const (
	hopsHeader = "x-rouse-hops"
	leftHeader = "x-rouse-left"
)

// mostHops is the maximum number of forwards. Beyond it the binding has a problem that binding again does not
// fix.
const mostHops = 10

// consumeQueue starts to consume a queue on a new channel.
func (c *Controller) consumeQueue(ctx context.Context, conn *amqplink.Conn, queue string,
	prefetch int) (<-chan amqp091.Delivery, error) {
	_, deliveries, err := c.consumeOn(ctx, conn, queue, prefetch)
	return deliveries, err
}

// consumeOn is consume that also returns the channel.
func (c *Controller) consumeOn(ctx context.Context, conn *amqplink.Conn, queue string,
	prefetch int) (*amqp091.Channel, <-chan amqp091.Delivery, error) {
	ch, err := conn.OpenChannel(ctx)
	if err != nil {
		return nil, nil, err
	}
	deliveries, err := c.consumeMore(ctx, conn, ch, queue, prefetch)
	return ch, deliveries, err
}

// consumeMore starts to consume a queue on an existing channel.
func (c *Controller) consumeMore(ctx context.Context, conn *amqplink.Conn, ch *amqp091.Channel, queue string,
	prefetch int) (<-chan amqp091.Delivery, error) {
	defer conn.Limit(ctx)()
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return nil, fmt.Errorf("consume %s: %w", queue, err)
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return nil, fmt.Errorf("consume %s: %w", queue, err)
	}
	return deliveries, nil
}

// errConsumer means that the broker cancelled a consumer, as it does if a queue is deleted or loses its
// leader.
func errConsumer(queue string) error {
	return fmt.Errorf("the broker does not deliver from %s any more", queue)
}

// An orphan whose key has no queue after the patience is put aside: it waits in another queue for asideTime
// and is then an orphan again. So orphans of keys whose queues cannot be opened, or that wait for a limit, do
// not block others.
const asideTime = time.Second

// orphans are the orphans of a session that wait for the queues of their keys. Each key has its own
// goroutine, so that keys do not wait for each other.
type orphans struct {
	c    *Controller
	term *pool.Term
	out  *publisher
	to   *mailbox
	uses sync.WaitGroup

	mu      sync.Mutex
	pending map[string][]orphan  // by key; there is an entry while there is a goroutine
	stuck   map[string]time.Time // keys whose wait timed out, and until when their other orphans are put aside immediately
}

type orphan struct {
	amqp091.Delivery
	came time.Time
	hops int
	left time.Duration // how long it may still wait, from its headers; negative if unknown
}

// processOrphans handles orphans until ctx ends or the broker ends the consumer. It uses a separate
// connection: an orphan whose headers do not fit into a frame, with those that the broker adds, ends only
// that connection when it is delivered.
func (c *Controller) processOrphans(ctx context.Context, term *pool.Term, out *publisher, to *mailbox) error {
	for {
		err := c.receiveOrphans(ctx, term, out, to)
		if ctx.Err() != nil {
			return nil
		}
		if out.Broken() || to.isMailboxBroken() || !isFrameError(err) {
			return err
		}
		c.log.Warn("the connection for orphans ended; reconnecting", "error", err)
		if err := c.rescueOrphans(ctx, out, to); err != nil {
			c.log.Warn("cannot fetch orphans over RabbitMQ's HTTP API", "error", err)
		}
		backoff.Sleep(ctx, firstWait)
	}
}

// rescueOrphans gives up an orphan that is too large for a frame. Those before it are put behind it.
func (c *Controller) rescueOrphans(ctx context.Context, out *publisher, to *mailbox) error {
	return c.handleLargeMessages(ctx, out.Conn.Config.FrameSize, c.names.orphanQueue(), c.names.orphanExchange(),
		func(d *amqp091.Delivery, large bool) error {
			if large {
				c.manager.Metrics().Orphan("refused", 0)
				l := letter{d: d, key: d.RoutingKey, reason: reasonRejected, keep: true, why: errTooLarge.Error()}
				return to.answerFetched(ctx, l)
			}
			returned, err := out.publishConfirmed(ctx, c.names.orphanExchange(), d.RoutingKey, withoutBrokerHeaders(d))
			if err == nil && returned {
				err = errors.New("it was returned: there is no queue for orphans")
			}
			return err
		})
}

// receiveOrphans handles orphans until its connection ends.
func (c *Controller) receiveOrphans(ctx context.Context, term *pool.Term, out *publisher, to *mailbox) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	conn, err := c.dialBroker(ctx, "orphans")
	if err != nil {
		return err
	}
	defer conn.Guard(cancel)()
	ch, deliveries, err := c.consumeOn(ctx, conn, c.names.orphanQueue(), c.windowNow())
	if err != nil {
		return waitCause(ctx, err)
	}
	o := &orphans{c: c, term: term, out: out, to: to, pending: map[string][]orphan{}, stuck: map[string]time.Time{}}
	defer o.uses.Wait()
	defer cancel(nil)
	var more <-chan amqp091.Delivery // deliveries after one-by-one consumption worked for a while
	widen := time.NewTimer(longestWait)
	defer widen.Stop()
	sweep := time.NewTicker(time.Minute)
	defer sweep.Stop()
	for {
		var d amqp091.Delivery
		var ok bool
		select {
		case d, ok = <-deliveries:
		case d, ok = <-more:
		case <-widen.C:
			if c.consumesOneByOne() {
				c.endCarefulMode()
				if more, err = c.consumeMore(ctx, conn, ch, c.names.orphanQueue(), c.config.OrphanWindow); err != nil {
					return waitCause(ctx, err)
				}
			}
			continue
		case now := <-sweep.C:
			o.mu.Lock()
			maps.DeleteFunc(o.stuck, func(_ string, until time.Time) bool { return until.Before(now) })
			o.mu.Unlock()
			continue
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !ok {
			return waitCause(ctx, errConsumer(c.names.orphanQueue()))
		}
		if err := o.addOrphan(ctx, d); err != nil {
			return waitCause(ctx, err)
		}
	}
}

// windowNow returns how many orphans are processed at the same time: one, if sessions have failed alike.
func (c *Controller) windowNow() int {
	if c.consumesOneByOne() {
		return 1
	}
	return c.config.OrphanWindow
}

// addOrphan adds an orphan to those that wait for its queue.
func (o *orphans) addOrphan(ctx context.Context, d amqp091.Delivery) error {
	one := orphan{Delivery: d, came: time.Now(), hops: hopsOf(d.Headers), left: timeLeft(&d)}
	key, err := o.c.groupOf(&d)
	if err == nil && one.hops >= mostHops {
		err = fmt.Errorf("it was returned %d times from its queue", one.hops)
	}
	if m := one.forwardedMessage(); err == nil && !fitsFrame(&m, o.out.Conn.Config.FrameSize) {
		err = errTooLarge
	}
	if err != nil {
		o.c.manager.Metrics().Orphan("refused", 0)
		return o.failOrphan(ctx, &one, reasonRejected, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	waiting, served := o.pending[key]
	o.pending[key] = append(waiting, one)
	if !served {
		o.uses.Go(func() { o.forwardKey(ctx, key) })
	}
	return nil
}

// failOrphan answers an orphan with an error, and stores it if something is wrong with it.
func (o *orphans) failOrphan(ctx context.Context, one *orphan, reason string, why error) error {
	l := letter{d: &one.Delivery, key: one.RoutingKey, reason: reason, keep: reason == reasonRejected}
	if why != nil {
		l.why = why.Error()
	}
	return o.to.answerLetters(ctx, []letter{l})
}

func hopsOf(headers amqp091.Table) int {
	switch n := headers[hopsHeader].(type) {
	case int32:
		return int(n)
	case int64:
		return int(min(max(n, 0), mostHops))
	}
	return 0
}

// timeLeft returns how long a request may still wait; negative if its headers do not contain it.
func timeLeft(d *amqp091.Delivery) time.Duration {
	if ms, ok := d.Headers[leftHeader].(int64); ok {
		return time.Duration(max(0, min(ms, math.MaxInt32))) * time.Millisecond
	}
	if ms, err := strconv.ParseInt(d.Expiration, 10, 64); err == nil {
		return time.Duration(max(0, min(ms, math.MaxInt32))) * time.Millisecond
	}
	return -1
}

// forwardKey forwards the orphans of one key until none is left.
func (o *orphans) forwardKey(ctx context.Context, key string) {
	for {
		o.mu.Lock()
		batch := o.pending[key]
		if len(batch) == 0 {
			delete(o.pending, key)
			o.mu.Unlock()
			return
		}
		o.pending[key] = batch[:0:0]
		patience := o.c.config.OrphanWait
		if o.stuck[key].After(time.Now()) {
			patience = 0
		}
		o.mu.Unlock()
		if err := o.forwardBatch(ctx, key, batch, patience); err != nil && ctx.Err() == nil {
			o.c.log.Warn("orphans are requeued and will be retried", "key", pool.GroupName(key), "requests", len(batch),
				"error", err)
			backoff.Sleep(ctx, o.c.manager.Config().Timing.Interval)
		}
	}
}

// forwardBatch waits for the queue of a key and publishes a batch of orphans to it. It puts them aside if
// there is no queue in time.
func (o *orphans) forwardBatch(ctx context.Context, key string, batch []orphan, patience time.Duration) error {
	again := false
	for i := range batch {
		_, aside := batch[i].Headers[leftHeader]
		again = again || batch[i].hops > 0 && !aside
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	err := o.term.AwaitFor(waiting, key, ownerOf(key, &batch[0]), again)
	cancel()
	if ctx.Err() != nil {
		return ctx.Err() // the broker delivers them again
	}
	o.mu.Lock()
	if err != nil {
		o.stuck[key] = time.Now().Add(3 * asideTime)
	} else {
		delete(o.stuck, key)
	}
	o.mu.Unlock()
	if err != nil {
		return o.putAside(ctx, batch, err)
	}
	out := make([]*sent, len(batch))
	for i := range batch {
		var sendErr error
		if out[i], sendErr = o.out.sendMessage(o.c.names.requestExchange(), pool.GroupName(key), true,
			batch[i].forwardedMessage()); sendErr != nil {
			err = errors.Join(err, sendErr)
		}
	}
	for i, s := range out {
		err = errors.Join(err, o.confirmForward(ctx, &batch[i], s, "forwarded"))
	}
	return err
}

// ownerOf returns the namespace of a group, or else of the timer that made a request; empty if no timer did.
func ownerOf(group string, one *orphan) string {
	if namespace, _ := pool.SplitGroup(group); namespace != "" {
		return namespace
	}
	namespace, _ := one.Headers[namespaceHeader].(string)
	return namespace
}

// groupOf returns the group of an orphan. That of a timer's request is known from its headers, however its
// publisher named it.
func (c *Controller) groupOf(d *amqp091.Delivery) (string, error) {
	config := c.manager.Config()
	namespace, made := d.Headers[namespaceHeader].(string)
	key, named := d.Headers[requestKeyHeader].(string)
	if made && !named { // of an earlier version
		key, named = d.RoutingKey, true
	}
	if made && named && (d.RoutingKey == key || d.RoutingKey == namespace+"/"+key) &&
		rouse.CheckNamespace(namespace) == nil {
		if err := pool.CheckKey(key); err != nil {
			return "", err
		}
		group := config.Group(namespace, key)
		return group, checkGroup(group)
	}
	return config.ParseGroup(d.RoutingKey)
}

// putAside makes orphans wait in another queue. Expired ones are answered.
func (o *orphans) putAside(ctx context.Context, batch []orphan, why error) error {
	out := make([]*sent, len(batch))
	over := make([]bool, len(batch))
	var err error
	for i := range batch {
		m, ok := batch[i].asideMessage(o.c.config.MessageTTL)
		if over[i] = !ok; ok {
			var sendErr error
			out[i], sendErr = o.out.sendMessage(o.c.names.asideExchange(), batch[i].RoutingKey, true, m)
			err = errors.Join(err, sendErr)
		}
	}
	for i := range batch {
		if over[i] {
			o.c.manager.Metrics().Orphan("expired", 0)
			err = errors.Join(err, o.failOrphan(ctx, &batch[i], reasonExpired, why))
			continue
		}
		err = errors.Join(err, o.confirmForward(ctx, &batch[i], out[i], "aside"))
	}
	return err
}

// confirmForward waits for the confirm of a forwarded request, and then removes it from the orphan queue.
func (o *orphans) confirmForward(ctx context.Context, one *orphan, s *sent, outcome string) error {
	if s == nil {
		return one.Nack(false, true)
	}
	returned, err := s.waitForConfirm(ctx)
	if err == nil && returned {
		o.c.manager.Metrics().Orphan("returned", 0)
		err = errors.New("it was returned: there is no queue for it, and none for orphans")
	}
	if err != nil {
		return errors.Join(err, one.Nack(false, true)) // the queue may have it, and then gets it twice
	}
	o.c.manager.Metrics().Orphan(outcome, time.Since(one.came).Seconds())
	return one.Ack(false)
}

// forwardedMessage returns the forwarded message: the request with its remaining time to live.
func (one *orphan) forwardedMessage() amqp091.Publishing {
	m := withoutBrokerHeaders(&one.Delivery)
	m.Headers[hopsHeader] = int32(one.hops + 1)
	delete(m.Headers, leftHeader)
	if one.left >= 0 {
		m.Expiration = strconv.FormatInt(max(0, (one.left-time.Since(one.came)).Milliseconds()), 10)
	}
	return m
}

// asideMessage returns the message that waits aside, with its remaining time; false if there is none. A
// request without a time to live gets the default of the pool.
func (one *orphan) asideMessage(all time.Duration) (amqp091.Publishing, bool) {
	m := withoutBrokerHeaders(&one.Delivery)
	for _, name := range deathHeaders { // otherwise the broker detects a dead-letter cycle
		delete(m.Headers, name)
	}
	left := one.left
	if left < 0 {
		left = all
	}
	left -= time.Since(one.came) + asideTime
	m.Headers[leftHeader] = left.Milliseconds()
	m.Expiration = ""
	return m, left > 0
}
