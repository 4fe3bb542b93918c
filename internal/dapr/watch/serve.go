package watch

import (
	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/hub"
)

// Serve serves a watch until it ends. Its errors are errors of package rouse or of the stream.
func (s *Sink) Serve(stream schedulerv1.Scheduler_WatchJobsServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.GetInitial() == nil {
		return rouse.Refuse("watch_job_request_type", "", "does not begin a watch", "send initial first")
	}
	st, err := newStream(first.GetInitial())
	if err != nil {
		return err
	}
	if err := s.joinChannels(st); err != nil {
		return err
	}
	defer func() { s.hub.Leave(st, err) }()
	if err = stream.SendHeader(nil); err != nil { // signals to the client that the watch is open
		return err
	}
	s.hub.Lock()
	s.hub.Go(func() { s.receiveResults(stream, st) })
	s.hub.Unlock()
	err = s.sendTriggers(stream, st)
	return err
}

// most is the maximum number of triggers taken for writing at a time.
const most = 256

// sendTriggers writes triggers until the stream is over.
func (s *Sink) sendTriggers(stream schedulerv1.Scheduler_WatchJobsServer, st *stream) error {
	var list []*schedulerv1.WatchJobsResponse
	pull := func() bool {
		list = list[:0]
		for t := range st.Queue() {
			if len(list) == most {
				break
			}
			named := t.Of.job
			list = append(list, &schedulerv1.WatchJobsResponse{Id: t.Of.id, Name: named.Name, Data: named.Job.Data,
				Metadata: named.Metadata})
			s.hub.MarkSent(t, hub.Never)
		}
		s.hub.Free(st) // there is room for more behind them
		return len(list) > 0
	}
	return s.hub.Send(stream.Context(), st, nil, pull, func() error {
		for _, m := range list {
			if err := stream.Send(m); err != nil {
				s.countStreamFailure(&s.counts.SendFailed, st)
				return err
			}
			st.Wrote(1)
		}
		return nil
	})
}

// receiveResults processes answers until the stream is over.
func (s *Sink) receiveResults(stream schedulerv1.Scheduler_WatchJobsServer, st *stream) {
	err := hub.Receive(stream, func(m *schedulerv1.WatchJobsRequest) error {
		if m.GetResult() == nil {
			return rouse.Refuse("watch_job_request_type", "", "is no result",
				"send results after the first message, and use another stream for another watch")
		}
		return s.handleResult(st, m.GetResult())
	})
	if err != nil && stream.Context().Err() == nil {
		s.countStreamFailure(&s.counts.RecvFailed, st)
	}
	s.hub.Leave(st, err)
}

// countStreamFailure counts a stream that ends by its own error, unless it has ended already.
func (s *Sink) countStreamFailure(count *uint64, st *stream) {
	s.hub.Lock()
	defer s.hub.Unlock()
	if !st.Gone() {
		*count++
	}
}
