package jetstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/queue"
	"github.com/rousehq/rouse/internal/queue/internal/held"
)

// Size of a fetch, and how long it waits for the last message. The shutdown of a consumer waits for it.
const (
	maxFetch = 256
	fetchFor = time.Second // the minimum of the client with heartbeats
)

// The shortest and longest backoff after a failure of the server.
const (
	firstWait   = 20 * time.Millisecond
	longestWait = time.Second
)

// Unsettled messages are keyed by receipt: a message that is delivered again before it is settled is another
// delivery.
type receipts = held.Set[*receipt, *receipt]

// Consume fetches as many messages as places are free.
func (q *Queue) Consume(ctx context.Context, prefetch int, handle func(queue.Delivery)) error {
	if err := q.uses.Begin(); err != nil {
		return err
	}
	defer q.uses.Done()
	take, endTaking := context.WithCancel(ctx)
	defer endTaking()
	defer context.AfterFunc(q.life, endTaking)()
	keep, endKeeping := context.WithCancel(q.life)
	defer endKeeping()

	out := held.New[*receipt, *receipt](prefetch)
	var extender sync.WaitGroup
	extender.Go(func() { q.keepLoop(keep, out) })
	q.fetchLoop(take, out, handle)
	err := out.Drain(q.life)
	endKeeping()
	extender.Wait()
	if err != nil || ctx.Err() == nil {
		return queue.ErrClosed
	}
	return nil
}

func (q *Queue) fetchLoop(ctx context.Context, out *receipts, handle func(queue.Delivery)) {
	var consumer jetstream.Consumer
	for b := backoff.New(firstWait, longestWait); ; {
		n := out.Reserve(ctx, maxFetch)
		if n == 0 {
			return
		}
		var err error
		if consumer == nil {
			consumer, err = q.findConsumer(ctx)
		}
		if err == nil {
			n, err = q.fetchBatch(ctx, consumer, n, out, handle)
		}
		out.Return(n)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			b.Reset()
			continue
		}
		consumer = nil // it may be gone
		q.opts.Failed(err)
		if !b.Pause(ctx) {
			return
		}
	}
}

// findConsumer returns the consumer. If it or the stream was deleted, find creates them again.
func (q *Queue) findConsumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, q.opts.Timeout)
	defer cancel()
	c, err := q.js.Consumer(ctx, q.opts.Name, durable)
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) {
		if err = errors.Join(q.makeStream(ctx), q.makeConsumer(ctx)); err == nil {
			c, err = q.js.Consumer(ctx, q.opts.Name, durable)
		}
	}
	if err != nil {
		return nil, q.classifyError("find the consumer", err)
	}
	return c, nil
}

// fetchBatch passes on up to n messages, in reserved places. It returns how many places are left.
func (q *Queue) fetchBatch(ctx context.Context, consumer jetstream.Consumer, n int, out *receipts,
	handle func(queue.Delivery)) (int, error) {
	batch, err := consumer.Fetch(n, jetstream.FetchMaxWait(fetchFor))
	if err != nil {
		return n, q.classifyError("fetch", err)
	}
	for msg := range batch.Messages() {
		n--
		r := &receipt{q: q, out: out, msg: msg}
		out.Put(r, r)
		d := queue.Delivery{Message: queue.Message{ID: msg.Headers().Get(idHeader), Body: msg.Data()}, Deliveries: 1,
			Receipt: r}
		if m, err := msg.Metadata(); err == nil {
			d.Deliveries = int(m.NumDelivered)
		}
		if ctx.Err() != nil {
			_ = r.Nack(ctx) // if that is lost, it is delivered again after the visibility timeout
			continue
		}
		handle(d)
	}
	if err := batch.Error(); err != nil {
		return n, q.classifyError("fetch", err)
	}
	return n, nil
}

// keepLoop reports to the server that unsettled messages are in progress, until ctx ends.
func (q *Queue) keepLoop(ctx context.Context, out *receipts) {
	for backoff.Sleep(ctx, q.opts.Visibility/3) {
		for _, r := range out.All() {
			if r.msg.InProgress() != nil {
				break // no connection: retry at the next tick
			}
		}
	}
}

// receipt settles one delivery.
type receipt struct {
	q   *Queue
	out *receipts
	msg jetstream.Msg
}

func (r *receipt) Ack(context.Context) error { return r.endReceipt(r.msg.Ack) }

func (r *receipt) Nack(context.Context) error { return r.endReceipt(r.msg.Nak) }

// endReceipt settles with the server without waiting for the answer: if the call is lost, the message is
// delivered again.
func (r *receipt) endReceipt(say func() error) error {
	defer r.out.Remove(r)
	if r.q.life.Err() != nil {
		return queue.ErrClosed
	}
	if err := say(); err != nil {
		return r.q.classifyError("settle "+r.msg.Headers().Get(idHeader), err)
	}
	return nil
}

var _ queue.Queue = (*Queue)(nil)
