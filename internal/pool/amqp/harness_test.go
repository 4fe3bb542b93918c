package amqp

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/driver/subprocess"
	"github.com/rousehq/rouse/test/servers"
)

// harness is a pool on its own virtual host, whose workers are this test binary.
type harness struct {
	t       testing.TB
	url     string
	api     string
	boots   string // a directory with a file for each started worker
	config  Config
	manager pool.Config
	driver  driver.Driver
	drain   time.Duration // grace period of its workers
	pause   time.Duration // initial backoff before a worker is restarted
	ctl     *Controller
	stop    func() // stops the controller and waits for its end
	log     *testLog
}

// quick are delays that let a test observe the whole life of a group. They are longer than a worker takes to
// start on a busy machine: else groups are stopped before they have done anything, again and again.
var quick = pool.Delays{Unbind: 1800 * time.Millisecond, Stop: 1200 * time.Millisecond}

// slow are delays within which no group is stopped.
var slow = pool.Delays{Unbind: time.Hour, Stop: time.Hour}

// newHarness prepares a pool; start starts it.
func newHarness(t testing.TB, d pool.Delays) *harness {
	t.Helper()
	address, api := servers.ManagedRabbitMQ(t)
	return harnessAt(t, address, api, d)
}

func harnessAt(t testing.TB, address, api string, d pool.Delays) *harness {
	h := &harness{t: t, url: address, api: api, boots: t.TempDir(), log: &testLog{}, drain: 10 * time.Second, pause: 50 * time.Millisecond}
	t.Cleanup(h.print)
	h.config = Config{URL: address, Management: api, MessageTTL: time.Minute, DeliveryLimit: 2, LockPoll: 20 * time.Millisecond}
	h.manager = pool.Config{Name: "core", Delays: d, MaxWork: time.Hour, ExtraLifetime: 50 * time.Millisecond, Log: slog.New(slog.NewTextHandler(h.log, nil)),
		Timing: pool.Timing{Interval: 100 * time.Millisecond, Settle: 1500 * time.Millisecond, Rest: time.Second, Listing: time.Second}}
	return h
}

// newDriver gives the harness a driver of processes.
func (h *harness) newDriver() *subprocess.Driver {
	h.t.Helper()
	d, err := subprocess.New(subprocess.Config{Pool: "core", Command: []string{os.Args[0]}, FirstPause: h.pause, LongestPause: max(h.pause, time.Minute), Drain: h.drain,
		Env: map[string]string{"GORACE": "atexit_sleep_ms=0", "TEST_BOOTS": h.boots}, Log: h.manager.Log})
	if err != nil {
		h.t.Fatal(err)
	}
	return d
}

// print prints the log if the test has failed.
func (h *harness) print() {
	if h.t.Failed() {
		h.t.Log(h.log.String())
	}
}

// start starts a controller, which ends at the latest with the test.
func (h *harness) start() *harness {
	h.t.Helper()
	if h.driver == nil {
		h.driver = h.newDriver()
		h.t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), poll.Patience)
			defer cancel()
			if err := h.driver.Close(ctx); err != nil {
				h.t.Error(err)
			}
		})
	}
	h.ctl, h.stop = h.controller(h.driver)
	return h
}

func (h *harness) controller(d driver.Driver) (*Controller, func()) {
	h.t.Helper()
	c := h.manager
	c.Driver, c.Metrics = d, pool.NewRegistry(prometheus.NewRegistry()).Pool(c.Name)
	m, err := pool.NewManager(c)
	if err != nil {
		h.t.Fatal(err)
	}
	ctl, err := New(h.config, m)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := ctl.Run(ctx); err != nil {
			h.t.Errorf("the controller ended: %v", err)
		}
	})
	var once sync.Once
	stop := func() { once.Do(func() { cancel(); running.Wait() }) }
	h.t.Cleanup(stop)
	h.eventually("a controller has set up the pool", h.isSetUp)
	return ctl, stop
}

// isSetUp reports whether requests can be published.
func (h *harness) isSetUp() bool {
	return h.try(func(ch *amqp091.Channel) error {
		return ch.ExchangeDeclarePassive("core-req-xchg", "direct", true, false, false, false, nil)
	}) == nil
}

// eventually waits until a condition holds.
func (h *harness) eventually(what string, holds func() bool) {
	h.t.Helper()
	poll.Until(h.t, what, holds)
}

// try makes calls to the broker on a separate connection.
func (h *harness) try(f func(ch *amqp091.Channel) error) error {
	conn, err := amqp091.Dial(h.url)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // of a test
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return f(ch)
}

