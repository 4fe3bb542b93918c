package amqp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/queue"
)

// heartbeat is how often each side shows that it lives; twice that without a sign ends a connection.
const heartbeat = 10 * time.Second

// session is a connection with one channel on it. It ends when either breaks.
type session struct {
	conn   *amqp091.Connection
	wire   net.Conn
	ch     *amqp091.Channel
	closed chan struct{} // closed when it has ended
}

// wire gives up writing to a broker that does not read: one that is short of memory stops reading.
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

// dial opens a session and declares the queue on it.
func (q *Queue) dial(ctx context.Context) (*session, error) {
	s := &session{closed: make(chan struct{})}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(q.opts.Timeout)
	}
	properties := amqp091.NewConnectionProperties()
	properties.SetClientConnectionName("rouse")
	conn, err := amqp091.DialConfig(q.address, amqp091.Config{Heartbeat: heartbeat, Properties: properties, Locale: "en_US",
		Dial: func(network, addr string) (net.Conn, error) {
			d := net.Dialer{Deadline: deadline}
			raw, err := d.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			s.wire = &wire{raw, q.opts.Timeout}
			return s.wire, raw.SetReadDeadline(deadline) // of the handshake; the client takes it away afterwards
		}})
	if err != nil {
		if s.wire != nil {
			_ = s.wire.Close() // it may have been closed already
		}
		return nil, fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	s.conn = conn
	// The calls that follow have no deadline of their own.
	defer context.AfterFunc(ctx, s.cut)()
	if s.ch, err = conn.Channel(); err == nil {
		err = q.declare(s.ch)
	}
	if err != nil {
		s.cut()
		if !errors.Is(err, queue.ErrSettings) && !errors.Is(err, queue.ErrUnavailable) {
			err = fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
		}
		return nil, err
	}
	return s, nil
}

// watch waits for the end of the session, or of its life, in a goroutine that the caller owns, and lets everybody know.
func (s *session) watch(life context.Context) {
	conn := s.conn.NotifyClose(make(chan *amqp091.Error, 1))
	ch := s.ch.NotifyClose(make(chan *amqp091.Error, 1))
	select {
	case <-conn:
	case <-ch:
	case <-life.Done():
	}
	s.cut()
	close(s.closed)
}

// leave ends the session once the broker has done all that was written to it, or a second later.
func (s *session) leave() {
	late := time.AfterFunc(time.Second, s.cut)
	defer late.Stop()
	_ = s.ch.Close() // what was acknowledged is done before the broker answers; if it does not, it comes again
	s.cut()
}

// cut ends the connection without a word, as nothing may wait for a broker that does not listen.
func (s *session) cut() {
	if s.wire != nil {
		_ = s.wire.Close()
	}
	_ = s.conn.CloseDeadline(time.Now()) // ends the client's goroutines
}
