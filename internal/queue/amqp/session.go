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

// session is a connection with one channel. It ends when either breaks.
type session struct {
	conn   *amqplink.Conn
	ch     *amqp091.Channel
	closed chan struct{} // closed at its end
}

// dialSession opens a session with the channel that open returns, and declares the queue.
func (q *Queue) dialSession(ctx context.Context, open func(*amqplink.Conn) (*amqp091.Channel,
	error)) (*session, error) {
	conn, err := amqplink.Dial(ctx, amqplink.Options{URL: q.address, Name: "rouse", Timeout: q.opts.Timeout})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	defer conn.Limit(ctx)()
	s := &session{conn: conn, closed: make(chan struct{})}
	if s.ch, err = open(conn); err == nil {
		err = q.declareQueue(s.ch)
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

// watchConnection waits for the end of the session, or of life, in a goroutine that the caller owns, and then
// closes closed.
func (s *session) watchConnection(life context.Context) {
	_ = s.conn.Watch(life, nil, s.ch) // if the broker blocks, confirms are missing and publishing times out
	close(s.closed)
}

// leaveBroker ends the session after the broker has processed everything written to it, or after a second.
func (s *session) leaveBroker() {
	late := time.AfterFunc(time.Second, s.conn.Cut)
	defer late.Stop()
	_ = s.ch.Close() // the broker processes acknowledgements before it answers; lost ones lead to another delivery
	s.conn.Cut()
}
