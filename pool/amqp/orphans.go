package amqp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/pool"
)

// hopsHeader counts how often a request was forwarded. It comes back when its queue was unbound in between, which is rare.
const hopsHeader = "x-rouse-hops"

// mostHops is after how many it is given up: something is wrong with its binding that making it anew does not mend.
const mostHops = 10

// consume begins to consume a queue, on a channel of its own.
func (c *Controller) consume(ctx context.Context, conn *connection, queue string, prefetch int) (<-chan amqp091.Delivery, error) {
	ch, err := conn.channel(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.limit(ctx)()
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return nil, fmt.Errorf("consume %s: %w", queue, err)
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return nil, fmt.Errorf("consume %s: %w", queue, err)
	}
	return deliveries, nil
}

// errConsumer is that the broker ended a consumer, as it does when a queue is deleted or loses its leader.
func errConsumer(queue string) error {
	return fmt.Errorf("the broker does not deliver from %s any more", queue)
}

// orphans are the orphans of a session that wait for the queues of their keys. Each key is waited for by a goroutine of its own,
// so that none waits for another.
type orphans struct {
	c    *Controller
	term *pool.Term
	out  *publisher
	uses sync.WaitGroup

	mu      sync.Mutex
	pending map[string][]orphan // by key; there is an entry while there is a goroutine
}

type orphan struct {
	amqp091.Delivery
	came time.Time
	hops int
}

// processOrphans takes orphans until ctx ends or the broker has no more.
func (c *Controller) processOrphans(ctx context.Context, conn *connection, term *pool.Term, out *publisher) error {
	deliveries, err := c.consume(ctx, conn, c.names.orphans(), c.config.OrphanWindow)
	if err != nil {
		return err
	}
	o := &orphans{c: c, term: term, out: out, pending: map[string][]orphan{}}
	defer o.uses.Wait()
	for {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return errConsumer(c.names.orphans())
			}
			if err := o.take(ctx, d); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// take lets an orphan wait for its queue.
func (o *orphans) take(ctx context.Context, d amqp091.Delivery) error {
	one := orphan{Delivery: d, came: time.Now(), hops: hops(d.Headers)}
	key := d.RoutingKey
	if err := pool.CheckKey(key); err != nil || one.hops >= mostHops {
		if err == nil {
			err = fmt.Errorf("it came back %d times from its queue", one.hops)
		}
		o.c.log.Warn("a request is refused", "key", key, "error", err)
		o.c.manager.Metrics().Orphan("refused", 0)
		return d.Reject(false) // and so answered as a dead letter
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	waiting, served := o.pending[key]
	o.pending[key] = append(waiting, one)
	if !served {
		o.uses.Go(func() { o.serve(ctx, key) })
	}
	return nil
}

func hops(headers amqp091.Table) int {
	switch n := headers[hopsHeader].(type) {
	case int32:
		return int(n)
	case int64:
		return int(min(max(n, 0), mostHops))
	}
	return 0
}

// serve forwards the orphans of one key, until there are none.
func (o *orphans) serve(ctx context.Context, key string) {
	for {
		o.mu.Lock()
		batch := o.pending[key]
		if len(batch) == 0 {
			delete(o.pending, key)
			o.mu.Unlock()
			return
		}
		o.pending[key] = batch[:0:0]
		o.mu.Unlock()
		if err := o.forward(ctx, key, batch); err != nil && ctx.Err() == nil {
			o.c.log.Warn("orphans are given back, to be tried again", "key", key, "requests", len(batch), "error", err)
			pause(ctx, o.c.manager.Config().Timing.Interval)
		}
	}
}

// forward waits for the queue of a key, and publishes what came before it. What it cannot publish it gives back to the orphan
// queue, where it may expire.
func (o *orphans) forward(ctx context.Context, key string, batch []orphan) error {
	again := false
	for i := range batch {
		again = again || batch[i].hops > 0
	}
	waiting, cancel := context.WithTimeout(ctx, o.c.config.OrphanWait)
	err := o.term.Await(waiting, key, again)
	cancel()
	if err != nil {
		for i := range batch {
			err = errors.Join(err, batch[i].Nack(false, true))
		}
		return err
	}
	out := make([]*sent, len(batch))
	for i := range batch {
		var sendErr error
		if out[i], sendErr = o.out.send(o.c.names.requestExchange(), key, batch[i].message()); sendErr != nil {
			err = errors.Join(err, sendErr)
		}
	}
	for i, s := range out {
		err = errors.Join(err, o.settle(ctx, &batch[i], s))
	}
	return err
}

// settle waits for the confirm of a request that was forwarded, and takes it from the orphan queue then.
func (o *orphans) settle(ctx context.Context, one *orphan, s *sent) error {
	if s == nil {
		return one.Nack(false, true)
	}
	returned, err := s.wait(ctx)
	if err == nil && returned {
		o.c.manager.Metrics().Orphan("returned", 0)
		err = errors.New("it came back, as there is no queue for it, and none for orphans")
	}
	if err != nil {
		return errors.Join(err, one.Nack(false, true)) // the queue may have it, and get it once more
	}
	o.c.manager.Metrics().Orphan("forwarded", time.Since(one.came).Seconds())
	return one.Ack(false)
}

// message is what is published: the request as it came, with the time that is left to it.
func (one *orphan) message() amqp091.Publishing {
	m := again(&one.Delivery)
	m.Headers[hopsHeader] = int32(one.hops + 1)
	if left, err := strconv.ParseInt(m.Expiration, 10, 64); err == nil {
		m.Expiration = strconv.FormatInt(max(0, left-time.Since(one.came).Milliseconds()), 10)
	}
	return m
}
