// Package amqplink connects to RabbitMQ with bounded waits: dialing, calls and writes have a timeout. If the
// broker exceeds one, the connection is cut and the caller reconnects, with the delays of package backoff.
//
//	Dial ─► Conn ─► OpenChannel, Limit around each call ─► Watch returns why it ended
//	          └───► NewPublisher: messages with confirms and returns
//
// All uses of RabbitMQ go through this package, because the calls of the AMQP client take no context and no
// timeout.
package amqplink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// heartbeat is the interval of heartbeats. A connection ends after twice that without one.
const heartbeat = 10 * time.Second

// Options configure a connection.
type Options struct {
	URL     string        // amqp:// or amqps://, with user, password and virtual host
	Name    string        // of the connection, as RabbitMQ shows it
	Timeout time.Duration // of the handshake, of each write, and of each call between Limit and done
	TLS     *tls.Config   // of an amqps:// URL; default the client's own
}

// Host returns the host of a URL, without user and password. Its error does not contain the URL.
func Host(address string) (string, error) {
	u, err := amqp091.ParseURI(address)
	if err != nil {
		return "", errors.New(WithoutURL(err))
	}
	return net.JoinHostPort(u.Host, fmt.Sprint(u.Port)), nil
}

// WithoutURL returns the text of an error about a URL without the URL, which may contain a password.
func WithoutURL(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, ": "); i >= 0 {
		return text[i+2:]
	}
	return text
}

// Conn is a connection. Use separate ones for consuming and publishing: a broker short of memory stops
// reading from publishers.
type Conn struct {
	*amqp091.Connection
	wire    net.Conn
	timeout time.Duration
}

// wire limits the time of writes to a broker that does not read.
type wire struct {
	net.Conn
	timeout time.Duration
}

func (w *wire) Write(b []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
		return 0, err
	}
	return w.Conn.Write(b)
}

// Dial connects. It returns when the handshake is done, after the timeout, or when ctx ends.
func Dial(ctx context.Context, o Options) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	c := &Conn{timeout: o.Timeout}
	properties := amqp091.NewConnectionProperties()
	properties.SetClientConnectionName(o.Name)
	config := amqp091.Config{Heartbeat: heartbeat, Properties: properties, Locale: "en_US", TLSClientConfig: o.TLS}
	config.Dial = func(network, addr string) (net.Conn, error) {
		raw, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c.wire = &wire{raw, o.Timeout}
		deadline, _ := ctx.Deadline()
		return c.wire, raw.SetReadDeadline(deadline) // of the handshake; the client resets it after that
	}
	conn, err := amqp091.DialConfig(o.URL, config)
	if err != nil {
		if c.wire != nil {
			_ = c.wire.Close() // it may have been closed already
		}
		return nil, err
	}
	c.Connection = conn
	return c, nil
}

// Limit cuts the connection if the following call exceeds the timeout or ctx ends: amqp091 calls take no
// context. The caller calls done after the call.
func (c *Conn) Limit(ctx context.Context) (done func()) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	stop := context.AfterFunc(ctx, c.Cut)
	return func() { stop(); cancel() }
}

// OpenChannel opens a channel.
func (c *Conn) OpenChannel(ctx context.Context) (*amqp091.Channel, error) {
	defer c.Limit(ctx)()
	ch, err := c.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	return ch, nil
}

// Cut closes the connection without the closing handshake, because an unresponsive broker would delay it.
func (c *Conn) Cut() {
	_ = c.wire.Close()
	_ = c.CloseDeadline(time.Now()) // ends the client's goroutines
}

// Watch waits until the connection, one of the channels, or ctx ends. It then cuts the connection and returns
// the reason. It calls blocked with a reason when the broker stops accepting messages because of low memory
// or disk space, and with an empty one when that ends; blocked may be nil.
func (c *Conn) Watch(ctx context.Context, blocked func(reason string), channels ...*amqp091.Channel) error {
	ends := []<-chan *amqp091.Error{c.NotifyClose(make(chan *amqp091.Error, 1))}
	for _, ch := range channels {
		ends = append(ends, ch.NotifyClose(make(chan *amqp091.Error, 1)))
	}
	closed := make(chan *amqp091.Error, len(ends))
	for _, end := range ends {
		go func() { closed <- <-end }() // ends with the connection, which is cut below
	}
	blocking := c.NotifyBlocked(make(chan amqp091.Blocking, 1))
	open := len(ends)
	defer func() { // the client blocks until its notifications are received
		var reading sync.WaitGroup
		if blocking != nil {
			reading.Go(func() {
				for range blocking {
				}
			})
		}
		c.Cut()
		for range open {
			<-closed
		}
		reading.Wait()
	}()
	for {
		select {
		case b, ok := <-blocking:
			switch {
			case !ok:
				blocking = nil
			case blocked == nil:
			case b.Active:
				blocked(b.Reason)
			default:
				blocked("")
			}
		case err := <-closed:
			open--
			if err == nil {
				return errors.New("the connection was closed")
			}
			return fmt.Errorf("the connection broke: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Guard calls cancel with the reason when the connection ends. stop cuts the connection, and waits until
// cancel has been called.
func (c *Conn) Guard(cancel context.CancelCauseFunc) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		cancel(c.Watch(context.Background(), nil))
	}()
	return func() { c.Cut(); <-done }
}
