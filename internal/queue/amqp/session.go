package amqp

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/amqplink"
	"github.com/rousehq/rouse/internal/queue"
)

// session is a connection with one channel on it. It ends when either breaks.
type session struct {
	conn   *amqplink.Conn
	ch     *amqp091.Channel
	closed chan struct{} // closed when it has ended
}

// dial opens a session on the channel that open returns, and declares the queue on it.
func (q *Queue) dial(ctx context.Context, open func(*amqplink.Conn) (*amqp091.Channel, error)) (*session, error) {
	conn, err := amqplink.Dial(ctx, amqplink.Options{URL: q.address, Name: "rouse", Timeout: q.opts.Timeout})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	defer conn.Limit(ctx)()
	s := &session{conn: conn, closed: make(chan struct{})}
	if s.ch, err = open(conn); err == nil {
		err = q.declare(s.ch)
	}
	if err != nil {
		conn.Cut()
		if !errors.Is(err, queue.ErrSettings) && !errors.Is(err, queue.ErrUnavailable) {
			err = fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
		}
		return nil, err
	}
	return s, nil
}

// watch waits for the end of the session, or of its life, in a goroutine that the caller owns, and closes closed.
func (s *session) watch(life context.Context) {
	_ = s.conn.Watch(life, nil, s.ch) // while the broker takes no messages, confirms do not come, and publishing times out
	close(s.closed)
}

// leave ends the session once the broker has done all that was written to it, or a second later.
func (s *session) leave() {
	late := time.AfterFunc(time.Second, s.conn.Cut)
	defer late.Stop()
	_ = s.ch.Close() // what was acknowledged is done before the broker answers; if it does not, it comes again
	s.conn.Cut()
}
