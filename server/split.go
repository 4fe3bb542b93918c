package server

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// preface is how an HTTP/2 connection, and so a gRPC one, begins. No HTTP/1 request does.
var preface = []byte("PRI * HTTP/2.0")

// handshakeTimeout is how long a connection may take to say which protocol it speaks.
const handshakeTimeout = 5 * time.Second

// split shares one listener between two servers: it reads the first bytes of each connection and hands it on. Connections
// beyond the limit are closed at once, which tells their clients more than a wait in the backlog would.
type split struct {
	from    net.Listener
	http1   *handed
	http2   *handed
	slots   chan struct{} // of connections
	refused func()        // called for a connection beyond the limit

	opening sync.WaitGroup
	mu      sync.Mutex
	open    map[net.Conn]struct{} // connections that have not said what they speak; nil when closed
}

func newSplit(from net.Listener, most int, refused func()) *split {
	return &split{from: from, http1: newHanded(from.Addr()), http2: newHanded(from.Addr()), slots: make(chan struct{}, most),
		refused: refused, open: map[net.Conn]struct{}{}}
}

// run accepts connections until close. Errors that pass, such as a lack of descriptors, are waited out.
func (s *split) run() error {
	defer s.opening.Wait()
	var wait time.Duration
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
			wait = min(max(2*wait, 5*time.Millisecond), time.Second)
			select {
			case <-time.After(wait):
			case <-s.http1.closed:
			}
			continue
		}
		wait = 0
		select {
		case s.slots <- struct{}{}:
			s.opening.Go(func() { s.hand(&slotConn{Conn: conn, slots: s.slots}) })
		default:
			conn.Close()
			s.refused()
		}
	}
}

// close stops accepting, and closes what has not said what it speaks.
func (s *split) close() {
	s.mu.Lock()
	open := s.open
	s.open = nil
	s.mu.Unlock()
	s.from.Close()
	for conn := range open {
		conn.Close()
	}
	s.http1.Close()
	s.http2.Close()
}

// hand finds out what a connection speaks.
func (s *split) hand(conn *slotConn) {
	s.mu.Lock()
	if s.open == nil {
		s.mu.Unlock()
		conn.Close()
		return
	}
	s.open[conn] = struct{}{}
	s.mu.Unlock()

	two, err := conn.peek()

	s.mu.Lock()
	delete(s.open, conn)
	s.mu.Unlock()
	switch {
	case err != nil:
		conn.Close()
	case two:
		s.http2.give(conn)
	default:
		s.http1.give(conn)
	}
}

// slotConn is a connection that has a slot until it is closed, and whose first bytes may have been read already.
type slotConn struct {
	net.Conn
	slots  chan struct{}
	once   sync.Once
	first  []byte // read by peek and not by the server yet
	prefix [16]byte
}

// peek reads until the bytes differ from the preface or are it.
func (c *slotConn) peek() (http2 bool, err error) {
	if err := c.SetReadDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return false, err
	}
	buf := c.prefix[:len(preface)]
	for n := 0; n < len(buf); {
		m, err := c.Conn.Read(buf[n:])
		n += m
		c.first = buf[:n]
		if !bytes.HasPrefix(preface, c.first) {
			return false, c.SetReadDeadline(time.Time{})
		}
		if n < len(buf) && err != nil {
			if n > 0 && errors.Is(err, io.EOF) {
				return false, nil // the server says what is wrong with it
			}
			return false, err
		}
	}
	return true, c.SetReadDeadline(time.Time{})
}

func (c *slotConn) Read(b []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(b, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

func (c *slotConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.slots })
	return err
}

// handed is a listener of connections that are given to it.
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
