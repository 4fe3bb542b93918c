package amqplink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/rousehq/rouse/test/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dial opens a connection that is closed at the end of the test.
func dial(t *testing.T, o Options) *Conn {
	t.Helper()
	o.Name = "test"
	c, err := Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Cut)
	return c
}

// TestDialEnds checks that Dial to an address that does not answer ends with the timeout, and with the
// caller's context.
func TestDialEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts connections, and nothing reads them
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // of a test
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for name, c := range map[string]struct {
		ctx     context.Context
		timeout time.Duration
	}{"timeout": {t.Context(), 50 * time.Millisecond}, "context": {ctx, time.Hour}} {
		if conn, err := Dial(c.ctx, Options{URL: "amqp://guest:secret@" + l.Addr().String(), Timeout: c.timeout}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, %v", name, conn, err)
		}
	}
}

// TestCallsEnd checks that a call on a connection with a silent broker ends with the timeout, and that Watch
// then returns.
func TestCallsEnd(t *testing.T) {
	u, err := url.Parse(servers.RabbitMQ(t))
	if err != nil {
		t.Fatal(err)
	}
	proxy := servers.NewProxy(t, u.Host)
	u.Host = proxy.Addr()
	c := dial(t, Options{URL: u.String(), Timeout: 5 * time.Second})
	c.timeout = 100 * time.Millisecond
	ended := make(chan error, 1)
	stop := c.Guard(func(err error) { ended <- err })
	proxy.CutToClient()
	if ch, err := c.OpenChannel(t.Context()); err == nil {
		t.Errorf("a silent broker has opened the channel %v", ch)
	}
	if err := <-ended; err == nil {
		t.Error("there is no reason for the end")
	}
	stop()
}

// TestWatch checks that a watched connection ends with its channels and with the context, and that Watch
// returns the reason.
func TestWatch(t *testing.T) {
	address := servers.RabbitMQ(t)
	mine := errors.New("mine")
	for name, c := range map[string]struct {
		end  func(c *Conn, ch *amqp091.Channel, cancel context.CancelCauseFunc)
		text string
	}{
		"context": {func(_ *Conn, _ *amqp091.Channel, cancel context.CancelCauseFunc) { cancel(mine) }, "mine"},
		"cut":     {func(c *Conn, _ *amqp091.Channel, _ context.CancelCauseFunc) { c.Cut() }, "the connection"},
		"a mistake": {func(_ *Conn, ch *amqp091.Channel, _ context.CancelCauseFunc) {
			_ = ch.Publish("none", "", false, false, amqp091.Publishing{})
		}, "NOT_FOUND"},
		"the caller": {func(c *Conn, _ *amqp091.Channel, _ context.CancelCauseFunc) { _ = c.Close() }, "the connection was closed"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, Options{URL: address, Timeout: 10 * time.Second})
			ch, err := conn.OpenChannel(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			why := make(chan error, 1)
			go func() { why <- conn.Watch(ctx, nil, ch) }()
			c.end(conn, ch, cancel)
			if err := <-why; err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("it ended because %v", err)
			}
			if !conn.IsClosed() {
				t.Error("the connection is open")
			}
		})
	}
}

// TestPublisher checks the result for each message: confirmed, returned, refused, or lost with the
// connection.
func TestPublisher(t *testing.T) {
	conn := dial(t, Options{URL: servers.RabbitMQ(t), Timeout: 10 * time.Second})
	p, err := conn.NewPublisher(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(p.Run)
	for name, args := range map[string]amqp091.Table{"open": nil, "full": {"x-max-length": int32(0), "x-overflow": "reject-publish"}} {
		if _, err := p.Channel().QueueDeclare(name, false, false, false, false, args); err != nil {
			t.Fatal(err)
		}
	}
	queues := []string{"open", "none", "full"}
	var sent []*Sent
	for i := range 300 {
		s, err := p.Send("", queues[i%3], i%2 == 0, amqp091.Publishing{Body: []byte("x")})
		if err != nil {
			t.Fatal(err)
		}
		sent = append(sent, s)
	}
	for i, s := range sent {
		if err := s.Confirmed(t.Context()); errors.Is(err, ErrRefused) != (i%3 == 2) || err != nil && i%3 != 2 {
			t.Errorf("a message to the queue %s: %v", queues[i%3], err)
		}
	}
	returned := p.Returned(append(sent, nil)...)
	for i, s := range sent {
		if why, ok := returned[s]; ok != (i%6 == 4) || ok && why == "" {
			t.Errorf("message %d to the queue %s came back: %v, %q", i, queues[i%3], ok, why)
		}
	}
	if again := p.Returned(sent...); len(again) > 0 {
		t.Errorf("%d messages came back twice", len(again))
	}

	conn.Cut()
	running.Wait()
	if !p.Broken() || p.Returned(sent...) != nil {
		t.Error("it is not broken")
	}
	if s, err := p.Send("", "open", false, amqp091.Publishing{}); err == nil {
		t.Errorf("a message was sent on a connection that was cut: %v", s)
	}
}

// TestHost checks that Host never reveals a password, even for invalid URLs.
func TestHost(t *testing.T) {
	if host, err := Host("amqp://user:secret@example.org/x"); host != "example.org:5672" || err != nil {
		t.Errorf("%q, %v", host, err)
	}
	for _, address := range []string{"http://user:secret@h", "amqp://user:secret@h:port", "amqp://user:secret%@h"} {
		if host, err := Host(address); err == nil || strings.Contains(fmt.Sprint(host, err), "secret") {
			t.Errorf("%s: %q, %v", address, host, err)
		}
	}
}
