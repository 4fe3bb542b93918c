package amqp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// heartbeat is how often each side shows that it lives; twice that without a sign ends a connection.
const heartbeat = 10 * time.Second

// connection is one to the broker. Consuming and publishing have one each, as a broker that is short of memory stops reading from
// those that publish.
type connection struct {
	*amqp091.Connection
	wire    net.Conn
	timeout time.Duration
}

// wire gives up writing to a broker that does not read.
type wire struct {
	net.Conn
	patience time.Duration
}

func (w *wire) Write(b []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(w.patience)); err != nil {
		return 0, err
	}
	return w.Conn.Write(b)
}

func (c *Controller) dial(ctx context.Context, what string) (*connection, error) {
	deadline := time.Now().Add(c.config.Timeout)
	conn := &connection{timeout: c.config.Timeout}
	properties := amqp091.NewConnectionProperties()
	properties.SetClientConnectionName("rouse pool " + c.names.pool + " " + what)
	var err error
	conn.Connection, err = amqp091.DialConfig(c.config.URL, amqp091.Config{Heartbeat: heartbeat, Properties: properties, Locale: "en_US",
		Dial: func(network, addr string) (net.Conn, error) {
			d := net.Dialer{Deadline: deadline}
			raw, err := d.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			conn.wire = &wire{raw, c.config.Timeout}
			return conn.wire, raw.SetReadDeadline(deadline) // of the handshake; the client takes it away afterwards
		}})
	if err != nil {
		if conn.wire != nil {
			_ = conn.wire.Close() // it may have been closed already
		}
		var refused *amqp091.Error
		if errors.As(err, &refused) && (refused.Code == amqp091.AccessRefused || refused.Code == amqp091.NotAllowed) {
			return nil, fmt.Errorf("%w: RabbitMQ at %s does not let the user of amqp in: %s; look at its name, password and virtual host", ErrSetup, c.host, refused.Reason)
		}
		return nil, fmt.Errorf("connect to RabbitMQ at %s: %w", c.host, err)
	}
	return conn, nil
}

// watch ends the session when the connection does; what it returns waits for that.
func (c *connection) watch(cancel context.CancelCauseFunc) (wait func()) {
	closed := c.NotifyClose(make(chan *amqp091.Error, 1))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := <-closed; err != nil {
			cancel(fmt.Errorf("the connection broke: %w", err))
		} else {
			cancel(errors.New("the connection was closed"))
		}
	}()
	return func() { c.cut(); <-done }
}

// channel opens a channel.
func (c *connection) channel(ctx context.Context) (*amqp091.Channel, error) {
	defer c.limit(ctx)()
	ch, err := c.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	return ch, nil
}

// limit ends the connection if a call takes longer than it may, as calls of the client have no end of their own, and who does not
// answer in time does not at all. What it returns is called after the call.
func (c *connection) limit(ctx context.Context) (done func()) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	stop := context.AfterFunc(ctx, func() {
		if ctx.Err() != nil {
			c.cut()
		}
	})
	return func() { stop(); cancel() }
}

// cut ends the connection without a word, as nothing may wait for a broker that does not listen.
func (c *connection) cut() {
	_ = c.wire.Close()
	_ = c.CloseDeadline(time.Now()) // ends the client's goroutines
}
