package amqp

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/amqplink"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/pool"
)

// Caller is a client of the pool: it turns fires of timers into requests, and answers into outcomes.
//
//	fires ─► Deliver ─► {pool}-req-xchg ─► …                      announced fires: Near ─► {pool}-activity-xchg
//	   settle ◄─ answers ◄─ amq.rabbitmq.reply-to ◄─ workers, or the controller
//
// Each process can have a caller, whichever process leads the pool. A confirmed request is durable at the
// broker, and its timer remains in the store until the answer: if an answer is lost with its connection, the
// request is made again with the same correlation id. A Caller is safe for concurrent use.
type Caller struct {
	c    *Controller
	opts pool.CallerOptions

	life context.Context // ends when no further requests may be made
	end  context.CancelFunc

	mu    sync.Mutex
	link  *link  // nil while there is none
	why   string // why there is no connection
	since time.Time
	waits map[string]*waitingRequest // by fire id

	ahead pool.Ahead
}

// NewCaller returns a caller for the pool of a controller. It defers all fires until it runs.
func NewCaller(c *Controller, o pool.CallerOptions) *Caller {
	o.MaxWaiting = cmp.Or(o.MaxWaiting, 10_000)
	if o.Answered == nil {
		o.Answered = func(*rouse.Fire, *rouse.Answer) {}
	}
	a := &Caller{c: c, opts: o, waits: map[string]*waitingRequest{}, why: "it has not been connected to yet",
		since: time.Now()}
	a.life, a.end = context.WithCancel(context.Background())
	return a
}

// Drain defers all requests that wait for an answer, and all new fires.
func (a *Caller) Drain() { a.end() }

// Run keeps a connection to the broker until ctx ends.
func (a *Caller) Run(ctx context.Context) {
	for b := backoff.New(firstWait, longestWait); ctx.Err() == nil; b.Pause(ctx) {
		began := time.Now()
		err := a.runCallSession(ctx)
		if ctx.Err() != nil {
			return
		}
		a.c.log.Warn("requests of timers cannot be sent; reconnecting to the broker", "broker", a.c.host, "error", err)
		if time.Since(began) > longestWait {
			b.Reset()
		}
	}
}

// Obstacle returns why no requests can be made now, or an empty string if they can.
func (a *Caller) Obstacle() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.link != nil && a.link.blocked.Load() {
		return "RabbitMQ at " + a.c.host + " takes no messages, as it is short of memory or disk"
	}
	if a.link == nil {
		return "RabbitMQ at " + a.c.host + " is away: " + a.why
	}
	return ""
}

// link is a connection for requests and answers.
type link struct {
	conn      *amqplink.Conn
	ch        *amqp091.Channel
	blocked   atomic.Bool
	sizeLimit atomic.Int64 // of requests, in bytes; 0 while it is unknown, or if the broker accepts all

	mu   sync.Mutex
	tags map[uint64]string // fire ids of unconfirmed messages, by delivery tag
}

// directReply is the pseudo-queue that delivers answers without a reply queue.
const directReply = "amq.rabbitmq.reply-to"

// runCallSession runs one connection until it breaks or ctx ends.
func (a *Caller) runCallSession(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	conn, err := a.c.dialBroker(ctx, "call")
	if err != nil {
		return a.failWaitingCalls(nil, err)
	}
	defer conn.Cut()
	l := &link{conn: conn, tags: map[uint64]string{}}
	if l.ch, err = conn.OpenChannel(ctx); err != nil {
		return a.failWaitingCalls(nil, err)
	}
	returns := l.ch.NotifyReturn(make(chan amqp091.Return, 64))
	confirms := l.ch.NotifyPublish(make(chan amqp091.Confirmation, 1024))
	answers, err := a.consumeAnswers(ctx, l)
	if err != nil {
		return a.failWaitingCalls(nil, err)
	}
	a.mu.Lock()
	a.link = l
	a.mu.Unlock()
	var parts sync.WaitGroup
	defer parts.Wait()
	defer cancel(nil)
	parts.Go(func() { a.keepWarm(ctx, l) })
	parts.Go(func() { a.learnSizeLimit(ctx, l) })
	parts.Go(func() { cancel(conn.Watch(ctx, func(reason string) { l.blocked.Store(reason != "") }, l.ch)) })
	defer func() { // the client blocks until these are received
		conn.Cut()
		for range returns {
		}
		for range confirms {
		}
		for range answers {
		}
	}()
	for {
		select {
		case d, ok := <-answers:
			if !ok {
				return a.failWaitingCalls(l, waitCause(ctx, errConsumer(directReply)))
			}
			a.handleAnswer(&d)
		case m, ok := <-returns:
			if ok {
				a.finishCall(m.CorrelationId, failedAttempt(int(m.ReplyCode),
					"no queue takes the request, as no manager has set the pool up: "+m.ReplyText))
			}
		case c, ok := <-confirms:
			if ok {
				a.handleConfirm(l, c)
			}
		case <-ctx.Done():
			return a.failWaitingCalls(l, context.Cause(ctx))
		}
	}
}

// learnSizeLimit asks the broker how large requests may be, until it answers or the session ends. Each
// session asks: the broker may have another limit after a restart.
func (a *Caller) learnSizeLimit(ctx context.Context, l *link) {
	warned := false
	for b := backoff.New(firstWait, longestWait); ctx.Err() == nil; b.Pause(ctx) {
		limit, err := a.findSizeLimit(ctx)
		if err == nil {
			l.sizeLimit.Store(int64(limit))
			return
		}
		if ctx.Err() == nil && !warned {
			warned = true
			a.c.log.Warn("it is unknown how large requests may be; asking again until it is", "broker", a.c.host, "error", err)
		}
	}
}

// findSizeLimit asks the broker how large requests may be, on a separate connection: while RabbitMQ is short
// of memory or disk, it does not answer, and blocks the connection.
func (a *Caller) findSizeLimit(ctx context.Context) (limit int, err error) {
	conn, err := a.c.dialBroker(ctx, "size")
	if err != nil {
		return 0, err
	}
	return conn.FindSizeLimit(ctx, rouse.MaxPayload)
}

// consumeAnswers starts to consume answers on a channel with confirms.
func (a *Caller) consumeAnswers(ctx context.Context, l *link) (<-chan amqp091.Delivery, error) {
	defer l.conn.Limit(ctx)()
	if err := l.ch.Confirm(false); err != nil {
		return nil, fmt.Errorf("ask for confirms: %w", err)
	}
	answers, err := l.ch.Consume(directReply, "", true, true, false, false, nil)
	if err != nil {
		return nil, fmt.Errorf("ask for answers: %w", err)
	}
	return answers, nil
}

// failWaitingCalls records that the connection is gone. Requests that wait for an answer on it fail, because
// the answer cannot arrive any more.
func (a *Caller) failWaitingCalls(l *link, err error) error {
	a.mu.Lock()
	a.why = err.Error()
	var left []*waitingRequest
	if l != nil && a.link == l {
		a.link, a.since = nil, time.Now()
		for id, w := range a.waits {
			left = append(left, w)
			delete(a.waits, id)
		}
	}
	a.mu.Unlock()
	for _, w := range left {
		w.reportToBatch(failedAttempt(0,
			"no answer came before RabbitMQ was lost, and a worker may have had the request: "+err.Error()))
	}
	return err
}
