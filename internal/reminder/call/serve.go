package call

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
)

// NodeHeader is the header of ConnectSidecar with the instance that serves the stream: the sidecar may have
// connected through another address, such as a load balancer's.
const NodeHeader = "rouse-node"

// Stream is a ConnectSidecar.
type Stream = reminderv1.ReminderService_ConnectSidecarServer

// Serve serves an authenticated sidecar until its stream ends. first is the message that came with its
// registration, or nil.
func (s *Sink) Serve(stream Stream, c Client, concurrency uint32, first *reminderv1.SidecarStream) error {
	st := newStream(c, concurrency)
	if err := s.join(st); err != nil {
		return err
	}
	var header metadata.MD // even if empty, it tells a sidecar that it is connected
	if s.opts.Node != "" {
		header = metadata.Pairs(NodeHeader, s.opts.Node)
	}
	if err := stream.SendHeader(header); err != nil {
		s.leave(st, err)
		return err
	}
	s.mu.Lock()
	s.loops.Go(func() { s.leave(st, s.receive(stream, st, first)) })
	s.loops.Go(func() { s.leave(st, s.send(stream, st)) })
	s.mu.Unlock()
	<-st.over // returning ends the stream, and with it both goroutines, whatever they wait for
	return st.err
}

// send sends queued messages until the stream is over.
func (s *Sink) send(stream Stream, st *stream) error {
	beat := time.NewTicker(s.opts.Heartbeat / 2)
	defer beat.Stop()
	var requests []*reminderv1.ExecuteReminderRequest
	last := time.Now() // time of the last message
	for {
		s.mu.Lock()
		if st.gone {
			s.mu.Unlock()
			return nil
		}
		update := s.news(st)
		requests = s.assign(st, requests[:0])
		s.mu.Unlock()
		if update != nil {
			if err := stream.Send(&reminderv1.ReminderServiceStream{ReminderMessage: &reminderv1.ReminderServiceStream_TokenBucketsUpdate{TokenBucketsUpdate: update}}); err != nil {
				return err
			}
		}
		for _, r := range requests {
			if err := stream.Send(&reminderv1.ReminderServiceStream{ReminderMessage: &reminderv1.ReminderServiceStream_ExecuteReminderReq{ExecuteReminderReq: r}}); err != nil {
				return err
			}
		}
		if update != nil || len(requests) > 0 {
			last = time.Now()
			continue
		}
		if time.Since(last) >= s.opts.Heartbeat/2 {
			if err := stream.Send(&reminderv1.ReminderServiceStream{ReminderMessage: &reminderv1.ReminderServiceStream_EmptyMsg{EmptyMsg: &emptypb.Empty{}}}); err != nil {
				return err
			}
			last = time.Now()
		}
		select {
		case <-st.wake:
		case <-st.over:
		case <-beat.C:
		}
	}
}

// news returns the table if the sidecar does not have it. The first one is sent when the sidecar has a bucket
// to create reminders with.
func (s *Sink) news(st *stream) *reminderv1.TokenBucketsUpdate {
	if st.told {
		return nil
	}
	if st.ready = st.ready || len(s.table.Giving(st.App, st.Address)) > 0; !st.ready {
		return nil
	}
	st.told = true
	return Update(s.table, st.App, s.instances)
}

// receive handles the sidecar's messages until the stream is over, and returns the error for the sidecar.
func (s *Sink) receive(stream Stream, st *stream, first *reminderv1.SidecarStream) error {
	if first.GetExecuteReminderRes() != nil {
		s.answer(st, first.GetExecuteReminderRes())
	}
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF): // the sidecar has closed its side, so it cannot answer anything
			return nil
		case err != nil:
			if ctx := stream.Context(); ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		s.mu.Lock()
		st.heard = time.Now()
		s.mu.Unlock()
		switch m := m.SidecarMessage.(type) {
		case *reminderv1.SidecarStream_ExecuteReminderRes:
			s.answer(st, m.ExecuteReminderRes)
		case *reminderv1.SidecarStream_Hello:
			return rouse.Refuse("hello", "", "comes in the middle", "say it first, and use another stream for another sidecar")
		}
	}
}
