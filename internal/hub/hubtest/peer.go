// Package hubtest has the other ends of streams, for tests of their servers.
package hubtest

import (
	"context"
	"io"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Peer is a client without a network, for tests in virtual time. It is the server's end of its stream, except
// for Send: a type that embeds a Peer keeps the messages that it is sent.
type Peer[Request any] struct {
	grpc.ServerStream
	Requests chan *Request // to the server; nil ends them
	Over     chan error    // the result of the server
	Cut      context.CancelFunc
	ctx      context.Context
}

// NewPeer returns a client that may send a number of requests before the server reads them.
func NewPeer[Request any](requests int) *Peer[Request] {
	p := &Peer[Request]{Requests: make(chan *Request, requests), Over: make(chan error, 1)}
	p.ctx, p.Cut = context.WithCancel(context.Background())
	return p
}

// Join runs the server's handler. It returns when the bubble is idle: the stream is open or over.
func (p *Peer[Request]) Join(serve func() error) {
	go func() {
		p.Over <- serve()
		p.Cut()
	}()
	synctest.Wait()
}

// Context ends with the stream.
func (p *Peer[Request]) Context() context.Context { return p.ctx }

// SendHeader does nothing.
func (p *Peer[Request]) SendHeader(metadata.MD) error { return nil }

// Recv returns the next request.
func (p *Peer[Request]) Recv() (*Request, error) {
	select {
	case r := <-p.Requests:
		if r == nil {
			return nil, io.EOF
		}
		return r, nil
	case <-p.ctx.Done():
		return nil, p.ctx.Err()
	}
}
