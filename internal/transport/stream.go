package transport

import (
	"sync"

	"google.golang.org/grpc"
)

// Stream is a stream that blames the client for messages that cannot be decoded. A message counts as memory
// until the next one is read. A goroutine of the handler may read on after the handler returned; messages
// that it reads no longer count.
type Stream struct {
	grpc.ServerStream
	memory *Budget
	conn   *Conn // nil if a Split has not accepted it

	mu       sync.Mutex
	in       Message // the message that is being handled
	last     int64   // its bytes on the wire
	consumed int64   // bytes of the messages before it
	over     bool    // the handler has returned
}

// messagePrefix is the size of the prefix of each gRPC message.
const messagePrefix = 5

// NewStream returns a stream of a server that has the codec of NewCodec. Its handler has to call EndStream.
func NewStream(of grpc.ServerStream, memory *Budget) *Stream {
	return &Stream{ServerStream: of, memory: memory, conn: callerConn(of.Context())}
}

// RecvMsg receives a message.
func (s *Stream) RecvMsg(m any) error {
	s.replaceMessage(Message{}, 0)
	next := Message{memory: s.memory, conn: s.conn}
	size, err := next.decodeSize(m, s.ServerStream.RecvMsg)
	s.replaceMessage(next, int64(size)+messagePrefix)
	return err
}

// replaceMessage releases the memory of the previous message and accounts for the next one.
func (s *Stream) replaceMessage(next Message, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		next.Release()
		return
	}
	s.in.Release()
	if s.conn != nil && s.last > 0 {
		s.conn.meter.noteConsumed(s.last)
		s.consumed += s.last
	}
	s.in, s.last = next, size
}

// EndStream gives all memory back. It is called after the handler returned.
func (s *Stream) EndStream() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.in.Release()
	if s.conn != nil {
		s.conn.meter.noteConsumed(-s.consumed)
	}
}
