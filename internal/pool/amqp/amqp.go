// Package amqp is the transport of pools over RabbitMQ (3.10 or later, with its management plugin): clients
// publish requests for a key to an exchange, and workers in any language consume them from the queue of their
// key, without a rouse process in between. Requests without a queue reach the controller as orphans, requests
// that their queue drops as dead letters.
//
//	{pool}-req-xchg ──key──► {pool}-req-{key} ──► workers ──► the client's reply queue
//	       │ no queue is bound                │ expired, delivered too often, rejected
//	       ▼                                  ▼
//	{pool}-orphan-xchg ─► {pool}-orphan     {pool}-dl-xchg ─► {pool}-dl
//	       │ ▲ orphans.go: wait for the queue, forward  │ deadletters.go: an error answer, and {pool}-poison
//	       ▼ │ no queue yet: after a second
//	    {pool}-aside
//	{pool}-activity-xchg ─► {pool}-activity    reports of workers, activity.go
//	{pool}-lock    exclusive: its owner leads, lock.go
//
// All lasting objects are durable. All tunable parameters are in policies, which setup.go writes before it
// declares any queue.
//
// Properties of RabbitMQ that shape this package:
//   - A time to live applies only while a message waits: it never takes a request away from a worker.
//   - Dead-lettered and returned messages can be forged, so only headers that the broker writes are trusted.
//   - Quorum queues cannot be deleted under the condition that they are empty and unused, so the queue loop
//     of package pool verifies both before.
//   - A connection or queue may refuse a single message. Only that message fails: the session continues.
//   - Quorum queues do not enforce exclusive consumers, so the lock is an exclusive queue.
package amqp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/amqplink"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/pool"
)

// Config is the RabbitMQ part of a pool's configuration.
type Config struct {
	URL        string // amqp:// or amqps://, with user, password and virtual host
	Management string // URL of the management plugin's HTTP API; if empty, http with host and user of URL and port 15672
	WorkerURL  string // for workers; URL if empty

	Classic    bool          // classic request queues instead of quorum queues: less to write, and no delivery limit
	MessageTTL time.Duration // how long a request may wait in total for a worker; 1m if zero
	// delivery limit: a request that workers reject or die with more often is poison; 3 if zero
	DeliveryLimit int
	MaxLength     int // of a request queue; the oldest requests are given up beyond that; none if zero
	// how long a worker may hold a request; RabbitMQ 3.12 or later; the broker's default if zero
	ConsumerTimeout time.Duration
	StallTimeout    time.Duration // workers that hold requests without a report for so long are replaced; never if zero
	PoisonLimit     int           // how many poison requests are kept; the oldest are dropped; 10000 if zero
	Prefetch        int           // WORKER_PREFETCH: how many requests a worker may hold; 1 if zero

	OrphanWindow int           // how many orphans may wait for their queues at the same time; 1000 if zero
	OrphanWait   time.Duration // how long to wait for the queue of an orphan before it is put aside; 1s if zero
	Timeout      time.Duration // of each step with the broker; 10s if zero
	LockPoll     time.Duration // how often a process that stands by tries to get the lock; 250ms if zero
	// how long permanent errors are retried, as brokers return them during their start; 10s if zero
	Refusals     time.Duration
	ReleaseAfter time.Duration // a process that stood by for so long releases its workers; 30s if zero
}

// Controller manages a pool: it leads, or stands by for the process that does.
type Controller struct {
	config  Config
	manager *pool.Manager
	names   names
	log     *slog.Logger
	api     *management
	vhost   string
	host    string // of the broker, for messages
	lines   pool.Sparse

	mu     sync.Mutex
	state  string
	leader string     // another process, while it leads
	led    bool       // it has led before
	since  time.Time  // when the broker, or the server at its address, began to refuse it; zero if it does not
	poison *inventory // of the term; nil if this process does not lead
	short  int        // how many sessions in a row ended soon after they had begun to lead
}

