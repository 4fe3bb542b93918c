package call

import (
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/hub"
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
	if err := s.joinApp(st); err != nil {
		return err
	}
	var header metadata.MD // even an empty header shows a sidecar that it is connected
	if s.opts.Node != "" {
		header = metadata.Pairs(NodeHeader, s.opts.Node)
	}
	if err := stream.SendHeader(header); err != nil {
		s.hub.Leave(st, err)
		return err
	}
	s.hub.Lock()
	s.hub.Go(func() { s.hub.Leave(st, s.receiveMessages(stream, st, first)) })
	s.hub.Go(func() { s.hub.Leave(st, s.sendQueued(stream, st)) })
	s.hub.Unlock()
	<-st.Of.over // returning ends the stream, and with it both goroutines, whatever they wait for
	return st.Err()
}

// sendQueued sends queued messages until the stream is over.
func (s *Sink) sendQueued(stream Stream, st *stream) error {
	beat := time.NewTicker(s.opts.Heartbeat / 2)
	defer beat.Stop()
	var update *reminderv1.TokenBucketsUpdate
	var requests []*reminderv1.ExecuteReminderRequest
	last := time.Now() // time of the last message
	pull := func() bool {
		update, requests = s.tableUpdate(st), s.takeRequests(st, requests[:0])
		return update != nil || len(requests) > 0 || time.Since(last) >= s.opts.Heartbeat/2
	}
	return s.hub.Send(stream.Context(), st, beat.C, pull, func() error {
		last = time.Now()
		if update == nil && len(requests) == 0 {
			return stream.Send(
				&reminderv1.ReminderServiceStream{ReminderMessage: &reminderv1.ReminderServiceStream_EmptyMsg{EmptyMsg: &emptypb.Empty{}}})
		}
		if update != nil {
			if err := stream.Send(
				&reminderv1.ReminderServiceStream{ReminderMessage: &reminderv1.ReminderServiceStream_TokenBucketsUpdate{TokenBucketsUpdate: update}}); err != nil {
				return err
			}
		}
		for _, r := range requests {
			if err := stream.Send(
				&reminderv1.ReminderServiceStream{ReminderMessage: &reminderv1.ReminderServiceStream_ExecuteReminderReq{ExecuteReminderReq: r}}); err != nil {
				return err
			}
			st.Wrote(1)
		}
		last = time.Now()
		return nil
	})
}

// bucketWait is how long the first table waits for a bucket of the sidecar's, to the next beat.
const bucketWait = 2 * time.Second

// tableUpdate returns the table if the sidecar does not have it. The first one is sent when the sidecar has a
// bucket to create reminders with, or has waited for one for long enough: while there is no leader, none is
// dealt, and the sidecar can execute due reminders.
func (s *Sink) tableUpdate(st *stream) *reminderv1.TokenBucketsUpdate {
	of := &st.Of
	switch {
	case of.fresh:
		return nil
	case of.told:
	case len(s.table.Giving(of.App, of.Address)) == 0 && (s.table.Generation == 0 || time.Since(of.came) < bucketWait):
		return nil
	default:
		s.openStream(st)
	}
	of.fresh = true
	return Update(s.table, of.App, s.instances)
}

// receiveMessages handles the sidecar's messages until the stream is over, and returns the error for the
// sidecar.
func (s *Sink) receiveMessages(stream Stream, st *stream, first *reminderv1.SidecarStream) error {
	if first.GetExecuteReminderRes() != nil {
		s.reportResult(st, first.GetExecuteReminderRes())
	}
	return hub.Receive(stream, func(m *reminderv1.SidecarStream) error {
		s.hub.Lock()
		st.Of.heard = time.Now()
		s.hub.Unlock()
		switch m := m.SidecarMessage.(type) {
		case *reminderv1.SidecarStream_ExecuteReminderRes:
			s.reportResult(st, m.ExecuteReminderRes)
		case *reminderv1.SidecarStream_Hello:
			return rouse.Refuse("hello", "", "comes in the middle", "say it first, and use another stream for another sidecar")
		}
		return nil
	})
}
