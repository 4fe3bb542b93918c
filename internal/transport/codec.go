package transport

import (
	"context"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/rousehq/rouse"
)

// If a codec fails, gRPC itself answers with an internal error. So this codec never fails: it stores the
// error in the message, where Message.Decode finds it.

// reading is a message to decode.
type reading struct {
	message any
	in      *Message
	size    int   // of the message
	err     error // why it could not be decoded
}

// Message is a message that a call received, and the memory that it takes until it is released.
type Message struct {
	memory *Budget
	conn   *Conn // nil if a Split has not accepted it
	held   int64 // bytes of memory
}

// NewMessage returns the message of a call that has none yet.
func NewMessage(ctx context.Context, memory *Budget) Message {
	return Message{memory: memory, conn: callerConn(ctx)}
}

// takeBytes reserves memory for the decoded message.
func (m *Message) takeBytes(n int64) bool {
	m.held += n
	return m.memory.TakeBytes(m.conn, n)
}

// Release gives the memory of the message back.
func (m *Message) Release() {
	if m.held != 0 {
		m.memory.GiveBytes(m.conn, m.held)
		m.held = 0
	}
}

// Decode decodes the message; receive passes its bytes to the codec of NewCodec.
func (m *Message) Decode(message any, receive func(any) error) error {
	_, err := m.decodeSize(message, receive)
	return err
}

func (m *Message) decodeSize(message any, receive func(any) error) (size int, err error) {
	r := reading{message: message, in: m}
	if err := receive(&r); err != nil {
		return r.size, err
	}
	return r.size, r.err
}

// messageCodec is gRPC's own codec, except for messages of type reading.
type messageCodec struct {
	encoding.CodecV2
	lists Lists
}

// NewCodec returns the codec of a gRPC server whose calls read their messages by Message and Stream: these
// take memory before they are decoded, and are refused if a list is too long.
func NewCodec(lists Lists) encoding.CodecV2 {
	return messageCodec{encoding.GetCodecV2(proto.Name), lists}
}

func (c messageCodec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*reading)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	r.size = data.Len()
	m, ok := r.message.(protobuf.Message)
	if !ok || r.size <= smallMessage {
		if r.in.takeBytes(int64(r.size) * smallCost) {
			r.err = refuseUnreadable(c.CodecV2.Unmarshal(data, r.message))
		} else {
			r.err = NewMemoryOverload()
		}
		return nil
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	cost, err := weighMessage(whole.ReadOnlyData(), m.ProtoReflect().Descriptor(), c.lists)
	switch {
	case err != nil:
		r.err = err
	case !r.in.takeBytes(cost):
		r.err = NewMemoryOverload()
	default:
		r.err = refuseUnreadable(protobuf.Unmarshal(whole.ReadOnlyData(), m))
	}
	return nil
}

func refuseUnreadable(err error) error {
	if err == nil {
		return nil
	}
	return rouse.Refuse("request", "", "cannot be read: "+rouse.Shorten(err.Error(), rouse.MaxDetail),
		"send a message of rouse.v1, with texts in UTF-8")
}