// New returns a controller, which is idle until Run.
func New(c Config, m *pool.Manager) (*Controller, error) {
	p := m.Config()
	fail := func(field, value, wrong, cure string) (*Controller, error) {
		return nil, fmt.Errorf("pool %q: %w", p.Name, rouse.Refuse(field, value, wrong, cure))
	}
	u, err := amqp091.ParseURI(c.URL)
	if err != nil {
		return fail("amqp", "", "is no URL of a RabbitMQ: "+amqplink.WithoutURL(err),
			"write one such as amqp://user:password@host:5672/vhost")
	}
	if c.WorkerURL == "" {
		c.WorkerURL = c.URL
	} else if _, err := amqp091.ParseURI(c.WorkerURL); err != nil {
		return fail("worker_amqp", "", "is no URL of a RabbitMQ: "+amqplink.WithoutURL(err),
			"write one such as amqp://user:password@host:5672/vhost")
	}
	if c.Management == "" {
		api := url.URL{Scheme: "http", Host: fmt.Sprintf("%s:15672", u.Host), User: url.UserPassword(u.Username, u.Password)}
		c.Management = api.String()
	}
	api, err := newManagement(c.Management)
	if err != nil {
		return fail("management", "", "is no URL of RabbitMQ's HTTP API: "+err.Error(),
			"write one such as http://user:password@host:15672")
	}
	if c.Classic && c.DeliveryLimit != 0 {
		return fail("delivery_limit", fmt.Sprint(c.DeliveryLimit), "is ignored by classic queues",
			"leave it out, or leave queue_type at quorum")
	}
	for _, n := range []struct {
		name      string
		value     *int
		def, most int
	}{{"delivery_limit", &c.DeliveryLimit, 3, 1_000_000}, {"max_length", &c.MaxLength, 0, 1 << 30},
		{"poison_limit", &c.PoisonLimit, 10_000, 1_000_000},
		{"prefetch", &c.Prefetch, 1, 65535}, {"orphan_window", &c.OrphanWindow, 1000, 65535}} {
		if *n.value < 0 || *n.value > n.most {
			return fail(n.name, fmt.Sprint(*n.value), "is out of range", fmt.Sprintf("leave it out, or give 1 to %d", n.most))
		}
		if *n.value == 0 {
			*n.value = n.def
		}
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{{"message_ttl", &c.MessageTTL, time.Minute}, {"consumer_timeout", &c.ConsumerTimeout, 0},
		{"stall_timeout", &c.StallTimeout, 0},
		{"orphan_wait", &c.OrphanWait, time.Second},
		{"timeout", &c.Timeout, 10 * time.Second}, {"refusals", &c.Refusals, 10 * time.Second},
		{"lock_poll", &c.LockPoll, 250 * time.Millisecond}, {"release_after", &c.ReleaseAfter, 30 * time.Second}} {
		if *d.value < 0 || *d.value > 0 && *d.value < time.Millisecond {
			return fail(d.name, d.value.String(), "is no such duration", "leave it out, or give at least 1ms")
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	if least := 3 * p.Timing.Settle; p.MaxWork < least {
		return fail("max_work", p.MaxWork.String(),
			"is too short, because RabbitMQ counts the requests of workers some seconds late",
			"leave it out, or give at least "+least.String())
	}
	for i, name := range p.Pinned {
		group, err := p.ParseGroup(name)
		if err == nil {
			err = checkGroup(group)
		}
		if err != nil {
			return nil, fmt.Errorf("pool %q: %w", p.Name, rouse.Under(fmt.Sprintf("pinned[%d]", i), err))
		}
	}
	return &Controller{config: c, manager: m, names: names{p.Name}, log: m.Log(), api: api, vhost: u.Vhost,
		host: fmt.Sprintf("%s:%d", u.Host, u.Port), state: pool.StateConnecting}, nil
}

// State returns whether the controller connects, stands by or leads.
func (c *Controller) State() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

func (c *Controller) enterState(state string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = state
	c.led = c.led || state == pool.StateLeading
}

// isPermanent reports whether an error is permanent: it has persisted for a while. A starting broker refuses
// users for a moment. A controller that has led before has workers to look after and keeps retrying.
func (c *Controller) isPermanent(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !errors.Is(err, ErrSetup) {
		c.since = time.Time{}
		return false
	}
	if c.since.IsZero() {
		c.since = time.Now()
	}
	return !c.led && time.Since(c.since) >= c.config.Refusals
}

// The shortest and longest backoff between two sessions.
const (
	firstWait   = 100 * time.Millisecond
	longestWait = 5 * time.Second
)

// Run leads the pool, or stands by, until ctx ends. It reconnects and sets up again after every failure. A
// permanent error, such as a missing permission, ends it with ErrSetup, unless it has led before.
func (c *Controller) Run(ctx context.Context) error {
	defer c.api.client.CloseIdleConnections()
	for b := backoff.New(firstWait, longestWait); ctx.Err() == nil; b.Pause(ctx) {
		began := time.Now()
		err := c.runPoolSession(ctx)
		if ctx.Err() != nil {
			break
		}
		if c.isPermanent(err) {
			return fmt.Errorf("pool %s: %w", c.names.pool, err)
		}
		c.manager.Metrics().Failed("session")
		c.log.Warn("the session with RabbitMQ ended; reconnecting", "broker", c.host, "error", err)
		if time.Since(began) > longestWait {
			b.Reset()
		}
	}
	return nil
}

// carefulAfter is how many sessions in a row must fail alike before messages are consumed one by one. The
// message that ends the sessions then reaches its delivery limit alone, and not together with all that were
// prefetched with it.
const carefulAfter = 3

// consumesOneByOne reports whether messages are consumed one by one.
func (c *Controller) consumesOneByOne() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.short >= carefulAfter
}

// endCarefulMode ends the careful mode after a session that worked for a while.
func (c *Controller) endCarefulMode() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.short = 0
}

// recordSessionLength records how long a session led.
func (c *Controller) recordSessionLength(led time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.short++; led > longestWait {
		c.short = 0
	}
	if c.short == carefulAfter {
		c.log.Warn("sessions end soon after their start; messages are consumed one by one for now", "sessions", c.short)
	}
}

// runPoolSession connects, waits for the lock, sets up, and manages the pool until something breaks.
func (c *Controller) runPoolSession(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer c.enterState(pool.StateConnecting)
	in, err := c.dialBroker(ctx, "lock")
	if err != nil {
		return err
	}
	defer in.Cut()
	defer in.Guard(cancel)()
	if err := c.acquirePoolLock(ctx, in); err != nil {
		return causeOrError(ctx, err)
	}
	if err := c.setUpPolicies(ctx); err != nil {
		return causeOrError(ctx, err)
	}
	out, err := c.dialBroker(ctx, "publish")
	if err != nil {
		return causeOrError(ctx, err)
	}
	defer out.Cut()
	defer out.Guard(cancel)()
	if err := c.setUp(ctx, out); err != nil {
		return causeOrError(ctx, err)
	}
	return causeOrError(ctx, c.managePool(ctx, cancel, out))
}

// causeOrError returns the cause of a context if it has ended, and err otherwise: the first failure is the
// relevant one.
func causeOrError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// managePool manages the pool until ctx ends.
func (c *Controller) managePool(ctx context.Context, cancel context.CancelCauseFunc, out *amqplink.Conn) error {
	control := &queues{c: c, conn: out, free: make(chan *amqp091.Channel, c.manager.Config().Timing.Parallel)}
	term, err := c.manager.Begin(ctx, control)
	if err != nil {
		return err
	}
	defer term.Wait()
	defer cancel(nil)
	publisher, err := c.newPublisher(ctx, out)
	if err != nil {
		return err
	}
	answers, err := c.newPublisher(ctx, out)
	if err != nil {
		return err
	}
	to := &mailbox{c: c, term: term, out: answers}
	began := time.Now()
	defer func() { c.recordSessionLength(time.Since(began)) }()
	c.log.Info("this process leads the pool", "broker", c.host)
	c.enterState(pool.StateLeading)
	c.manager.Metrics().Leads(true)
	defer c.manager.Metrics().Leads(false)
	c.setInventory(&inventory{c: c, publisher: publisher})
	defer c.setInventory(nil)

	var parts sync.WaitGroup
	defer parts.Wait()
	defer cancel(nil)
	for _, part := range []func(context.Context) error{
		publisher.handleReturns,
		answers.handleReturns,
		func(ctx context.Context) error { return c.processOrphans(ctx, term, publisher, to) },
		func(ctx context.Context) error { return c.answerDeadLetters(ctx, to) },
		func(ctx context.Context) error { return c.noteActivity(ctx, term) },
		func(ctx context.Context) error { c.measureLoads(ctx, term); return nil },
	} {
		parts.Go(func() {
			if err := part(ctx); err != nil {
				cancel(err)
			}
		})
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (c *Controller) setInventory(i *inventory) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.poison = i
}
