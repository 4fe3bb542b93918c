package server

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/rousehq/rouse"
)

// gRPC itself answers a message that cannot be read with an internal error, as soon as its codec fails. So ours does not fail:
// it leaves the error in the message that it was to fill, and the guard finds it there.

// reading is a message that is to be read.
type reading struct {
	message any
	err     error // why it could not be
}

// codec is gRPC's own, but for messages that are to be read.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*reading)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	r.err = c.CodecV2.Unmarshal(data, r.message)
	return nil
}

// read fills a message by a function that hands it to the codec.
func read(message any, by func(any) error) error {
	r := reading{message: message}
	if err := by(&r); err != nil {
		return err
	}
	if r.err != nil {
		return rouse.Refuse("request", "", "cannot be read: "+rouse.Shorten(r.err.Error(), rouse.MaxDetail), "send a message of rouse.v1, with texts in UTF-8")
	}
	return nil
}

// readableStream is a stream whose unreadable messages are the client's fault.
type readableStream struct{ grpc.ServerStream }

func (s readableStream) RecvMsg(m any) error { return read(m, s.ServerStream.RecvMsg) }
