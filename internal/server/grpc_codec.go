package server

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/audit"
)

// If a codec fails, gRPC itself answers with an internal error. So this codec never fails: it stores the
// error in the message, where the guard finds it.

// reading is a message to decode.
type reading struct {
	message any
	in      *arrival
	size    int   // of the message
	err     error // why it could not be decoded
}

// arrival is a message that a call received, and the memory that it takes.
type arrival struct {
	memory *budget
	conn   *slotConn // nil in tests
	held   int64     // bytes of memory
}

// take reserves memory for the decoded message.
func (a *arrival) take(n int64) bool {
	a.held += n
	return a.memory.take(a.conn, n)
}

func (a *arrival) release() {
	if a.held != 0 {
		a.memory.give(a.conn, a.held)
		a.held = 0
	}
}

// callerConn returns the connection of a call.
func callerConn(ctx context.Context) *slotConn {
	if p, ok := peer.FromContext(ctx); ok {
		if at, ok := p.Addr.(remote); ok {
			return at.conn
		}
	}
	return nil
}

// messageCodec is gRPC's own codec, except for messages of type reading.
type messageCodec struct{ encoding.CodecV2 }

func newCodec() messageCodec { return messageCodec{encoding.GetCodecV2(proto.Name)} }

func (c messageCodec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*reading)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	r.size = data.Len()
	m, ok := r.message.(protobuf.Message)
	if !ok || r.size <= smallMessage {
		if r.in.take(int64(r.size) * smallCost) {
			r.err = unreadable(c.CodecV2.Unmarshal(data, r.message))
		} else {
			r.err = errMemory()
		}
		return nil
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	cost, err := weighMessage(whole.ReadOnlyData(), m.ProtoReflect().Descriptor())
	switch {
	case err != nil:
		r.err = err
	case !r.in.take(cost):
		r.err = errMemory()
	default:
		r.err = unreadable(protobuf.Unmarshal(whole.ReadOnlyData(), m))
	}
	return nil
}

func unreadable(err error) error {
	if err == nil {
		return nil
	}
	return rouse.Refuse("request", "", "cannot be read: "+rouse.Shorten(err.Error(), rouse.MaxDetail), "send a message of rouse.v1, with texts in UTF-8")
}

// read decodes a message; by passes its bytes to the codec.
func (a *arrival) read(message any, by func(any) error) error {
	_, err := a.readSize(message, by)
	return err
}

func (a *arrival) readSize(message any, by func(any) error) (size int, err error) {
	r := reading{message: message, in: a}
	if err := by(&r); err != nil {
		return r.size, err
	}
	return r.size, r.err
}

// readableStream is a stream that blames the client for messages that cannot be decoded. A message counts
// as memory until the next one is read. A goroutine of the handler may read on after the handler returned;
// what it reads no longer counts.
type readableStream struct {
	grpc.ServerStream
	ctx    context.Context    // has the principal, and ends when its credential does
	clock  func() metadata.MD // the header with the service's clock
	told   sync.Once          // sets that header once
	memory *budget
	conn   *slotConn // nil in tests
	call   *audit.Call
	opens  bool // the event of the call is due when the response begins

	// reading owns the goroutine that waits for the first message of a caller whose credential may end; nil
	// if there is none. Handlers read the first message themselves, and the others in goroutines that they
	// leave.
	reading *background

	mu       sync.Mutex
	in       arrival // the message that is being handled
	last     int64   // its bytes on the wire
	consumed int64   // bytes of the messages before it
	over     bool    // the handler has returned
}

// Context returns the context of the call.
func (s *readableStream) Context() context.Context { return s.ctx }

// messagePrefix is the size of the prefix of each gRPC message.
const messagePrefix = 5

// tell sets the header with the service's clock unless it is set. It is called when the response begins,
// which may be long after the call began.
func (s *readableStream) tell() {
	s.told.Do(func() { _ = s.SetHeader(s.clock()) })
}

// SendHeader sends a header and adds the clock.
func (s *readableStream) SendHeader(h metadata.MD) error {
	if len(h.Get(nowHeader)) == 0 {
		s.tell()
	}
	s.told.Do(func() {})
	if err := s.opened(); err != nil {
		return err
	}
	return s.ServerStream.SendHeader(h)
}

// SendMsg sends a message, after a header with the clock.
func (s *readableStream) SendMsg(m any) error {
	s.tell()
	if err := s.opened(); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

// opened ends the call in the audit log, if it is one that goes on.
func (s *readableStream) opened() error {
	if !s.opens {
		return nil
	}
	return s.call.End(s.ctx, nil, codesOf)
}

// RecvMsg receives a message. The wait for the first one ends with the credential, too.
func (s *readableStream) RecvMsg(m any) error {
	own := s.reading
	if s.reading = nil; own == nil {
		return s.receive(m)
	}
	received := make(chan error, 1)
	own.Go(func() { received <- s.receive(m) })
	select {
	case err := <-received:
		return err
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

func (s *readableStream) receive(m any) error {
	s.done(arrival{}, 0)
	next := arrival{memory: s.memory, conn: s.conn}
	size, err := next.readSize(m, s.ServerStream.RecvMsg)
	noteSubject(s.call, m)
	s.done(next, int64(size)+messagePrefix)
	return err
}

// refusedStream reads the message of a call that is refused, for its event, and gives it to no method.
type refusedStream struct {
	*readableStream
	err error
}

// RecvMsg returns why the call is refused.
func (s refusedStream) RecvMsg(m any) error {
	_ = s.receive(m)
	return s.err
}

// done releases the memory of the previous message and accounts for the next one.
func (s *readableStream) done(next arrival, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		next.release()
		return
	}
	s.in.release()
	if s.conn != nil && s.last > 0 {
		s.conn.meter.consumed(s.last)
		s.consumed += s.last
	}
	s.in, s.last = next, size
}

// end is called after the handler returned.
func (s *readableStream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.in.release()
	if s.conn != nil {
		s.conn.meter.consumed(-s.consumed)
	}
}
