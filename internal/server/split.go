package server

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

// handshakeTimeout is how long a connection may take to show its protocol.
const handshakeTimeout = 5 * time.Second

// split shares one listener between two servers: it reads the first bytes of each connection to choose one.
// Connections beyond the limits are closed immediately, which is clearer to clients than waiting in the
// backlog.
type split struct {
	from   net.Listener
	tls    *tls.Config // nil: connections are in plain text
	http1  *handed
	http2  *handed
	slots  *conns
	memory *budget

	opening sync.WaitGroup
	mu      sync.Mutex
	open    map[*slotConn]struct{} // connections whose protocol is unknown; nil when closed
}

func newSplit(from net.Listener, secure *tls.Config, slots *conns, memory *budget) *split {
	return &split{from: from, tls: secure, http1: newHanded(from.Addr()), http2: newHanded(from.Addr()), slots: slots, memory: memory,
		open: map[*slotConn]struct{}{}}
}

// run accepts connections until close. It retries temporary errors, such as a lack of descriptors.
func (s *split) run() error {
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
		if c := s.slots.admit(conn, s.memory); c != nil {
			s.opening.Go(func() { s.hand(c) })
		}
	}
}

// close stops accepting, and closes connections whose protocol is unknown.
func (s *split) close() {
	s.mu.Lock()
	open := s.open
	s.open = nil
	s.mu.Unlock()
	s.from.Close()
	for conn := range open {
		conn.abort()
	}
	s.http1.Close()
	s.http2.Close()
}

// hand passes a connection to the server of its protocol.
func (s *split) hand(conn *slotConn) {
	s.mu.Lock()
	if s.open == nil {
		s.mu.Unlock()
		conn.Close()
		return
	}
	s.open[conn] = struct{}{}
	s.mu.Unlock()

	two, err := false, conn.handshake()
	if err == nil {
		two, err = conn.peek()
	}

	s.mu.Lock()
	delete(s.open, conn)
	s.mu.Unlock()
	switch {
	case err != nil:
		conn.Close()
	case two:
		conn.head.skip()
		conn.meter.begin()
		s.http2.give(conn)
	default:
		s.http1.give(conn)
	}
}

// handed is a listener that returns the connections given to it.
type handed struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newHanded(addr net.Addr) *handed {
	return &handed{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (h *handed) give(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.closed:
		c.Close()
	}
}

func (h *handed) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *handed) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (h *handed) Addr() net.Addr { return h.addr }
