package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Creator creates timers through a stream with several batches in flight, which is the fastest way to create
// many. One goroutine sends and another one receives.
type Creator struct {
	stream    grpc.BidiStreamingClient[rousev1.BatchCreateRequest, rousev1.BatchCreateResponse]
	namespace string
	mode      Mode
	window    chan int // sizes of the batches in flight
	cancel    context.CancelFunc
}

// CreateStream opens a stream for timers of one namespace. Up to window batches, at least 1, are in flight.
// The stream ends with its last answer, Close, or the end of ctx.
func (c *Client) CreateStream(ctx context.Context, namespace string, mode Mode, window int) (*Creator, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := c.timers.CreateStream(ctx)
	if err != nil {
		cancel()
		return nil, errorFromGRPC(err)
	}
	return &Creator{stream: stream, namespace: namespace, mode: mode, window: make(chan int, max(1, window)),
		cancel: cancel}, nil
}

// Send sends a batch of up to rouse.MaxBatch timers. It blocks while the window is full, until Recv has taken
// an answer. After an error, Recv returns the error that ended the stream; batches without an answer have an
// unknown outcome.
func (c *Creator) Send(timers []NewTimer) error {
	select {
	case c.window <- len(timers):
	case <-c.stream.Context().Done():
		return errorFromGRPC(c.stream.Context().Err())
	}
	if err := c.stream.Send(batchRequest(c.namespace, c.mode, timers)); err != nil {
		if errors.Is(err, io.EOF) { // the stream is over; Recv returns why
			return fmt.Errorf("the stream has ended: %w", io.ErrClosedPipe)
		}
		return errorFromGRPC(err)
	}
	return nil
}

// CloseSend ends sending. Batches in flight are still answered.
func (c *Creator) CloseSend() error { return errorFromGRPC(c.stream.CloseSend()) }

// Recv returns the answers to the oldest batch that has none yet: an outcome for each timer. It returns
// io.EOF after CloseSend and the last answer.
func (c *Creator) Recv() ([]Created, error) {
	response, err := c.stream.Recv()
	if err != nil {
		c.cancel()
		if unanswered := len(c.window); errors.Is(err, io.EOF) && unanswered > 0 {
			return nil, fmt.Errorf("the service ended the stream before it answered %d batches: %w", unanswered,
				io.ErrUnexpectedEOF)
		}
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, errorFromGRPC(err)
	}
	select {
	case sent := <-c.window:
		if sent != len(response.Created) {
			c.cancel()
			return nil, fmt.Errorf("%d outcomes for %d timers", len(response.Created), sent)
		}
	default:
		c.cancel()
		return nil, errors.New("an answer to nothing")
	}
	return createdOf(response.Created), nil
}

// Close ends the stream at once.
func (c *Creator) Close() { c.cancel() }
