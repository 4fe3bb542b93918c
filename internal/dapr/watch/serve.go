package watch

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
)

func tooMany(n int) error {
	return fmt.Errorf("%d watches are open, which is the most (setting dapr-connections): %w", n, rouse.ErrOverloaded)
}

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
	if err := s.join(st); err != nil {
		return err
	}
	defer s.leave(st, nil)
	if err := stream.SendHeader(nil); err != nil { // tells the client that the watch is open
		return err
	}
	s.mu.Lock()
	s.receivers.Go(func() { s.leave(st, s.receive(stream, st)) })
	s.mu.Unlock()
	return s.send(stream, st)
}

// most is the maximum number of triggers taken for writing at a time.
const most = 256

// send writes triggers until the stream is over.
func (s *Sink) send(stream schedulerv1.Scheduler_WatchJobsServer, st *stream) error {
	var list []*schedulerv1.WatchJobsResponse
	for {
		s.mu.Lock()
		if st.gone {
			s.mu.Unlock()
			return st.err
		}
		list = st.next(list[:0])
		var out []report
		if len(list) > 0 { // there is room for more behind them
			for _, key := range st.takes {
				out = s.pump(s.channel(key), out)
			}
		}
		s.mu.Unlock()
		finish(out)
		for _, m := range list {
			if err := stream.Send(m); err != nil {
				s.fail(&s.counts.SendFailed, st)
				return err
			}
		}
		if len(list) > 0 {
			continue
		}
		<-st.wake // the receiver ends when the stream does, and the sink's Close ends all
	}
}

// fail counts a stream that ends by its own error, unless it has ended already.
func (s *Sink) fail(count *uint64, st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !st.gone {
		*count++
	}
}

// next takes messages to write.
func (st *stream) next(list []*schedulerv1.WatchJobsResponse) []*schedulerv1.WatchJobsResponse {
	n := min(len(st.unsent), most)
	for _, t := range st.unsent[:n] {
		m := response(t.job)
		m.Id = t.id
		list = append(list, m)
	}
	clear(st.unsent[:n])
	if st.unsent = st.unsent[n:]; len(st.unsent) == 0 {
		st.unsent = nil
	}
	return list
}

// receive processes answers until the stream is over, and returns the error for the client.
func (s *Sink) receive(stream schedulerv1.Scheduler_WatchJobsServer, st *stream) error {
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF): // the client has closed its side, so it cannot answer anything
			return nil
		case err != nil:
			if ctx := stream.Context(); ctx.Err() != nil {
				return context.Cause(ctx)
			}
			s.fail(&s.counts.RecvFailed, st)
			return err
		}
		if m.GetResult() == nil {
			s.fail(&s.counts.RecvFailed, st)
			return rouse.Refuse("watch_job_request_type", "", "is no result", "send results after the first message, and use another stream for another watch")
		}
		if err := s.ack(st, m.GetResult()); err != nil {
			return err
		}
	}
}
