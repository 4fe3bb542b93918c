package reminder

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/notify"
)

const (
	// defaultHeartbeat is used if the service does not send an interval.
	defaultHeartbeat = 2 * time.Second
	leastHeartbeat   = 10 * time.Millisecond

	// silences is the number of heartbeats without a message after which the instance counts as lost.
	silences = 3

	// maxOut bounds the messages that wait to be sent: far more than there are executions, so that only an
	// instance that sends requests without receiving answers reaches it.
	maxOut = 1 << 16

	// byeTime bounds the orderly end of a stream.
	byeTime = 2 * time.Second
)

var (
	errSilent = errors.New("nothing was heard for three heartbeats")
	errDeaf   = errors.New("the instance sends executions, and does not take in answers")
)

// stream is a ConnectSidecar stream.
type stream struct {
	wire      grpc.BidiStreamingClient[reminderv1.SidecarStream, reminderv1.ReminderServiceStream]
	heartbeat time.Duration
	cut       context.CancelCauseFunc // ends it at once
	wake      chan struct{}           // there is something to send, or the end

	mu     sync.Mutex
	out    []*reminderv1.SidecarStream // to be sent next
	ending bool

	inHand int // executions; the hand's mutex guards it
}

// serveSidecar opens a stream and serves it until the stream or ctx ends. stood reports whether it received a
// table.
func (c *Client) serveSidecar(ctx context.Context, l *link, service reminderv1.ReminderServiceClient,
	heartbeat time.Duration) (stood bool, err error) {
	standing, cut := context.WithCancelCause(context.WithoutCancel(ctx)) // outlives ctx, for an orderly end
	defer cut(nil)
	wire, err := service.ConnectSidecar(standing)
	if err != nil {
		return false, errorFromGRPC(err)
	}
	s := &stream{wire: wire, heartbeat: heartbeat, cut: cut, wake: make(chan struct{}, 1)}
	s.enqueueMessage(&reminderv1.SidecarStream{SidecarMessage: &reminderv1.SidecarStream_Hello{
		Hello: &reminderv1.SidecarHello{Caller: c.caller, Concurrency: uint32(c.o.InHand)}}})
	var loops sync.WaitGroup
	loops.Go(func() { s.sendLoop(standing) })
	loops.Go(func() { s.closeInOrder(ctx, standing) })
	defer loops.Wait()
	defer cut(nil)
	silence := time.AfterFunc(silences*heartbeat, func() { cut(errSilent) })
	defer silence.Stop()
	for {
		m, err := wire.Recv()
		if err != nil {
			if stood {
				c.recordStreamEnd(l)
			}
			return stood, streamEndCause(ctx, standing, err)
		}
		silence.Reset(silences * heartbeat)
		switch m := m.GetReminderMessage().(type) {
		case *reminderv1.ReminderServiceStream_TokenBucketsUpdate:
			if stood {
				c.mu.Lock()
				c.storeTable(m.TokenBucketsUpdate)
				c.mu.Unlock()
			} else {
				c.recordStreamOpen(l, standing, m.TokenBucketsUpdate)
			}
			stood = true
		case *reminderv1.ReminderServiceStream_ExecuteReminderReq:
			c.hand.takeExecution(s, m.ExecuteReminderReq)
		}
	}
}

// streamEndCause returns why a stream ended.
func streamEndCause(ctx, standing context.Context, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), errYield):
		return errYield
	case errors.Is(context.Cause(standing), errSilent), errors.Is(context.Cause(standing), errDeaf):
		return context.Cause(standing)
	case errors.Is(err, io.EOF):
		return errors.New("the instance has ended the stream")
	}
	return errorFromGRPC(err)
}

// enqueueMessage has a message sent.
func (s *stream) enqueueMessage(m *reminderv1.SidecarStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.out) == maxOut {
		s.cut(errDeaf)
		return
	}
	s.out = append(s.out, m)
	s.wakeSender()
}

// queueOutcome sends the outcome of an execution.
func (s *stream) queueOutcome(r *reminderv1.ExecuteReminderResponse) {
	s.enqueueMessage(
		&reminderv1.SidecarStream{SidecarMessage: &reminderv1.SidecarStream_ExecuteReminderRes{ExecuteReminderRes: r}})
}

// closeInOrder closes the stream when ctx ends, after sending the remaining messages; after byeTime it is
// cut.
func (s *stream) closeInOrder(ctx, standing context.Context) {
	select {
	case <-standing.Done():
		return
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	s.wakeSender()
	late := time.NewTimer(byeTime)
	defer late.Stop()
	select {
	case <-standing.Done():
	case <-late.C:
		s.cut(context.Cause(ctx))
	}
}

func (s *stream) wakeSender() {
	notify.Send(s.wake)
}

// sendLoop sends the queued messages, and an empty one after each heartbeat without any, until the stream is
// over.
func (s *stream) sendLoop(ctx context.Context) {
	beat := time.NewTimer(s.heartbeat)
	defer beat.Stop()
	empty := &reminderv1.SidecarStream{SidecarMessage: &reminderv1.SidecarStream_EmptyMsg{EmptyMsg: &emptypb.Empty{}}}
	for {
		s.mu.Lock()
		out, ending := s.out, s.ending
		s.out = nil
		s.mu.Unlock()
		for _, m := range out {
			if s.wire.Send(m) != nil {
				return // the stream is over; Recv returns why
			}
		}
		if ending && len(out) == 0 {
			_ = s.wire.CloseSend()
			return
		}
		if len(out) > 0 {
			beat.Reset(s.heartbeat)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-beat.C:
			if s.wire.Send(empty) != nil {
				return
			}
			beat.Reset(s.heartbeat)
		}
	}
}
