package server

import (
	"context"
	"sync"

	"google.golang.org/grpc/metadata"

	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/transport"
)

// guardedStream is the stream of a guarded call: its header has the service's clock, and the audit log has
// its subject.
type guardedStream struct {
	*transport.Stream
	ctx   context.Context    // has the principal, and ends when its credential does
	clock func() metadata.MD // the header with the service's clock
	told  sync.Once          // sets that header once
	call  *audit.Call
	opens bool // the event of the call is due when the response begins

	// reading owns the goroutine that waits for the first message of a caller whose credential may end; nil
	// if there is none. Handlers read the first message themselves, and the others in goroutines that they
	// leave.
	reading *background
}

// Context returns the context of the call.
func (s *guardedStream) Context() context.Context { return s.ctx }

// sendClockHeader sets the header with the service's clock unless it is set. It is called when the response
// begins, which may be long after the call began.
func (s *guardedStream) sendClockHeader() {
	s.told.Do(func() { _ = s.SetHeader(s.clock()) })
}

// SendHeader sends a header and adds the clock.
func (s *guardedStream) SendHeader(h metadata.MD) error {
	if len(h.Get(nowHeader)) == 0 {
		s.sendClockHeader()
	}
	s.told.Do(func() {})
	if err := s.auditOpened(); err != nil {
		return err
	}
	return s.ServerStream.SendHeader(h)
}

// SendMsg sends a message, after a header with the clock.
func (s *guardedStream) SendMsg(m any) error {
	s.sendClockHeader()
	if err := s.auditOpened(); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

// auditOpened ends the call in the audit log, if it is one that goes on.
func (s *guardedStream) auditOpened() error {
	if !s.opens {
		return nil
	}
	return s.call.End(s.ctx, nil, codesOf)
}

// RecvMsg receives a message. The wait for the first one ends with the credential, too.
func (s *guardedStream) RecvMsg(m any) error {
	own := s.reading
	if s.reading = nil; own == nil {
		return s.receiveMessage(m)
	}
	received := make(chan error, 1)
	own.Go(func() { received <- s.receiveMessage(m) })
	select {
	case err := <-received:
		return err
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

func (s *guardedStream) receiveMessage(m any) error {
	err := s.Stream.RecvMsg(m)
	noteSubject(s.call, m)
	return err
}

// refusedStream reads the message of a call that is refused, for its event, and gives it to no method.
type refusedStream struct {
	*guardedStream
	err error
}

// RecvMsg returns why the call is refused.
func (s refusedStream) RecvMsg(m any) error {
	_ = s.receiveMessage(m)
	return s.err
}