// publish publishes messages, and waits until the broker has them: it loses the last ones of a connection
// that is closed right after it sent them.
func (h *harness) publish(exchange, key string, messages ...amqp091.Publishing) {
	h.t.Helper()
	if err := h.try(func(ch *amqp091.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		for _, m := range messages {
			confirm, err := ch.PublishWithDeferredConfirm(exchange, key, true, false, m)
			if err != nil {
				return err
			}
			if !confirm.Wait() {
				return fmt.Errorf("the broker did not take %+v", m)
			}
		}
		return nil
	}); err != nil {
		h.t.Fatal(err)
	}
}

// queue returns the state of a queue, and whether it exists.
func (h *harness) queue(name string) (amqp091.Queue, bool) {
	var q amqp091.Queue
	err := h.try(func(ch *amqp091.Channel) (err error) {
		q, err = ch.QueueDeclarePassive(name, true, false, false, false, nil)
		return err
	})
	return q, err == nil
}

// vhost returns the virtual host of the pool.
func (h *harness) vhost() string { return h.url[strings.LastIndexByte(h.url, '/')+1:] }

// bound reports whether the queue of a key is bound.
func (h *harness) bound(key string) bool {
	h.t.Helper()
	m, err := newManagement(h.api)
	if err != nil {
		h.t.Fatal(err)
	}
	defer m.client.CloseIdleConnections()
	bound, err := m.boundTo(h.t.Context(), h.vhost(), "core-req-xchg")
	return err == nil && bound[names{"core"}.requestQueue(key)]
}

// started returns how many workers were started.
func (h *harness) started() int {
	h.t.Helper()
	list, err := os.ReadDir(h.boots)
	if err != nil {
		h.t.Fatal(err)
	}
	return len(list)
}

// client makes requests, with direct reply-to.
type client struct {
	h    *harness
	conn *amqp091.Connection
	ch   *amqp091.Channel

	mu      sync.Mutex
	next    int
	waiting map[string]chan amqp091.Delivery
	extra   int // unexpected answers
	reading sync.WaitGroup
}

func (h *harness) client() *client {
	h.t.Helper()
	conn, err := amqp091.Dial(h.url)
	if err != nil {
		h.t.Fatal(err)
	}
	ch, err := conn.Channel()
	if err != nil {
		h.t.Fatal(err)
	}
	c := &client{h: h, conn: conn, ch: ch, waiting: map[string]chan amqp091.Delivery{}}
	answers, err := ch.Consume("amq.rabbitmq.reply-to", "", true, false, false, false, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	c.reading.Go(func() {
		for d := range answers {
			c.mu.Lock()
			if w := c.waiting[d.CorrelationId]; w != nil {
				delete(c.waiting, d.CorrelationId)
				w <- d
			} else {
				c.extra++
			}
			c.mu.Unlock()
		}
	})
	h.t.Cleanup(c.close)
	return c
}

func (c *client) close() {
	_ = c.conn.Close() // the broker may have closed it
	c.reading.Wait()
}

// send publishes a request and returns a channel for the answer.
func (c *client) send(key, body string) <-chan amqp091.Delivery {
	c.h.t.Helper()
	return c.publish(key, amqp091.Publishing{Body: []byte(body)})
}

func (c *client) publish(key string, m amqp091.Publishing) <-chan amqp091.Delivery {
	c.h.t.Helper()
	c.mu.Lock()
	c.next++
	m.CorrelationId, m.ReplyTo = fmt.Sprint("request ", c.next), "amq.rabbitmq.reply-to"
	answer := make(chan amqp091.Delivery, 1)
	c.waiting[m.CorrelationId] = answer
	c.mu.Unlock()
	if err := c.ch.Publish("core-req-xchg", key, true, false, m); err != nil {
		c.h.t.Errorf("publish: %v", err)
	}
	return answer
}

// repeated returns how many answers came to requests that had one. If a session ended, there may be some:
// what was under way is delivered again.
func (c *client) repeated() int {
	if c.h.sessions() > 1 {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.extra
}

// answer waits for an answer.
func (c *client) answer(from <-chan amqp091.Delivery) (status, body string, d amqp091.Delivery) {
	c.h.t.Helper()
	select {
	case d := <-from:
		status, _ := d.Headers[statusHeader].(string)
		return status, string(d.Body), d
	case <-time.After(poll.Patience):
		if c.h.ctl == nil { // it is another process
			c.h.t.Fatal("no answer came")
		}
		c.h.t.Fatalf("no answer came; the pool is %+v", c.h.ctl.manager.View())
		return "", "", amqp091.Delivery{}
	}
}

// call sends a request and checks the answer.
func (c *client) call(key, body, wantStatus, wantBody string) amqp091.Delivery {
	c.h.t.Helper()
	status, got, d := c.answer(c.send(key, body))
	if status != wantStatus || got != wantBody {
		c.h.t.Fatalf("the request %q for %q was answered %q with %q, not %q with %q", body, key, status, got, wantStatus, wantBody)
	}
	return d
}

// testLog keeps the log for failed tests.
type testLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *testLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *testLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
