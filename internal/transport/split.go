// Package transport has the connections of a server: HTTP/1 and HTTP/2 share a port, and each connection has
// a slot, of which all and those of one address have a bound.
//
//	listener ─► Split ─► Conns.AdmitConn ─► Conn ─┬─ HTTP/2 ─► grpc.Server, with NewCodec ─► Message, Stream ┐
//	                                              └─ HTTP/1 ─► http.Server ─► ConnOf, WeighJSON ────────────┴─► Budget
//
// A message counts as memory, byte by byte as it arrives, and its decoded form before it is decoded. A Budget
// bounds the sum of all connections; at the bound the address that takes the most gives way. Refusals counts
// and logs each refusal.
package transport

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/rousehq/rouse/internal/backoff"
)

// preface is how an HTTP/2 connection begins, and thus every gRPC connection. No HTTP/1 request begins so.
var preface = []byte("PRI * HTTP/2.0")

// HandshakeTimeout is how long a connection may take to show its protocol.
const HandshakeTimeout = 5 * time.Second

// Split shares one listener between two servers: it reads the first bytes of each connection to choose one.
// Connections beyond the limits are closed immediately, which is clearer to clients than waiting in the
// backlog.
type Split struct {
	from   net.Listener
	tls    *tls.Config // nil: connections are in plain text
	http1  *handedConns
	http2  *handedConns
	conns  *Conns
	memory *Budget

	opening sync.WaitGroup
	mu      sync.Mutex
	open    map[*Conn]struct{} // connections whose protocol is unknown; nil when closed
}

// NewSplit returns a split of a listener; secure is nil if its connections are in plain text.
func NewSplit(from net.Listener, secure *tls.Config, conns *Conns, memory *Budget) *Split {
	return &Split{
		from:   from,
		tls:    secure,
		http1:  newHandedConns(from.Addr()),
		http2:  newHandedConns(from.Addr()),
		conns:  conns,
		memory: memory,
		open:   map[*Conn]struct{}{},
	}
}

// HTTP1 returns the listener of connections that are not HTTP/2.
func (s *Split) HTTP1() net.Listener { return s.http1 }

// HTTP2 returns the listener of connections of HTTP/2, and thus of gRPC.
func (s *Split) HTTP2() net.Listener { return s.http2 }

// Run accepts connections until Close. It retries temporary errors, such as a lack of descriptors.
func (s *Split) Run() error {
	defer s.opening.Wait()
	b := backoff.New(5*time.Millisecond, time.Second)
	for {
		conn, err := s.from.Accept()
		if err != nil {
			s.mu.Lock()
			closed := s.open == nil
			s.mu.Unlock()
			if closed {
				return nil
			}
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			select {
			case <-time.After(b.Next()):
			case <-s.http1.closed:
			}
			continue
		}
		b.Reset()
		if s.tls != nil {
			conn = tls.Server(conn, s.tls)
		}
		if c := s.conns.AdmitConn(conn, s.memory); c != nil {
			s.opening.Go(func() { s.dispatchConn(c) })
		}
	}
}

// Close stops accepting, and closes connections whose protocol is unknown.
func (s *Split) Close() {
	s.mu.Lock()
	open := s.open
	s.open = nil
	s.mu.Unlock()
	s.from.Close()
	for conn := range open {
		conn.abortConn()
	}
	s.http1.Close()
	s.http2.Close()
}

// dispatchConn passes a connection to the server of its protocol.
func (s *Split) dispatchConn(conn *Conn) {
	s.mu.Lock()
	if s.open == nil {
		s.mu.Unlock()
		conn.Close()
		return
	}
	s.open[conn] = struct{}{}
	s.mu.Unlock()

	two, err := false, conn.completeHandshake()
	if err == nil {
		two, err = conn.peekPreface()
	}

	s.mu.Lock()
	delete(s.open, conn)
	s.mu.Unlock()
	switch {
	case err != nil:
		conn.Close()
	case two:
		conn.head.skipHead()
		conn.meter.startHTTP2()
		s.http2.giveConn(conn)
	default:
		s.http1.giveConn(conn)
	}
}

// handedConns is a listener that returns the connections given to it.
type handedConns struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newHandedConns(addr net.Addr) *handedConns {
	return &handedConns{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (h *handedConns) giveConn(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.closed:
		c.Close()
	}
}

func (h *handedConns) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *handedConns) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (h *handedConns) Addr() net.Addr { return h.addr }
