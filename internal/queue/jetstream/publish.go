package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/queue"
)

// maxPending is the maximum number of unconfirmed messages; further ones wait.
const maxPending = 4096

// Error codes of the server.
const (
	full     jetstream.ErrorCode = 10077 // the stream is full
	tooLarge jetstream.ErrorCode = 10054 // the message is larger than the stream's max_msg_size
)

// Publish publishes all messages concurrently, and waits for their confirms.
func (q *Queue) Publish(ctx context.Context, messages []queue.Message) []error {
	errs := make([]error, len(messages))
	futures := make([]jetstream.PubAckFuture, len(messages))
	ctx, cancel := context.WithTimeout(ctx, q.opts.Timeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	for i := range messages {
		if errs[i] = messages[i].Check(); errs[i] == nil {
			futures[i], errs[i] = q.sendAsync(ctx, &messages[i], deadline)
		}
	}
	for i, f := range futures {
		if errs[i] != nil {
			continue
		}
		select {
		case <-f.Ok():
		case err := <-f.Err():
			errs[i] = q.confirmError(err)
		case <-ctx.Done():
			select {
			case <-f.Ok(): // before that
			default:
				errs[i] = q.confirmError(ctx.Err())
			}
		}
	}
	return errs
}

// sendAsync passes one message to the connection, and waits for a connection.
func (q *Queue) sendAsync(ctx context.Context, m *queue.Message, deadline time.Time) (jetstream.PubAckFuture, error) {
	for {
		switch {
		case q.life.Err() != nil:
			return nil, queue.ErrClosed
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", queue.ErrUnavailable, ctx.Err())
		}
		msg := &nats.Msg{Subject: q.subject, Header: nats.Header{idHeader: {m.ID}}, Data: m.Body}
		if q.opts.Dedup {
			msg.Header.Set(jetstream.MsgIDHeader, m.ID)
		}
		// If no server answers for the stream, the client fails immediately; the retry is made here, not in
		// the client.
		f, err := q.js.PublishMsgAsync(msg, jetstream.WithStallWait(max(time.Until(deadline), time.Millisecond)),
			jetstream.WithRetryAttempts(0))
		if err == nil {
			return f, nil
		}
		if errors.Is(err, nats.ErrMaxPayload) {
			return nil, fmt.Errorf("%w: NATS accepts %d bytes (max_payload), and it has %d with its headers", queue.ErrRefused,
				q.conn.MaxPayload(), msg.Size())
		}
		if errors.Is(err, jetstream.ErrTooManyStalledMsgs) || !backoff.SleepOr(ctx, 20*time.Millisecond, q.life.Done()) {
			return nil, fmt.Errorf("%w: %w", queue.ErrUnavailable, err) // it was not sent
		}
	}
}

// idHeader is the header with the message's ID.
const idHeader = "Rouse-Id"

// confirmError interprets a failed confirm.
func (q *Queue) confirmError(err error) error {
	var answer *jetstream.APIError
	switch {
	case errors.As(err, &answer) && answer.ErrorCode == full:
		return queue.ErrFull
	case errors.As(err, &answer) && answer.ErrorCode == tooLarge:
		return fmt.Errorf("%w, because of max_msg_size of the stream: %w", queue.ErrRefused, err)
	case q.life.Err() != nil:
		return queue.ErrClosed
	case errors.As(err, &answer), errors.Is(err, jetstream.ErrNoStreamResponse): // the server refused it
		return fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", queue.ErrUnconfirmed, err)
}
